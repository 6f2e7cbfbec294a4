// View: failed workflows grouped by cause, and the button that retries all workflows of a group.

import { mayOperate } from "./access.js";
import { get, withQuery } from "./api.js";
import { retry, runAction } from "./bulk.js";
import { h } from "./dom.js";
import { ago, count, range, setNow } from "./words.js";

const HOURS = 24;

export const title = () => "Failures";
export const isLive = () => true;
export const usesEvents = true;

export async function load({ query }) {
  const found = await get(withQuery("/api/view/failures", { hours: query.get("hours") ?? HOURS }));
  setNow(found.nowMs);
  return found;
}

export function render(found, { query, go, refresh }) {
  const hours = Number(query.get("hours") ?? HOURS);
  const more = found.groupCount - found.groups.length;
  return [
    h("div", { class: "head" }, h("h1", null, "Failures by cause"), range(hours, (next) => go(`/failures?hours=${next}`))),
    found.groups.length ? [
      h("p", { class: "quiet" }, `${count(found.failed, "failed workflow")} with ${count(found.groupCount, "cause")}. `,
        found.parents ? `${count(found.parents, "parent workflow")} failed only because of a sub-workflow, and continue when it is retried. ` : null,
        found.isPartial ? "Only the newest failures were examined. " : null, more > 0 ? `The ${found.groups.length} largest groups are shown.` : null),
      groups(found.groups, hours, refresh),
    ] : h("div", { class: "blank" }, h("h2", null, "No failures"), h("p", null, "No workflow has failed in this time, or all failed workflows have been retried.")),
  ];
}

/** The table of groups, also for the overview. */
export function groups(shown, hours, refresh) {
  return h("div", { class: "scroll" }, h("table", { class: "list cards failures" },
    h("thead", null, h("tr", null, h("th", { class: "number" }, "Count"), h("th", { class: "wide" }, "Cause"), h("th", null, "Workflow"), h("th", null, "Task"), h("th", null, "First"), h("th", null, "Last"), h("th", null, h("span", { class: "unseen" }, "Action")))),
    h("tbody", null, shown.map((one) => row(one, hours, refresh)))));
}

function row(one, hours, refresh) {
  return h("tr", { "data-key": one.key },
    h("td", { class: "number count", "data-label": "Count" }, h("b", null, one.count.toLocaleString("en"))),
    h("td", { class: "wide cause" }, h("details", { "data-key": `cause-${one.key}` }, h("summary", null, one.cause),
      one.reason === one.cause ? null : h("pre", { tabindex: "0", "aria-label": "The newest reason" }, one.reason),
      h("p", null, one.count > one.newest.length ? "Newest: " : null, one.newest.map((id, at) => [at ? " · " : null, h("a", { href: `/execution/${id}` }, h("code", null, id.slice(0, 13)))])))),
    h("td", { class: "text", "data-label": "Workflow" }, h("a", { href: withQuery("/workflows", { name: one.workflowName, status: "FAILED,TIMED_OUT" }) }, one.workflowName)),
    h("td", { class: "text", "data-label": "Task" }, one.taskType ? h("a", { href: `/taskDef/${encodeURIComponent(one.taskType)}` }, one.taskType) : "–"),
    h("td", { class: "when", "data-label": "First" }, ago(one.firstMs)),
    h("td", { class: "when", "data-label": "Last" }, ago(one.lastMs)),
    h("td", { class: "act" }, mayOperate() && h("button", { type: "button", class: "small", "aria-label": `Retry all ${one.count} of ${one.workflowName}: ${one.cause}`, onclick: () => retryAll(one, hours, refresh) }, one.count > 1 ? "Retry all …" : "Retry …")));
}

async function retryAll(group, hours, refresh) {
  const found = await get(withQuery(`/api/view/failures/${group.key}`, { hours }));
  if (await runAction(retry, Object.keys(found.statuses))) refresh();
}
