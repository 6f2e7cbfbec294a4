// Forms and confirmations. A confirmation says what will happen; a message afterwards says what has happened.

import { h, say } from "./dom.js";

/**
 * Show a form; resolves to its values, or to null if it is cancelled.
 *
 * `check` turns the values into what the caller needs, or throws. With `work`, the dialog stays open until the work has
 * succeeded: an error of the server is shown in it, so that nothing typed is lost. Then `done` is shown as a message.
 * For the same reason, Escape does not close a dialog in which something was changed.
 */
export function ask({ title, text, fields = [], button = "OK", isBad = false, canCancel = true, check = null, work = null, done = null, isWide = false }) {
  return new Promise((resolve) => {
    let isBusy = false;
    let isChanged = false;
    const wrong = h("p", { class: "bad", role: "alert" });
    const send = h("button", { type: "submit", class: isBad ? "danger" : "primary" }, button);
    const form = h("form", { method: "dialog", oninput: () => (isChanged = true), onsubmit: async (event) => {
      event.preventDefault();
      if (isBusy) return;
      isBusy = true;
      wrong.textContent = "";
      for (const one of form.querySelectorAll("[aria-invalid]")) one.removeAttribute("aria-invalid");
      try {
        const values = valuesOf(form);
        const checked = check ? check(values) : values;
        if (work) {
          send.disabled = true;
          const result = await work(checked);
          if (done) say(typeof done === "function" ? done(result) : done);
        }
        resolve(checked);
        dialog.close();
      } catch (error) {
        wrong.textContent = error.message;
        error.element?.setAttribute("aria-invalid", "true");
        error.element?.focus();
      } finally {
        isBusy = send.disabled = false;
      }
    } },
    h("h2", { id: "asked" }, title), text ? h("p", null, text) : null, fields,
    h("div", { class: "buttons" }, wrong,
      canCancel ? h("button", { type: "button", onclick: () => dialog.close() }, "Cancel") : null, send));
    const dialog = h("dialog", { "aria-labelledby": "asked", class: isWide ? "broad" : null, onclose: () => (dialog.remove(), resolve(null)),
      onkeydown: (event) => {
        // Escape closes no dialog that needs an answer, and discards nothing that was typed.
        if (event.key !== "Escape" || (canCancel && !isChanged)) return;
        event.preventDefault();
        if (canCancel) wrong.textContent = "Press Cancel to discard your changes.";
      },
      oncancel: (event) => canCancel || event.preventDefault() }, form);
    document.body.append(dialog);
    dialog.showModal();
    form.querySelector("input, select, textarea")?.focus(); // not the buttons above the fields of a form
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
  return h("div", { class: type === "checkbox" ? "field check" : "field" }, h("label", { for: id }, label), input,
    hint ? h("small", { id: `${id}-hint`, class: "quiet" }, hint) : null);
}
