// View: queues, their load, and whether workers keep up.

import { get } from "./api.js";
import { h } from "./dom.js";
import { ago, count, setNow, since, span } from "./words.js";

/** A worker that has not polled for this long, and holds no task, has probably ended. */
const GONE_MS = 60000;
const SHOWN_ALARMS = 6;

export const title = () => "Queues";

export async function load() {
  const [found, known] = await Promise.all([get("/api/view/queues"), get("/api/view/workers")]);
  setNow(found.nowMs);
  return { ...found, slots: countSlots(known.workers) };
}

/** The slots of live workers by queue; absent if one of the queue's workers does not report them. */
function countSlots(workers) {
  const slots = new Map();
  for (const worker of workers.filter((one) => one.isLive)) {
    for (const queue of worker.queues) {
      const key = `${queue.name} ${queue.domain ?? ""}`;
      slots.set(key, queue.slots ? (slots.get(key) ?? 0) + queue.slots : NaN);
    }
  }
  return slots;
}

export const isLive = () => true;

export function render({ queues, slots, nowMs }) {
  const wrong = queues.filter((one) => one.problem);
  const own = queues.filter((one) => one.ofServer);
  const polled = queues.filter((one) => !one.ofServer);
  return [
    h("div", { class: "head" }, h("h1", null, "Queues"), h("a", { href: "/workers" }, "Workers →")),
    wrong.length ? h("ul", { class: "alarms", "aria-label": "Queues without workers" }, wrong.slice(0, SHOWN_ALARMS).map(alarm)) : null,
    wrong.length > SHOWN_ALARMS ? h("details", { "data-key": "alarms" }, h("summary", null, `${count(wrong.length - SHOWN_ALARMS, "more queue")} without workers`), h("ul", { class: "alarms" }, wrong.slice(SHOWN_ALARMS).map(alarm))) : null,
    polled.length ? table(polled, slots, nowMs) : h("div", { class: "blank" }, h("h2", null, "No queues yet"), h("p", null, "A queue appears when a workflow schedules its first task of a type.")),
    own.length ? h("details", { "data-key": "own" }, h("summary", null, `Queues of the coordinator's own tasks (${own.length})`), table(own, slots, nowMs)) : null,
    queues.length ? reports(queues) : null,
    queues.length ? h("p", { class: "quiet" }, "Rates cover the last minute. Durations and failures cover the newest 2,000 tasks.") : null,
  ];
}

const alarm = (one) => h("li", { class: "alarm", "data-key": `alarm-${one.name}-${one.domain ?? ""}` },
  h("strong", null, h("bdi", null, nameOf(one)), `: ${count(one.ready, "task")} waiting. `), upper(one.problem.sentence), ".", h("span", { class: "remedy" }, ` ${one.problem.remedy}`));
const nameOf = (one) => (one.domain && !one.ofServer ? `${one.name} in domain ${one.domain}` : one.name);
const upper = (text) => text[0].toUpperCase() + text.slice(1);
const times = (p50, p95) => (p50 === null || p50 === undefined ? "–" : `${span(p50)} / ${span(p95)}`);

function table(queues, slots, nowMs) {
  return h("div", { class: "scroll" }, h("table", { class: "list cards queues" },
    h("thead", null, h("tr", null, h("th", null, "Queue"), h("th", { class: "number" }, "Waiting"), h("th", { class: "number" }, "Oldest"), h("th", { class: "number" }, "Running"),
      h("th", { class: "number" }, "In / out per min"), h("th", { class: "number" }, "Wait p50 / p95"), h("th", { class: "number" }, "Run p50 / p95"), h("th", { class: "number" }, "Failed"), h("th", null, "Limits"), h("th", { class: "wide" }, "Workers"))),
    h("tbody", null, queues.map((one) => row(one, slots.get(`${one.name} ${one.domain ?? ""}`), nowMs)))));
}

function row(one, slots, nowMs) {
  const stats = one.stats ?? {};
  const limits = [one.concurrentLimit ? `${one.concurrentLimit} concurrent` : null, one.rateLimit ? `${one.rateLimit} per ${span(one.rateWindowMs)}` : null].filter(Boolean).join(", ");
  const isFull = one.concurrentLimit && one.inHand >= one.concurrentLimit && one.ready;
  // In a narrow window a row is a card, which leaves out absent values.
  const number = (label, ...content) => h("td", { class: content[0] === "–" ? "number nil" : "number", "data-label": label }, content);
  return h("tr", { class: one.problem ? "bad" : "", "data-key": `${one.name} ${one.domain ?? ""}` },
    h("th", { scope: "row" }, h("a", { href: `/taskDef/${encodeURIComponent(one.name)}` }, one.name), one.domain && !one.ofServer ? h("span", { class: "quiet" }, ` domain ${one.domain}`) : null),
    number("Waiting", one.ready.toLocaleString("en"), one.delayed ? h("span", { class: "quiet" }, ` +${one.delayed} later`) : null),
    number("Oldest", one.oldestMs ? since(one.oldestMs) : "–"),
    number("Running", one.inHand, slots ? h("span", { class: "quiet" }, ` of ${slots}`) : null),
    number("In / out per min", one.stats ? `${stats.scheduledPerMin} / ${stats.endedPerMin}` : "–"),
    number("Wait p50 / p95", times(stats.waitP50Ms, stats.waitP95Ms)),
    number("Run p50 / p95", times(stats.runP50Ms, stats.runP95Ms)),
    number("Failed", stats.failed ? h("span", { class: "bad" }, `${stats.failed} of ${stats.tasks}`) : "0"),
    h("td", { class: limits ? "limits" : "limits nil", "data-label": "Limits" }, limits || "–", isFull || one.rateOpensMs ? h("span", { class: "held" }, `, ${one.ready} held back`) : null),
    h("td", { class: "wide", "data-label": "Workers" }, who(one, slots, nowMs, isFull)));
}

function who(one, slots, nowMs, isFull) {
  if (one.ofServer) return h("span", { class: "quiet" }, "run by the coordinator");
  const holders = one.holders.slice(0, 3).map((holder) => `${holder.workerId ?? "unnamed"} (${holder.inHand} running)`).join(", ");
  const more = one.holders.length > 3 ? ` and ${one.holders.length - 3} more` : "";
  return [polled(one, nowMs), holders ? h("span", { class: "quiet" }, `; ${holders}${more}`) : null,
    slots && one.ready && !isFull && one.inHand >= slots ? h("span", { class: "remedy" }, ` All ${slots} slots are busy: start more workers, or raise thread_count.`) : null];
}

function polled(one, nowMs) {
  if (!one.lastPollMs) return one.problem ? h("strong", { class: "bad" }, "no workers") : h("span", { class: "quiet" }, "not polled since the server started");
  const by = one.lastWorker ? ` by ${one.lastWorker}` : "";
  const isGone = nowMs - one.lastPollMs > GONE_MS && !one.parked && !one.inHand;
  if (isGone) return h("span", { class: one.ready ? "bad" : "quiet" }, "no worker: last polled ", ago(one.lastPollMs), by);
  return ["polled ", ago(one.lastPollMs), by];
}

// The labels of the verdicts. Reports that were not committed are highlighted.
const VERDICTS = { COMMITTED: "Accepted", CANCELLED: "Too late", REJECTED: "Rejected", NONE: "Without a lease" };

function reports(queues) {
  const told = queues.filter((one) => Object.keys(one.verdicts ?? {}).length);
  if (!told.length) return null;
  return h("details", { class: "card", "data-key": "reports" }, h("summary", null, "Reports since the server started"),
    h("p", { class: "quiet" }, "A report is too late if the worker had lost its lease, and rejected if the report was wrong. Workers of other SDKs report without a lease."),
    h("div", { class: "scroll" }, h("table", { class: "plain" }, h("thead", null, h("tr", null, h("th", null, "Queue"), Object.values(VERDICTS).map((text) => h("th", { class: "number" }, text)))),
      h("tbody", null, told.map((one) => h("tr", { "data-key": `${one.name} ${one.domain ?? ""}` }, h("th", { scope: "row" }, nameOf(one)),
        Object.keys(VERDICTS).map((name) => h("td", { class: `number ${name !== "COMMITTED" && name !== "NONE" && one.verdicts[name] ? "held" : ""}` }, (one.verdicts[name] ?? 0).toLocaleString("en")))))))));
}
