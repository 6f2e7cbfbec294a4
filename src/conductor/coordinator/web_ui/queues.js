// View: queues and the workers that poll them.

import { get } from "./api.js";
import { h } from "./dom.js";
import { ago, count, setNow, since, span } from "./words.js";

export const title = () => "Queues";

export async function load() {
  const found = await get("/api/view/queues");
  setNow(found.nowMs);
  return found;
}

export const isLive = () => true;

export function render({ queues }) {
  const wrong = queues.filter((one) => one.problem);
  return [
    h("h1", null, "Queues and workers"),
    wrong.map((one) => h("div", { class: "alarm", "data-key": `alarm-${one.name}-${one.domain ?? ""}` }, h("strong", null, `${nameOf(one)}: ${count(one.ready, "task")} waiting. `), upper(one.problem.sentence), ".", h("span", { class: "remedy" }, ` ${one.problem.remedy}`))),
    queues.length ? table(queues) : h("div", { class: "blank" }, h("h2", null, "No queues yet"), h("p", null, "A queue appears when a workflow schedules its first task of a type.")),
    queues.length ? h("p", { class: "quiet" }, "Rates cover the last minute. Durations and failures cover the newest 2,000 tasks. Verdicts cover all reports since the coordinator started.") : null,
  ];
}

const nameOf = (one) => (one.domain ? `${one.name} in domain ${one.domain}` : one.name);
const upper = (text) => text[0].toUpperCase() + text.slice(1);
const times = (p50, p95) => (p50 === null || p50 === undefined ? "–" : `${span(p50)} / ${span(p95)}`);

function table(queues) {
  return h("div", { class: "scroll" }, h("table", { class: "list queues" },
    h("thead", null, h("tr", null, h("th", null, "Queue"), h("th", { class: "number" }, "Waiting"), h("th", { class: "number" }, "Oldest"), h("th", { class: "number" }, "Running"),
      h("th", { class: "number" }, "Scheduled / ended per min"), h("th", { class: "number" }, "Wait p50 / p95"), h("th", { class: "number" }, "Run p50 / p95"), h("th", { class: "number" }, "Failed"), h("th", { class: "number" }, "Verdicts"), h("th", null, "Limits"), h("th", { class: "wide" }, "Workers"))),
    h("tbody", null, queues.map(row))));
}

function row(one) {
  const stats = one.stats ?? {};
  const limits = [one.concurrentLimit ? `${one.concurrentLimit} concurrent` : null, one.rateLimit ? `${one.rateLimit} per ${span(one.rateWindowMs)}` : null].filter(Boolean).join(", ");
  const isFull = one.concurrentLimit && one.inHand >= one.concurrentLimit && one.ready;
  return h("tr", { class: one.problem ? "bad" : "", "data-key": `${one.name} ${one.domain ?? ""}` },
    h("th", { scope: "row" }, h("a", { href: `/taskDef/${encodeURIComponent(one.name)}` }, one.name), one.domain && !one.ofServer ? h("span", { class: "quiet" }, ` domain ${one.domain}`) : null),
    h("td", { class: "number" }, one.ready.toLocaleString("en"), one.delayed ? h("span", { class: "quiet" }, ` +${one.delayed} delayed`) : null),
    h("td", { class: "number" }, one.oldestMs ? since(one.oldestMs) : "–"),
    h("td", { class: "number" }, one.inHand),
    h("td", { class: "number" }, one.stats ? `${stats.scheduledPerMin} / ${stats.endedPerMin}` : "–"),
    h("td", { class: "number" }, times(stats.waitP50Ms, stats.waitP95Ms)),
    h("td", { class: "number" }, times(stats.runP50Ms, stats.runP95Ms)),
    h("td", { class: "number" }, stats.failed ? `${stats.failed} of ${stats.tasks}` : "0"),
    h("td", { class: "number verdicts" }, verdicts(one.verdicts ?? {})),
    h("td", { class: "limits" }, limits || "–", isFull ? h("span", { class: "held" }, `, ${one.ready} held back`) : null, one.rateOpensMs ? h("span", { class: "held" }, `, ${one.ready} held back`) : null),
    h("td", { class: "wide" }, who(one)));
}

// Reports that were not committed stand out.
const VERDICTS = { COMMITTED: "committed", NONE: "without a lease", CANCELLED: "cancelled", REJECTED: "rejected" };

function verdicts(counts) {
  const told = Object.keys(VERDICTS).filter((one) => counts[one]);
  return told.length ? told.map((one) => h("span", { class: one === "COMMITTED" || one === "NONE" ? "" : "held" }, `${counts[one].toLocaleString("en")} ${VERDICTS[one]}`)) : "–";
}

function who(one) {
  if (one.ofServer) return h("span", { class: "quiet" }, "run by the coordinator");
  const holders = one.holders.map((holder) => `${holder.workerId ?? "unnamed"} (${holder.inHand} running)`);
  const polled = one.lastPollMs ? ["polled ", ago(one.lastPollMs), one.lastWorker ? ` by ${one.lastWorker}` : "", one.parked ? `, ${count(one.parked, "poll")} parked` : ""] : [one.problem ? h("strong", null, "no workers") : "never polled"];
  return [polled, holders.length ? h("span", { class: "quiet" }, `; ${holders.slice(0, 3).join(", ")}${holders.length > 3 ? ` and ${holders.length - 3} more` : ""}`) : null];
}
