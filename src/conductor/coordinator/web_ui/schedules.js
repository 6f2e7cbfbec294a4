// View: schedules with their next and their recent runs.

import { act, ask, field } from "./dialogs.js";
import { get, put, withQuery } from "./api.js";
import { h } from "./dom.js";
import { ago, exactly, left, now } from "./words.js";

const SHOWN_RUNS = 20;
const NEXT = 3;

export const title = () => "Schedules";
export const isLive = ({ schedules }) => Boolean(schedules?.some((one) => !one.paused));

export async function load() {
  let schedules;
  try {
    schedules = (await get("/api/scheduler/schedules")) ?? [];
  } catch (error) {
    if (error.status === 404) return { schedules: null, runs: [] };
    throw error;
  }
  const [runs] = await Promise.all([
    schedules.length ? get(withQuery("/api/scheduler/search/executions", { size: SHOWN_RUNS })).catch(() => null) : null,
    ...schedules.map(async (one) => (one.next = await nextOf(one)))]);
  return { schedules, runs: runs?.results ?? [] };
}

/** The next due times: the first from the schedule itself; more only for schedules in UTC. */
async function nextOf(one) {
  if (one.paused) return [];
  const first = one.nextRunTime ? [one.nextRunTime] : [];
  if (!one.cronExpression || (one.zoneId && one.zoneId !== "UTC")) return first;
  const asked = { cronExpression: one.cronExpression, limit: NEXT, scheduleStartTime: one.scheduleStartTime, scheduleEndTime: one.scheduleEndTime };
  const more = await get(withQuery("/api/scheduler/nextFewSchedules", asked)).catch(() => null);
  return more?.length ? more : first;
}

export function render({ schedules, runs }, { refresh }) {
  if (!schedules?.length) return [h("h1", null, "Schedules"), h("div", { class: "blank" }, h("p", null, schedules ? "No schedules are registered." : "This coordinator has no schedules."))];
  return [h("h1", null, "Schedules"), h("div", { class: "scroll" }, h("table", { class: "list" },
    h("thead", null, h("tr", null, h("th", null, "Schedule"), h("th", null, "Starts"), h("th", null, "Cron expression"), h("th", null, "State"), h("th", { class: "wide" }, "Next runs"), h("th", null, h("span", { class: "unseen" }, "Pause or resume")))),
    h("tbody", null, schedules.map((one) => row(one, refresh))))),
  runs.length ? [h("h2", null, "Recent runs"), history(runs)] : null];
}

function row(one, refresh) {
  const workflow = one.startWorkflowRequest?.name;
  const crons = one.cronSchedules?.length ? one.cronSchedules : [one];
  const next = (one.next ?? []).filter((at) => at > now());
  return h("tr", { "data-key": one.name }, h("th", { scope: "row" }, one.name, one.description ? h("span", { class: "quiet" }, ` ${one.description}`) : null),
    h("td", null, workflow ? h("a", { href: `/workflowDef/${encodeURIComponent(workflow)}` }, workflow) : "–"),
    h("td", null, crons.map((cron) => h("div", null, h("code", null, cron.cronExpression), h("span", { class: "quiet" }, ` ${cron.zoneId ?? "UTC"}`)))),
    h("td", null, one.paused ? h("span", { class: "status paused" }, "‖ PAUSED") : h("span", { class: "status ok" }, "✓ ACTIVE"), one.pausedReason ? ` ${one.pausedReason}` : null),
    h("td", { class: "wide" }, next.length ? [h("span", { title: exactly(next[0]) }, "in ", left(next[0])), h("span", { class: "quiet" }, ` ${next.map(exactly).join(" · ")}`)] : "–"),
    h("td", null, one.paused ? resume(one, refresh) : pause(one, refresh)));
}

const pathOf = (one) => `/api/scheduler/schedules/${encodeURIComponent(one.name)}`;

function pause(one, refresh) {
  return h("button", { type: "button", class: "small", "aria-label": `Pause ${one.name}`, onclick: async () => {
    const asked = await ask({ title: `Pause ${one.name}?`, text: "The schedule starts no workflows until it is resumed.", button: "Pause", fields: [field("Reason", "reason")] });
    if (asked && await act(`${one.name} is paused.`, () => put(withQuery(`${pathOf(one)}/pause`, { reason: asked.reason })))) refresh();
  } }, "Pause");
}

function resume(one, refresh) {
  return h("button", { type: "button", class: "small", "aria-label": `Resume ${one.name}`, onclick: async () => {
    if (await ask({ title: `Resume ${one.name}?`, text: "The schedule continues at its next due time.", button: "Resume" }) && await act(`${one.name} is resumed.`, () => put(`${pathOf(one)}/resume`))) refresh();
  } }, "Resume");
}

function history(runs) {
  return h("div", { class: "scroll" }, h("table", { class: "list" },
    h("thead", null, h("tr", null, h("th", null, "Schedule"), h("th", null, "Due"), h("th", null, "State"), h("th", null, "Workflow"), h("th", { class: "wide" }, "Reason"))),
    h("tbody", null, runs.map((one) => h("tr", { "data-key": one.executionId }, h("th", { scope: "row" }, one.scheduleName), h("td", null, ago(one.scheduledTime)), h("td", null, one.state),
      h("td", null, one.workflowId ? h("a", { href: `/execution/${one.workflowId}` }, one.workflowName) : one.workflowName ?? "–"), h("td", { class: "wide" }, one.reason ?? ""))))));
}
