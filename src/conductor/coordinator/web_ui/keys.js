// View: the keys of the API, for admins. A secret is shown once, when it is created.

import { ask, field } from "./dialogs.js";
import { call, get, post, remove } from "./api.js";
import { h } from "./dom.js";
import { ago, command, exactly } from "./words.js";

const ROLES = {
  viewer: "read workflows, tasks, definitions and queues",
  worker: "poll and report tasks",
  starter: "start registered workflows",
  operator: "act on workflows, complete tasks, manage schedules",
  admin: "everything, also definitions, secrets and keys",
  metrics: "only GET /metrics, with a static token",
};
const OVERLAPS = { "1 day": 86400, "1 hour": 3600, "7 days": 7 * 86400, "30 days": 30 * 86400, "none: the old secret ends at once": 0 };

export const title = () => "Keys";
export const isLive = () => false;
export const load = () => get("/api/keys");

export function render(keys, { refresh }) {
  return [
    h("div", { class: "head" }, h("h1", null, "Keys"), h("button", { type: "button", class: "primary", onclick: () => createDialog(refresh, keys) }, "Create a key …")),
    h("p", { class: "quiet" }, "Each program and each person has a key with the smallest role that it needs."),
    keys.length ? h("div", { class: "scroll" }, h("table", { class: "list cards" },
      h("thead", null, h("tr", null, ["Name", "Roles", "Task types", "Secrets"].map((name) => h("th", null, name)), h("th", null, h("span", { class: "unseen" }, "Actions")))),
      h("tbody", null, keys.map((one) => h("tr", { "data-key": one.name },
        h("th", { scope: "row" }, h("code", null, one.name)),
        h("td", { "data-label": "Roles" }, one.roles.join(", ")),
        h("td", { class: "text", "data-label": "Task types" }, one.taskTypes?.join(", ") ?? "–"),
        h("td", { class: "text", "data-label": "Secrets" }, one.isConfigured ? "environment of the coordinator" : one.secrets.map((secret, at) => h("div", { "data-key": at }, describe(secret)))),
        h("td", { class: "act" }, one.isConfigured ? null : h("div", { class: "buttons" },
          h("button", { type: "button", class: "small", "aria-label": `Rotate ${one.name}`, onclick: () => rotateDialog(one, refresh) }, "Rotate …"),
          h("button", { type: "button", class: "small danger", "aria-label": `Revoke ${one.name}`, onclick: () => revokeDialog(one, refresh) }, "Revoke")))))))) : h("div", { class: "blank" }, h("h2", null, "No keys yet"),
      h("p", null, "Every request is admitted. The first key must have the role admin: from then on every request needs a key. From a terminal:"),
      command("conductor-worker", "key", "create", "ada", "--role", "admin")),
  ];
}

function describe(secret) {
  return ["created ", ago(secret.createdTime), secret.expiresTime ? `, ends ${exactly(secret.expiresTime)}` : null, secret.lastUsedTime ? [", used ", ago(secret.lastUsedTime)] : ", not used since the start"];
}

async function createDialog(refresh, keys) {
  const isFirst = keys.length === 0;
  let made = null;
  const asked = await ask({
    title: "Create a key", button: "Create",
    text: isFirst ? "This is the first key. From now on every request needs a key, and this tab asks for it." : null,
    fields: [
      field("Name", "name", { required: true, hint: "Programs use it as CONDUCTOR_AUTH_KEY." }),
      h("fieldset", null, h("legend", null, "Roles"), Object.entries(ROLES).map(([role, may]) => field(role, `role-${role}`, { type: "checkbox", value: isFirst && role === "admin", hint: may }))),
      field("Task types of a worker, separated by commas", "types", { hint: "Empty: all task types." }),
    ],
    check: (values) => {
      const roles = Object.keys(ROLES).filter((role) => values[`role-${role}`]);
      if (!roles.length) throw new Error("Choose at least one role.");
      const types = values.types.split(",").map((one) => one.trim()).filter(Boolean);
      return { name: values.name.trim(), roles, ...(types.length ? { taskTypes: types } : {}) };
    },
    work: async (wanted) => (made = await post("/api/keys", wanted)),
  });
  if (!asked) return;
  await showSecret(made);
  refresh();
}

async function rotateDialog(one, refresh) {
  let made = null;
  const asked = await ask({
    title: `Rotate ${one.name}`, button: "Rotate", text: "The key gets a new secret. The old one stays valid for the overlap, so that you can change the programs.",
    fields: [field("Overlap", "overlap", { options: Object.keys(OVERLAPS), value: "1 day" })],
    work: async ({ overlap }) => (made = await call("POST", `/api/keys/${encodeURIComponent(one.name)}/rotate`, { overlapSeconds: OVERLAPS[overlap] })),
  });
  if (!asked) return;
  await showSecret(made);
  refresh();
}

/** Show a new secret. No later answer contains the secret, so the dialog closes only with its button. */
const showSecret = (made) => ask({
  title: `The ${made.token ? "token" : "secret"} of ${made.name}`, button: "I have stored it", canCancel: false, isWide: true,
  text: "It is shown only now. Store it where the program reads it.",
  fields: [h("pre", { class: "secret", tabindex: "0" }, made.token ?? `CONDUCTOR_AUTH_KEY=${made.name}\nCONDUCTOR_AUTH_SECRET=${made.secret}`)],
});

async function revokeDialog(one, refresh) {
  const text = "Its tokens, polls and streams end at once. Tasks that its workers hold go to other workers when their leases expire.";
  if (await ask({ title: `Revoke ${one.name}?`, text, button: "Revoke", isBad: true, work: () => remove(`/api/keys/${encodeURIComponent(one.name)}`), done: `${one.name} is revoked.` })) refresh();
}
