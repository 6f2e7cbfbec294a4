// View: the names of the secrets. Users can set values, but the view never shows them.

import { isAdmin } from "./access.js";
import { ask, field } from "./dialogs.js";
import { call, get, remove } from "./api.js";
import { h } from "./dom.js";
import { command } from "./words.js";

export const title = () => "Secrets";
export const isLive = () => false;

export async function load() {
  const [found, workflows] = await Promise.all([get("/api/view/secrets"), get("/api/metadata/workflow")]);
  const users = new Map(found.secrets.map(({ name }) => [name, new Set()]));
  for (const one of workflows) for (const [, name] of JSON.stringify(one).matchAll(/\$\{workflow\.secrets\.([A-Za-z0-9_-]+)\}/g)) {
    if (!users.has(name)) users.set(name, new Set());
    users.get(name).add(one.name);
  }
  const known = new Set(found.secrets.map(({ name }) => name));
  return { ...found, users, missing: [...users.keys()].filter((name) => !known.has(name)).sort() };
}

export function render({ secrets, areStored, users, missing }, { refresh }) {
  return [
    h("div", { class: "head" }, h("h1", null, "Secrets"), isAdmin() && h("button", { type: "button", class: "primary", onclick: () => setDialog("", refresh, secrets) }, "Add a secret …")),
    h("p", { class: "quiet" }, "A task receives the value of ", h("code", null, "${workflow.secrets.NAME}"), ". Values are never shown."),
    areStored ? null : h("p", { class: "why" }, "Secrets that are set here are lost when the coordinator stops. To store them encrypted, start it with CONDUCTOR_SECRETS_KEY."),
    missing.map((name) => h("div", { class: "alarm missing", "data-key": `missing-${name}` }, h("span", null, h("strong", null, name), " is not set, but ", links(users.get(name)), " needs it. Its value is null."),
      isAdmin() && h("button", { type: "button", class: "small", "aria-label": `Set ${name}`, onclick: () => setDialog(name, refresh) }, "Set …"))),
    secrets.length ? h("div", { class: "scroll" }, h("table", { class: "list cards" },
      h("thead", null, h("tr", null, h("th", null, "Name"), h("th", null, "From"), h("th", { class: "wide" }, "Used by"), h("th", null, h("span", { class: "unseen" }, "Actions")))),
      h("tbody", null, secrets.map((one) => h("tr", { "data-key": one.name }, h("th", { scope: "row" }, h("code", null, one.name)), h("td", { "data-label": "From" }, source(one)), h("td", { class: "wide", "data-label": "Used by" }, users.get(one.name).size ? links(users.get(one.name)) : "–"),
        h("td", { class: "act" }, isAdmin() && h("div", { class: "buttons" }, h("button", { type: "button", class: "small", "aria-label": `Set ${one.name}`, onclick: () => setDialog(one.name, refresh) }, "Set …"),
          one.fromApi ? h("button", { type: "button", class: "small danger", "aria-label": `Delete ${one.name}`, onclick: () => deleteDialog(one, refresh) }, "Delete") : null))))))) : h("div", { class: "blank" }, h("h2", null, "No secrets yet"), isAdmin() && h("p", null, "Add one above, or from a terminal:"),
      isAdmin() && command("curl", "-X", "PUT", "--json", '"VALUE"', `${location.origin}/api/secrets/NAME`)),
  ];
}

const source = (one) => (one.fromApi ? (one.fromEnvironment ? "API (overrides the environment)" : "API") : "environment of the coordinator");
const links = (names) => [...names].slice(0, 10).map((name, at) => [at ? ", " : null, h("a", { href: `/workflowDef/${encodeURIComponent(name)}` }, name)]);

async function setDialog(name, refresh, known = []) {
  const asked = await ask({
    title: name ? `Set ${name}` : "Add a secret", button: "Save", text: name ? "The new value replaces the old one. Tasks that start from now on receive it." : null,
    fields: [name ? null : field("Name", "name", { required: true, hint: "Letters, digits, _ and -" }), field("Value", "value", { type: "password", required: true })],
    check: (values) => {
      const key = name || values.name.trim();
      if (known.some((one) => one.name === key)) throw new Error(`A secret with the name ${key} exists already. To replace its value, press Set in its row.`);
      return { name: key, value: values.value };
    },
    work: ({ name: key, value }) => call("PUT", `/api/secrets/${encodeURIComponent(key)}`, value), done: "The secret is saved.",
  });
  if (asked) refresh();
}

async function deleteDialog(one, refresh) {
  const text = one.fromEnvironment ? "Tasks receive the value of the coordinator's environment again." : "Tasks that need it receive null.";
  if (await ask({ title: `Delete ${one.name}?`, text, button: "Delete", isBad: true, work: () => remove(`/api/secrets/${encodeURIComponent(one.name)}`), done: `${one.name} is deleted.` })) refresh();
}
