// View: the audit trail, with filters. Also the section with the actions on one workflow.

import { get, withQuery } from "./api.js";
import { mayOperate } from "./access.js";
import { h } from "./dom.js";
import { ago } from "./words.js";

const PAGE = 100;
const SHOWN_OF_WORKFLOW = 20;

export const title = () => "Audit";
export const isLive = () => false;

export async function load({ query }) {
  const filters = Object.fromEntries(["workflowId", "action", "key", "before"].map((name) => [name, query.get(name)]));
  return { filters, ...(await get(withQuery("/api/view/audit", { ...filters, size: PAGE }))) };
}

export function render({ entries, next, filters }, { go }) {
  const search = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(["workflowId", "action", "key"].map((name) => [name, event.target.elements[name].value.trim()]));
    go(withQuery("/audit", values));
  };
  const input = (label, name) => h("label", null, label, " ", h("input", { name, value: filters[name] ?? "", autocomplete: "off" }));
  return [
    h("h1", null, "Audit"),
    h("p", { class: "quiet" }, "Which key did what, and from which address. Polls and reports of workers are not recorded."),
    h("form", { class: "filters", "aria-label": "Filters", onsubmit: search },
      input("Action", "action"), input("Key", "key"), input("Workflow id", "workflowId"), h("button", { type: "submit" }, "Filter")),
    entries.length ? table(entries, true) : h("p", { class: "quiet empty" }, Object.values(filters).some(Boolean) ? "No actions match." : "No actions are recorded yet."),
    next ? h("p", null, h("a", { href: withQuery("/audit", { ...filters, before: next }) }, "Older actions")) : null,
  ];
}

/** The newest actions on one workflow; null if the key may not read them, or the workflow was removed meanwhile. */
export async function loadOfWorkflow(id) {
  if (!mayOperate()) return null;
  return get(withQuery("/api/view/audit", { workflowId: id, size: SHOWN_OF_WORKFLOW })).catch(() => null);
}

/** The section of the execution view with the actions on its workflow. */
export function cardOfWorkflow(page, id) {
  if (!page?.entries.length) return null;
  return h("section", { class: "card audit", "aria-label": "Audit" }, h("h2", null, "Audit"), table(page.entries, false),
    h("p", null, h("a", { href: withQuery("/audit", { workflowId: id }) }, "All actions")));
}

function table(entries, withSubject) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Actions, scrollable" }, h("table", { class: "list cards" },
    h("thead", null, h("tr", null, ["Time", "Action", "By", withSubject ? "On" : null, "Reason"].filter(Boolean).map((name) => h("th", null, name)))),
    h("tbody", null, entries.map((one, at) => h("tr", { "data-key": `${one.atMs}-${at}` },
      h("td", { class: "when" }, ago(one.atMs)),
      h("td", { "data-label": "Action" }, one.action),
      h("td", { class: "text", "data-label": "By" }, one.key ? h("strong", null, one.key) : "no key", " ", h("span", { class: "quiet" }, one.address, one.workerId ? `, ${one.workerId}` : null)),
      withSubject ? h("td", { class: "text", "data-label": "On" }, one.workflowId ? h("a", { href: `/execution/${one.workflowId}` }, one.subject) : one.subject) : null,
      h("td", { class: withSubject ? "wide" : "text", "data-label": "Reason" }, one.reason ?? "–"))))));
}
