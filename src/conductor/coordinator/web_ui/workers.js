// View: the worker processes: which are connected, how many of their slots are busy, and their versions.

import { get } from "./api.js";
import { meter } from "./charts.js";
import { h } from "./dom.js";
import { ago, count, setNow, span } from "./words.js";

const QUEUES_SHOWN = 12;

export const title = () => "Workers";
export const isLive = () => true;

export async function load() {
  const found = await get("/api/view/workers");
  setNow(found.nowMs);
  return found;
}

export function render({ workers, knownSinceMs }) {
  if (!workers.length) {
    return [h("h1", null, "Workers"), h("div", { class: "blank" }, h("h2", null, "No worker has polled yet"),
      h("p", null, "Start one with ", h("code", null, "conductor-worker run MODULE"), ". It appears here with its first poll."),
      h("p", { class: "quiet" }, "The server started ", ago(knownSinceMs), ". Earlier polls are unknown."))];
  }
  const live = workers.filter((one) => one.isLive);
  const versions = new Set(live.map((one) => one.client).filter(Boolean));
  return [
    h("div", { class: "head" }, h("h1", null, "Workers"), h("span", { class: "quiet" }, summary(live))),
    versions.size > 1 ? h("p", { class: "why" }, `${versions.size} different versions are connected: ${[...versions].sort().join(" · ")}`) : null,
    h("div", { class: "scroll" }, h("table", { class: "list cards workers" },
      h("thead", null, h("tr", null, h("th", null, "Worker"), h("th", null, "State"), h("th", null, "Last poll"), h("th", null, "Running / slots"), h("th", { class: "number" }, "Run p50 / p95"), h("th", null, "Version"), h("th", { class: "wide" }, "Queues"))),
      h("tbody", null, workers.map(row)))),
    h("p", { class: "quiet" }, "The server started ", ago(knownSinceMs), ". Earlier polls are unknown. A worker whose slots are all busy does not poll. Workers of other SDKs do not report their slots. Durations cover the newest 2,000 tasks."),
  ];
}

/** A sentence about the live workers, also for the overview. */
export function summary(live) {
  const total = (workers, valueOf) => workers.reduce((sum, one) => sum + valueOf(one), 0);
  const told = live.filter((one) => one.slots);
  const slots = total(told, (one) => one.slots);
  const busy = total(told, (one) => one.inHand);
  const others = total(live, (one) => one.inHand) - busy; // tasks of workers that do not report their slots
  const parts = [count(live.length, "worker") + " live"];
  if (slots) parts.push(`${busy.toLocaleString("en")} of ${slots.toLocaleString("en")} slots busy`);
  if (others || !slots) parts.push(`${count(others, slots ? "other task" : "task")} running`);
  return parts.join(", ");
}

function row(one) {
  const queues = one.queues.slice(0, QUEUES_SHOWN);
  const slots = one.slots ?? 0;
  return h("tr", { class: one.isLive ? "" : "gone", "data-key": one.workerId ?? "-" },
    h("th", { scope: "row" }, one.workerId ?? h("span", { class: "quiet" }, "without an id")),
    h("td", { "data-label": "State" }, one.isLive ? h("span", { class: "status ok" }, "● LIVE") : h("span", { class: "status off" }, "○ GONE")),
    h("td", { class: "when", "data-label": "Last poll" }, one.lastPollMs ? ago(one.lastPollMs) : h("span", { class: "quiet" }, "before the server's start")),
    h("td", { "data-label": "Running / slots" }, slots ? meter(one.inHand, slots, `${one.inHand} / ${slots}`) : `${one.inHand} / ?`),
    h("td", { class: "number", "data-label": "Run p50 / p95" }, one.runs ? [`${span(one.runP50Ms)} / ${span(one.runP95Ms)}`, h("span", { class: "quiet" }, ` of ${count(one.runs, "task")}`)] : "–"),
    h("td", { class: "text", "data-label": "Version" }, one.client || h("span", { class: "quiet" }, "unknown")),
    h("td", { class: "wide" }, h("span", { class: "tags" }, queues.map((queue) => h("span", null, h("a", { href: `/taskDef/${encodeURIComponent(queue.name)}` }, queue.name),
      queue.domain ? h("span", { class: "quiet" }, ` in ${queue.domain}`) : null, queue.inHand ? h("span", { class: "quiet" }, ` ${queue.inHand} running`) : null)),
    one.queues.length > queues.length ? h("span", { class: "quiet" }, `and ${one.queues.length - queues.length} more`) : null)));
}
