// Forms and confirmations. A confirmation says what will happen; a message afterwards says what has happened.

import { h, say } from "./dom.js";

/** Show a form; resolves to its values, or to null if it is cancelled. `problem` is shown above the fields. */
export function ask({ title, text, fields = [], button = "OK", isBad = false, canCancel = true, problem = null, check = null }) {
  return new Promise((resolve) => {
    const wrong = h("p", { class: "bad", role: "alert" }, problem ?? "");
    const form = h("form", { method: "dialog", onsubmit: (event) => {
      event.preventDefault();
      const values = valuesOf(form);
      try {
        const checked = check ? check(values) : values;
        dialog.close();
        resolve(checked);
      } catch (error) {
        wrong.textContent = error.message;
      }
    } },
    h("h2", { id: "asked" }, title), text ? h("p", null, text) : null, wrong, fields,
    h("div", { class: "buttons" },
      canCancel ? h("button", { type: "button", onclick: () => dialog.close() }, "Cancel") : null,
      h("button", { type: "submit", class: isBad ? "danger" : "primary" }, button)));
    const dialog = h("dialog", { "aria-labelledby": "asked", onclose: () => (dialog.remove(), resolve(null)),
      oncancel: (event) => canCancel || event.preventDefault() }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}

function valuesOf(form) {
  const values = {};
  for (const field of form.elements) if (field.name) values[field.name] = field.type === "checkbox" ? field.checked : field.value;
  return values;
}

/** A labelled field. */
export function field(label, name, { value = "", type = "text", rows = 0, options = null, hint = null, required = false } = {}) {
  const id = `field-${name}`;
  const hinted = hint ? { "aria-describedby": `${id}-hint` } : {};
  let input;
  if (options) input = h("select", { id, name, ...hinted }, options.map((one) => h("option", { value: one, selected: one === value }, String(one))));
  else if (rows) input = h("textarea", { id, name, rows, spellcheck: "false", required, ...hinted }, value);
  else if (type === "checkbox") input = h("input", { id, name, type, checked: value === true, ...hinted });
  else input = h("input", { id, name, type, value, required, autocomplete: "off", step: type === "number" ? "any" : null, ...hinted });
  return h("div", { class: "field" }, h("label", { for: id }, label), input,
    hint ? h("small", { id: `${id}-hint`, class: "quiet" }, hint) : null);
}

/** Parse a JSON object; the error says what is wrong with the text. */
export function objectOf(text, what) {
  if (!text.trim()) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is not JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error(`${what} must be a JSON object, like {"name": "Ada"}`);
  return value;
}

/** Do the work, and show the message `done` or the error. Returns whether the work succeeded. */
export async function act(done, work) {
  try {
    const result = await work();
    say(typeof done === "function" ? done(result) : done);
    return true;
  } catch (error) {
    say(error.message, true);
    return false;
  }
}
