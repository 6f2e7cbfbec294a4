// View: the overview. What needs attention, what happened lately, and what comes next.

import { mayStart } from "./access.js";
import { get, withQuery } from "./api.js";
import { barChart } from "./charts.js";
import { h } from "./dom.js";
import { groups } from "./failures.js";
import { startDialog } from "./start.js";
import { ago, count, exactly, left, now, range, setNow, since, span } from "./words.js";
import { summary } from "./workers.js";

const TOP = 5;
const SHOWN_QUEUES = 3; // further queues without workers are only counted, so that the other facts stay visible
const HOURS = 1;
const HOUR_MS = 3600000;
const MAX_RUNS = 100;

export const title = () => "Overview";
export const isLive = () => true;
export const usesEvents = true;

export async function load({ query }) {
  const hours = query.get("hours") ?? HOURS;
  const [activity, failures, workers, schedules, runs] = await Promise.all([
    get(withQuery("/api/view/activity", { hours })),
    get(withQuery("/api/view/failures", { hours, size: TOP })),
    get("/api/view/workers"),
    get("/api/scheduler/schedules").catch(() => []),
    get(withQuery("/api/scheduler/search/executions", { size: MAX_RUNS, query: `state = FAILED AND executionTime > ${Math.round(now() - Number(hours) * HOUR_MS)}` })).catch(() => null),
  ]);
  setNow(activity.nowMs);
  return { activity, failures, workers: workers.workers, schedules: schedules ?? [], failedRuns: runs?.results ?? [] };
}

export function render({ activity, failures, workers, schedules, failedRuns }, { query, go, refresh, overview }) {
  const hours = Number(query.get("hours") ?? HOURS);
  const isEmpty = !sum(activity.started) && !overview?.running && !activity.attempts && !workers.length;
  return [
    h("div", { class: "head" }, h("h1", null, "Overview"), range(hours, (next) => go(next === HOURS ? "/" : `/?hours=${next}`)),
      mayStart() && h("button", { class: "primary", type: "button", onclick: () => startDialog(null, go) }, "Start a workflow …")),
    isEmpty ? firstSteps() : null,
    attention(overview, failures, failedRuns, hours),
    charts(activity, overview, hours),
    failures.groups.length ? section("Failures by cause", groups(failures.groups, hours, refresh),
      failures.groupCount > failures.groups.length || hours !== 24 ? h("a", { href: `/failures?hours=${hours}` }, `All ${count(failures.groupCount, "cause")} →`) : h("a", { href: "/failures" }, "Open →")) : null,
    h("div", { class: "columns even" }, slowest(activity), failing(activity)),
    h("div", { class: "columns even" }, connected(workers), next(schedules)),
  ];
}

const sum = (values) => values.reduce((total, one) => total + (one ?? 0), 0);
const section = (name, content, link) => h("section", { class: "card", "aria-label": name, "data-key": `section-${name}` }, h("div", { class: "head" }, h("h2", null, name), link), content);

/** What a new user does first. */
export function firstSteps() {
  return h("div", { class: "blank" }, h("h2", null, "Nothing has run yet"),
    h("p", null, "Create a project with ", h("code", null, "conductor-worker init"), " and run it with ", h("code", null, "conductor-worker dev"), ","),
    h("p", null, "or register a definition with ", h("code", null, "conductor-worker workflow register file.py"), " and start it here."));
}

function attention(overview, failures, failedRuns, hours) {
  if (!overview) return null;
  const items = [];
  const add = (href, strong, text, remedy = null) => items.push(h("li", { class: "alarm" }, h("a", { href, class: "strong" }, strong), " ", text, remedy ? h("span", { class: "remedy" }, ` ${remedy}`) : null));
  if (!overview.healthy) add("/server", "The coordinator is not healthy:", overview.health);
  for (const one of overview.unpolled.slice(0, SHOWN_QUEUES)) add("/queues", `${one.ref}:`, `${one.sentence}.`, one.remedy);
  const more = overview.unpolled.length - SHOWN_QUEUES;
  if (more > 0) add("/queues", count(more, "more queue"), more === 1 ? "has tasks and no workers." : "have tasks and no workers.");
  if (failures.failed) add(`/failures?hours=${hours}`, count(failures.failed, "failed workflow"), `in ${hours === 1 ? "the last hour" : `the last ${hours} h`}, with ${count(failures.groupCount, "cause")}.`);
  const last = new Map([...failedRuns].reverse().map((run) => [run.scheduleName, run])); // the newest run of each schedule
  for (const [name, run] of [...last].slice(0, TOP)) add(`/schedules/${encodeURIComponent(name)}`, `Schedule ${name}`, `did not start ${run.workflowName}: ${run.reason ?? "the start failed"}.`);
  if (last.size > TOP) add("/schedules", count(last.size - TOP, "more schedule"), "did not start a workflow.");
  for (const one of (overview.fastLoops ?? []).slice(0, TOP)) add(`/execution/${one.workflowId}`, one.workflowName, `runs the loop ${one.ref} without a pause.`);
  if (overview.inbox) items.push(h("li", { class: "note" }, h("a", { href: "/inbox", class: "strong" }, count(overview.inbox, "task")), overview.inbox === 1 ? " waits for a person or a signal." : " wait for a person or a signal."));
  return h("section", { class: "attention", "aria-label": "Needs attention" },
    items.length ? [h("h2", null, "Needs attention"), h("ul", null, items)] : h("p", { class: "calm" }, h("span", { class: "status ok" }, "✓ ALL WELL"), " Every queue with tasks has workers, and nothing has failed in this time."));
}

function charts(one, overview, hours) {
  const common = { fromMs: one.fromMs, bucketMs: one.bucketMs };
  const per = `per ${one.bucketMs === 60000 ? "minute" : span(one.bucketMs)}`;
  const waiting = overview?.waiting ?? 0;
  return h("div", { class: "charts" },
    barChart({ ...common, title: "started", total: sum(one.started).toLocaleString("en"), href: `/workflows?since=${hours}`, note: per, series: [{ name: "started", kind: "run", values: one.started }] }),
    barChart({ ...common, title: "finished", total: `${sum(one.finished).toLocaleString("en")}${one.isPartial ? "+" : ""}`, href: "/workflows?status=COMPLETED", note: one.isPartial ? `${per}; older ones are not counted` : per, series: [{ name: "finished", kind: "ok", values: one.finished }] }),
    barChart({ ...common, title: "failed", total: sum(one.failed).toLocaleString("en"), href: `/failures?hours=${hours}`, note: per, series: [{ name: "failed", kind: "bad", values: one.failed }] }),
    barChart({ ...common, title: waiting === 1 ? "task waiting now" : "tasks waiting now", total: waiting.toLocaleString("en"), href: "/queues", note: overview?.oldestMs ? ["oldest ", since(overview.oldestMs)] : "measured every minute", series: [{ name: "waiting", kind: "wait", values: one.waiting }] }));
}

function typeTable(name, types, columns, empty, note) {
  return section(name, types.length ? [h("div", { class: "scroll" }, h("table", { class: "plain" },
    h("thead", null, h("tr", null, h("th", null, "Task type"), columns.map(([head]) => h("th", { class: "number" }, head)))),
    h("tbody", null, types.map((one) => h("tr", { "data-key": one.name }, h("th", { scope: "row" }, h("a", { href: `/taskDef/${encodeURIComponent(one.name)}` }, one.name)), columns.map(([, cell]) => h("td", { class: "number" }, cell(one)))))))), h("p", { class: "quiet small" }, note)] : h("p", { class: "quiet" }, empty));
}

const sampleNote = (one) => (one.sampledAttempts < one.attempts ? `From a sample of ${one.sampledAttempts.toLocaleString("en")} of ${count(one.attempts, "attempt")} in this time.` : `From ${count(one.attempts, "attempt")} in this time.`);
const time = (ms) => (ms === undefined || ms === null ? "–" : span(ms));

function slowest(one) {
  const types = one.taskTypes.filter((type) => type.runP95Ms !== undefined && !type.ofServer).sort((a, b) => b.runP95Ms - a.runP95Ms).slice(0, TOP);
  return typeTable("Slowest task types", types, [["Run p50", (type) => time(type.runP50Ms)], ["Run p95", (type) => h("b", null, time(type.runP95Ms))], ["Wait p95", (type) => time(type.waitP95Ms)], ["Attempts", (type) => type.attempts.toLocaleString("en")]], "No task of a worker has ended in this time.", sampleNote(one));
}

function failing(one) {
  const types = one.taskTypes.filter((type) => type.failed).sort((a, b) => b.failed - a.failed).slice(0, TOP);
  return typeTable("Most failing task types", types, [["Failed", (type) => h("b", { class: "bad" }, type.failed.toLocaleString("en"))], ["Attempts", (type) => type.attempts.toLocaleString("en")], ["Share", (type) => `${Math.round((100 * type.failed) / type.attempts)} %`]], "No attempt has failed in this time.", sampleNote(one));
}

function connected(workers) {
  const live = workers.filter((one) => one.isLive);
  const gone = workers.length - live.length;
  return section("Workers", [h("p", null, live.length ? summary(live) : h("strong", { class: "bad" }, "No worker is connected."), gone ? h("span", { class: "quiet" }, `; ${gone} gone`) : null)], h("a", { href: "/workers" }, "Open →"));
}

function next(schedules) {
  const due = schedules.filter((one) => !one.paused && one.nextRunTime > now()).sort((a, b) => a.nextRunTime - b.nextRunTime).slice(0, TOP);
  return section("Next scheduled runs", due.length ? h("table", { class: "plain" }, h("tbody", null, due.map((one) => h("tr", { "data-key": one.name },
    h("th", { scope: "row" }, h("a", { href: `/schedules/${encodeURIComponent(one.name)}` }, one.name)), h("td", { class: "soon" }, "in ", left(one.nextRunTime)), h("td", { class: "quiet later" }, exactly(one.nextRunTime)))))) : h("p", { class: "quiet" }, schedules.length ? "No schedule is active." : "There are no schedules."), h("a", { href: "/schedules" }, "Open →"));
}
