// View: the list of workflows, newest first, with the reason why each one waits.

import { act, ask, field } from "./dialogs.js";
import { get, post, withQuery } from "./api.js";
import { h } from "./dom.js";
import { startDialog } from "./start.js";
import { ago, count, isOpen, setNow, since, span, status } from "./words.js";

const STATUSES = ["RUNNING", "PAUSED", "COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED"];
const chosen = new Set();
const label = (status) => status[0] + status.slice(1).replace("_", " ").toLowerCase();

export const title = () => "Workflows";

export async function load({ query }) {
  const page = await get(withQuery("/api/view/workflows", { status: query.get("status"), name: query.get("name"), text: query.get("text"), before: query.get("before") }));
  setNow(page.nowMs);
  return page;
}

export const isLive = () => true;

export function render(page, { query, go, refresh }) {
  const shown = new Set(page.results.map((one) => one.workflowId));
  for (const id of chosen) if (!shown.has(id)) chosen.delete(id);
  return [
    h("div", { class: "head" }, h("h1", null, "Workflows"),
      h("button", { class: "primary", type: "button", onclick: () => startDialog(query.get("name"), go) }, "Start a workflow …")),
    filters(query, go),
    page.results.length ? table(page, refresh) : nothing(page, query),
    pages(page, query),
  ];
}

function filters(query, go) {
  const set = (name, value) => {
    const next = new URLSearchParams(query);
    next.delete("before");
    value ? next.set(name, value) : next.delete(name);
    go(`/${next.size ? `?${next}` : ""}`);
  };
  const current = query.get("status") ?? "";
  const button = (name, text) => h("button", { type: "button", "aria-pressed": String(current === name), onclick: () => set("status", name) }, text);
  const name = query.get("name");
  const text = query.get("text");
  return h("div", { class: "filters" },
    h("div", { class: "segments", role: "group", "aria-label": "Status" }, button("", "All"), STATUSES.map((one) => button(one, label(one)))),
    name ? h("button", { type: "button", class: "chip", onclick: () => set("name", "") }, `name: ${name} ✕`) : null,
    text ? h("button", { type: "button", class: "chip", onclick: () => set("text", "") }, `search: ${text} ✕`) : null);
}

function nothing(page, query) {
  if (page.lookedAtEnough) return h("p", { class: "quiet" }, "No match among the workflows searched so far.");
  const isFiltered = ["status", "name", "text", "before"].some((one) => query.get(one));
  if (isFiltered) return h("p", { class: "blank" }, "No workflow matches. ", h("a", { href: "/" }, "Show all"));
  return h("div", { class: "blank" }, h("h2", null, "No workflows yet"),
    h("p", null, "Start a workflow above, or from a program: ", h("code", null, "OrkesClients().get_workflow_client().start_workflow_by_name(…)"), ". The workflow appears here automatically."));
}

function table(page, refresh) {
  const ids = page.results.map((one) => one.workflowId);
  const all = ids.every((id) => chosen.has(id));
  const toggle = (some, on) => {
    for (const id of some) on ? chosen.add(id) : chosen.delete(id);
    refresh(true);
  };
  return [
    bulk(page, refresh),
    h("div", { class: "scroll" }, h("table", { class: "list workflows" },
      h("thead", null, h("tr", null,
        h("th", { class: "tick" }, h("input", { type: "checkbox", checked: all, "aria-label": "Select all on this page", onchange: (event) => toggle(ids, event.target.checked) })),
        h("th", null, "Status"), h("th", null, "Workflow"), h("th", null, "Correlation id"), h("th", null, "Started"), h("th", { class: "number" }, "Duration"), h("th", { class: "wide" }, "Reason"))),
      h("tbody", null, page.results.map((one) => row(one, toggle))))),
  ];
}

function row(one, toggle) {
  const href = `/execution/${one.workflowId}`;
  return h("tr", { "data-key": one.workflowId },
    h("td", { class: "tick" }, h("input", { type: "checkbox", checked: chosen.has(one.workflowId), "aria-label": `Select ${one.name} ${one.workflowId}`, onchange: (event) => toggle([one.workflowId], event.target.checked) })),
    h("td", { class: "stat" }, status(one.status)),
    h("td", { class: "what" }, one.isSubWorkflow ? h("span", { class: "quiet", title: "Sub-workflow: started by another workflow" }, "↳ ") : null, h("a", { href, class: "strong" }, one.name), h("span", { class: "quiet" }, ` v${one.version}`), h("code", { class: "id" }, one.workflowId)),
    h("td", { class: "corr" }, one.correlationId ?? h("span", { class: "quiet" }, "–")),
    h("td", { class: "when" }, ago(one.startTime)),
    h("td", { class: "number" }, isOpen(one.status) ? since(one.startTime) : span(one.endTime - one.startTime)),
    h("td", { class: `wide whycell ${one.waiting?.urgent ? "bad" : ""}` }, one.waiting?.sentence ?? ""));
}

function bulk(page, refresh) {
  const picked = page.results.filter((one) => chosen.has(one.workflowId));
  if (!picked.length) return null;
  const failed = picked.filter((one) => ["FAILED", "TIMED_OUT", "TERMINATED"].includes(one.status)).map((one) => one.workflowId);
  const open = picked.filter((one) => isOpen(one.status)).map((one) => one.workflowId);
  const run = async (path, ids, word) => {
    const done = (answer) => {
      const bad = Object.entries(answer.bulkErrorResults ?? {});
      return `${count(answer.bulkSuccessfulResults.length, "workflow")} ${word}${bad.length ? `; ${bad.length} failed: ${bad[0][1]}` : ""}`;
    };
    if (await act(done, () => post(path, ids))) chosen.clear();
    refresh();
  };
  return h("div", { class: "bulk", role: "group", "aria-label": "Actions for the selected workflows" },
    h("span", null, `${picked.length} selected`),
    h("button", { type: "button", disabled: !failed.length, onclick: async () => {
      if (await ask({ title: `Retry ${count(failed.length, "workflow")}?`, text: "Each workflow continues at its failed tasks, with new attempts.", button: "Retry" })) await run("/api/workflow/bulk/retry", failed, "retried");
    } }, `Retry ${failed.length}`),
    h("button", { type: "button", class: "danger", disabled: !open.length, onclick: async () => {
      const asked = await ask({ title: `Terminate ${count(open.length, "workflow")}?`, text: "Their open tasks are cancelled. You can retry the workflows later.", button: "Terminate", isBad: true, fields: [field("Reason", "reason")] });
      if (asked) await run(withQuery("/api/workflow/bulk/terminate", { reason: asked.reason }), open, "terminated");
    } }, `Terminate ${open.length}`),
    h("button", { type: "button", onclick: () => (chosen.clear(), refresh(true)) }, "Clear selection"));
}

function pages(page, query) {
  const next = new URLSearchParams(query);
  if (page.next) next.set("before", page.next);
  const first = new URLSearchParams(query);
  first.delete("before");
  return h("nav", { class: "pages", "aria-label": "Pages" },
    query.get("before") ? h("a", { href: `/${first.size ? `?${first}` : ""}` }, "« Newest") : null,
    page.next ? h("a", { href: `/?${next}`, rel: "next" }, page.lookedAtEnough ? "Search older workflows »" : "Older »") : null);
}
