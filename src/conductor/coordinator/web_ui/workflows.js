// View: the list of workflows, newest first, with the reason why each one waits, filters, and actions on many workflows.

import { mayOperate, mayStart } from "./access.js";
import { get, withQuery } from "./api.js";
import { ACTIONS, runAction } from "./bulk.js";
import { h, say } from "./dom.js";
import { firstSteps } from "./overview.js";
import { startDialog } from "./start.js";
import { ago, count, isOpen, now, setNow, since, span, status } from "./words.js";

const STATUSES = ["RUNNING", "PAUSED", "COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED"];
const SINCE = [["", "Any time"], ["1", "Last hour"], ["24", "Last 24 hours"], ["168", "Last 7 days"]];
const FILTERS = ["status", "name", "text", "input", "since", "from", "to", "top"];
const HOUR_MS = 3600000;
/** The id in "waits for sub-workflow NAME (ID)". Rows leave it out, because it is long and the page of the workflow links to it. */
const SUB_WORKFLOW_ID = / \([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)/;
/** Selected workflows: id → status. They may be on other pages. */
const chosen = new Map();
let chosenFor = null; // the filter that the selection belongs to
let names = null; // names of the registered workflows, for suggestions
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const label = (status) => status[0] + status.slice(1).replace("_", " ").toLowerCase();

export const title = () => "Workflows";
export const isLive = () => true;
export const usesEvents = true;

const momentOf = (text) => (text ? new Date(text).getTime() || null : null);

function filterOf(query) {
  const hours = Number(query.get("since"));
  return {
    status: query.get("status"), name: query.get("name"), text: query.get("text"), input: query.get("input"), topLevel: query.get("top"),
    startedFrom: hours ? Math.round((now() - hours * HOUR_MS) / 60000) * 60000 : momentOf(query.get("from")), startedTo: momentOf(query.get("to")),
  };
}

export async function load({ query }) {
  names ??= get("/api/metadata/workflow/names").catch(() => ((names = null), []));
  const [page, known] = await Promise.all([
    get(withQuery("/api/view/workflows", { ...filterOf(query), before: query.get("before"), total: true })), names]);
  setNow(page.nowMs);
  return { ...page, names: known ?? [] };
}

export function render(page, { query, go, refresh }) {
  const filter = FILTERS.map((name) => query.get(name)).join("\n");
  if (filter !== chosenFor) chosen.clear();
  chosenFor = filter;
  for (const one of page.results) if (chosen.has(one.workflowId)) chosen.set(one.workflowId, one.status);
  const total = `${page.total.toLocaleString("en")}${page.totalIsLimited ? "+" : ""}`;
  return [
    h("div", { class: "head" }, h("h1", null, "Workflows"), page.results.length ? h("span", { class: "quiet", "data-total": "" }, `${page.results.length.toLocaleString("en")} of ${total}`) : null,
      mayStart() && h("button", { class: "primary", type: "button", onclick: () => startDialog(query.get("name"), go) }, "Start a workflow …")),
    filters(page, query, go),
    page.results.length ? table(page, query, refresh, go) : nothing(page, query),
    pages(page, query),
  ];
}

function filters(page, query, go) {
  const change = (values) => {
    const next = new URLSearchParams(query);
    next.delete("before");
    for (const [name, value] of Object.entries(values)) value ? next.set(name, value) : next.delete(name);
    go(`/workflows${next.size ? `?${next}` : ""}`);
  };
  const current = query.get("status") ?? "";
  const button = (name, text) => h("button", { type: "button", "aria-pressed": String(current === name), onclick: () => change({ status: name }) }, text);
  const box = (name, text, more) => h("input", { name, "aria-label": text, placeholder: text, value: query.get(name) ?? "", onchange: (event) => change({ [name]: event.target.value.trim() }), ...more });
  const moment = (name, text) => h("label", { class: "inline" }, text, h("input", { type: "datetime-local", name, value: query.get(name) ?? "", onchange: (event) => change({ [name]: event.target.value, since: "" }) }));
  const set = FILTERS.filter((name) => query.get(name));
  return h("form", { class: "filters", onsubmit: (event) => (event.preventDefault(), document.activeElement?.blur()) },
    h("div", { class: "segments", role: "group", "aria-label": "Status" }, button("", "All"), STATUSES.map((one) => button(one, label(one))), current.includes(",") ? button(current, current.split(",").map(label).join(" or ")) : null),
    box("name", "Name", { list: "names" }), h("datalist", { id: "names" }, page.names.map((one) => h("option", { value: one }))),
    box("text", "Search", { title: "An id, or a part of a name, a correlation id or the reason of a failure" }),
    box("input", "Input, such as order.id=17", { title: "A part of the input, or field=value; fields inside objects are separated by dots", class: "long" }),
    h("select", { name: "since", "aria-label": "Started", onchange: (event) => change({ since: event.target.value, from: "", to: "" }) }, SINCE.map(([value, text]) => h("option", { value, selected: value === (query.get("since") ?? "") }, text))),
    h("details", { class: "inline", "data-key": "times", open: Boolean(query.get("from") || query.get("to")) }, h("summary", null, "From – to"), moment("from", "Started from "), moment("to", " to "), h("span", { class: "quiet" }, ` ${zone}`)),
    h("label", { class: "inline" }, h("input", { type: "checkbox", checked: query.get("top") === "true", onchange: (event) => change({ top: event.target.checked ? "true" : "" }) }), " Hide sub-workflows"),
    set.length ? h("button", { type: "button", class: "chip", onclick: () => go("/workflows") }, "Clear filters ✕") : null);
}

function nothing(page, query) {
  if (page.lookedAtEnough) return h("p", { class: "blank" }, "No match among the workflows searched so far. Older workflows may match.");
  if (FILTERS.some((name) => query.get(name)) || query.get("before")) return h("p", { class: "blank" }, "No workflow matches. ", h("a", { href: "/workflows" }, "Show all"));
  return firstSteps();
}

function table(page, query, refresh, go) {
  const ids = page.results.map((one) => one.workflowId);
  const all = ids.every((id) => chosen.has(id));
  const toggle = (some, on) => {
    for (const one of some) on ? chosen.set(one.workflowId, one.status) : chosen.delete(one.workflowId);
    refresh(true);
  };
  return [
    bulk(page, all, query, refresh),
    h("div", { class: "scroll" }, h("table", { class: "list workflows" },
      h("thead", null, h("tr", null,
        h("th", { class: "tick" }, h("input", { type: "checkbox", checked: all, "aria-label": "Select all on this page", onchange: (event) => toggle(page.results, event.target.checked) })),
        h("th", null, "Status"), h("th", null, "Workflow"), h("th", null, "Correlation id"), h("th", null, "Started"), h("th", { class: "number" }, "Duration"), h("th", { class: "wide" }, "Reason"), h("th", null, h("span", { class: "unseen" }, "Action")))),
      h("tbody", null, page.results.map((one) => row(one, toggle, go))))),
  ];
}

function row(one, toggle, go) {
  const href = `/execution/${one.workflowId}`;
  return h("tr", { "data-key": one.workflowId },
    h("td", { class: "tick" }, h("input", { type: "checkbox", checked: chosen.has(one.workflowId), "aria-label": `Select ${one.name} ${one.workflowId}`, onchange: (event) => toggle([one], event.target.checked) })),
    h("td", { class: "stat" }, status(one.status)),
    h("td", { class: "what" }, one.isSubWorkflow ? h("span", { class: "quiet", title: "Sub-workflow: started by another workflow" }, "↳ ") : null, h("a", { href, class: "strong" }, one.name), h("span", { class: "quiet" }, ` v${one.version}`), h("code", { class: "id" }, one.workflowId)),
    h("td", { class: "corr" }, one.correlationId ?? h("span", { class: "quiet" }, "–")),
    h("td", { class: "when" }, ago(one.startTime)),
    h("td", { class: "number" }, isOpen(one.status) ? since(one.startTime) : span(one.endTime - one.startTime)),
    h("td", { class: `wide whycell ${one.waiting?.urgent ? "bad" : ""}` }, (one.waiting?.sentence ?? "").replace(SUB_WORKFLOW_ID, "")),
    h("td", { class: "act" }, h("button", { type: "button", class: "small bare", title: "Start again with this input", "aria-label": `Start ${one.name} again with the input of ${one.correlationId ?? one.workflowId}`, onclick: () => startAgain(one, go) }, "↻")));
}

/** Start a new workflow with the input of an earlier one. */
async function startAgain(one, go) {
  const earlier = await get(`/api/workflow/${one.workflowId}?includeTasks=false`);
  await startDialog(one.name, go, { version: one.version, input: earlier.input, correlationId: one.correlationId, definition: earlier.workflowDefinition, text: "This starts a new workflow with the input of the earlier one, which you can change." });
}

function bulk(page, allOnPage, query, refresh) {
  if (!chosen.size || !mayOperate()) return null;
  const hasMore = page.totalIsLimited || page.total > page.results.length;
  const chooseAll = async () => {
    const found = await get(withQuery("/api/view/workflow-ids", filterOf(query)));
    for (const [id, status] of Object.entries(found.statuses)) chosen.set(id, status);
    if (found.hasMore) say(`More workflows match. Only the newest ${chosen.size.toLocaleString("en")} are selected.`);
    refresh(true);
  };
  return h("div", { class: "bulk", role: "group", "aria-label": "Actions for the selected workflows", "data-key": "bulk" },
    h("span", null, `${chosen.size.toLocaleString("en")} selected`),
    allOnPage && hasMore && chosen.size <= page.results.length ? h("button", { type: "button", class: "small", onclick: chooseAll }, page.totalIsLimited ? "Select all that match" : `Select all ${page.total.toLocaleString("en")} that match`) : null,
    ACTIONS.map((action) => {
      const ids = [...chosen].filter(([, status]) => action.applies(status)).map(([id]) => id);
      if (!ids.length) return null;
      return h("button", { type: "button", class: action.isBad ? "danger" : "", "data-key": action.name, onclick: async () => {
        if (!(await runAction(action, ids))) return;
        chosen.clear();
        refresh();
      } }, `${action.name} ${ids.length.toLocaleString("en")}`);
    }),
    h("button", { type: "button", "data-key": "clear", onclick: () => (chosen.clear(), refresh(true)) }, "Clear selection"));
}

function pages(page, query) {
  const next = new URLSearchParams(query);
  if (page.next) next.set("before", page.next);
  const first = new URLSearchParams(query);
  first.delete("before");
  return h("nav", { class: "pages", "aria-label": "Pages" },
    query.get("before") ? h("a", { href: `/workflows${first.size ? `?${first}` : ""}` }, "« Newest") : null,
    page.next ? h("a", { href: `/workflows?${next}`, rel: "next" }, page.lookedAtEnough ? "Search older workflows »" : "Older »") : null);
}
