// Views: all schedules; one schedule with its next and its last runs. Users can add, edit, run and remove schedules.

import { mayOperate } from "./access.js";
import { ask, field } from "./dialogs.js";
import { get, post, put, remove, withQuery } from "./api.js";
import { h } from "./dom.js";
import { jsonForm } from "./form.js";
import { inputForm } from "./start.js";
import { ago, command, json, left, now, setNow } from "./words.js";

const SHOWN_RUNS = 20;
const SHOWN_NEXT = 3;
/** Fields that the server adds to a schedule. */
const ADDED = ["createTime", "updatedTime", "createdBy", "updatedBy", "nextRunTime"];

const runsOf = (query) => get(withQuery("/api/scheduler/search/executions", { size: SHOWN_RUNS, query })).catch(() => null);
const hrefOf = (name) => `/schedules/${encodeURIComponent(name)}`;
const pathOf = (name) => `/api/scheduler/schedules/${encodeURIComponent(name)}`;

/** The list of schedules. */
export const list = {
  title: () => "Schedules",
  isLive: ({ schedules }) => schedules.some((one) => !one.schedule.paused),
  async load() {
    const [found, runs] = await Promise.all([get("/api/view/schedules"), runsOf(null)]);
    setNow(found.nowMs);
    return { schedules: found.schedules, runs: runs?.results ?? [] };
  },
  render({ schedules, runs }, context) {
    return [
      h("div", { class: "head" }, h("h1", null, "Schedules"), mayOperate() && h("button", { type: "button", class: "primary", onclick: () => scheduleDialog(null, context.refresh) }, "Add a schedule …")),
      schedules.length ? h("div", { class: "scroll" }, h("table", { class: "list schedules" },
        h("thead", null, h("tr", null, h("th", null, "Schedule"), h("th", null, "Starts"), h("th", null, "When"), h("th", null, "State"), h("th", null, "Next runs"), h("th", null, h("span", { class: "unseen" }, "Actions")))),
        h("tbody", null, schedules.map((one) => row(one, context))))) : h("div", { class: "blank" }, h("h2", null, "No schedules yet"), h("p", null, "A schedule starts a workflow at the times of a cron expression. Add one above, or from a terminal:"),
        command("conductor-worker", "schedule", "add", "nightly-report", "report", "0 30 3 * * *", "--zone", "Europe/Berlin")),
      runs.length ? [h("h2", null, "Recent runs"), history(runs)] : null,
    ];
  },
};

function row(one, context) {
  const { schedule } = one;
  return h("tr", { "data-key": schedule.name, class: one.warnings.length ? "warn" : null },
    h("th", { scope: "row" }, h("a", { href: hrefOf(schedule.name) }, schedule.name), schedule.description ? h("span", { class: "quiet under" }, schedule.description) : null),
    h("td", { class: "text" }, target(one)),
    h("td", { class: "text" }, when(one)),
    h("td", null, state(schedule)),
    h("td", null, nextRuns(one, SHOWN_NEXT)),
    h("td", null, h("div", { class: "buttons" }, buttons(schedule, context, "small"))));
}

/** The workflow of a schedule, and the warnings about the schedule. */
function target({ schedule, warnings }) {
  const name = schedule.startWorkflowRequest?.name;
  return [name ? h("a", { href: `/workflowDef/${encodeURIComponent(name)}` }, name) : "–", schedule.startWorkflowRequest?.version ? ` v${schedule.startWorkflowRequest.version}` : null,
    warnings.map((text) => h("p", { class: "warning" }, "⚠ ", text))];
}

const when = ({ times }) => times.map((one) => h("div", { class: "when" }, h("span", null, `${one.words[0]?.toUpperCase() ?? ""}${one.words.slice(1)}`), h("span", { class: "quiet under" }, h("code", null, one.expression), ` ${one.zone}`)));

const state = (schedule) => [schedule.paused ? h("span", { class: "status paused" }, "‖ PAUSED") : h("span", { class: "status ok" }, "✓ ACTIVE"), schedule.pausedReason ? h("span", { class: "quiet under" }, schedule.pausedReason) : null];

/** The next runs, each in the time zone of its cron expression and with the name of the zone. */
function nextRuns({ schedule, times }, size) {
  if (schedule.paused) return h("span", { class: "quiet" }, "none while paused");
  const next = times.flatMap((cron) => cron.next.map((due) => ({ ...due, zone: cron.zone }))).filter((due) => due.atMs > now()).sort((a, b) => a.atMs - b.atMs).slice(0, size);
  if (!next.length) return h("span", { class: "quiet" }, "none");
  return h("ol", { class: "next" }, next.map((due, at) => h("li", null, due.local, h("span", { class: "quiet" }, ` ${due.zone}`), at ? null : h("span", { class: "quiet" }, " (in ", left(due.atMs), ")"))));
}

/** One schedule. */
export const one = {
  title: (data) => data?.name ?? "Schedule",
  isLive: ({ schedule }) => !schedule.paused,
  async load({ params }) {
    const name = params[0];
    const [found, runs] = await Promise.all([get(withQuery("/api/view/schedules", { name })), runsOf(`scheduleName IN (${name})`)]);
    setNow(found.nowMs);
    return { name, ...found.schedules[0], runs: runs && (runs.results ?? []).filter((run) => run.scheduleName === name) };
  },
  render(data, context) {
    const { schedule, runs } = data;
    const facts = [["Starts", target(data)], ["When", when(data)], ["State", state(schedule)], ["Next runs", nextRuns(data, 5)],
      ["Catch up", schedule.runCatchupScheduleInstances ? "Missed times are started later." : "Missed times are skipped."],
      ["From", schedule.scheduleStartTime ? ago(schedule.scheduleStartTime) : null], ["Until", schedule.scheduleEndTime ? new Date(schedule.scheduleEndTime).toISOString() : null],
      ["Correlation id", schedule.startWorkflowRequest?.correlationId]].filter(([, value]) => value);
    return [
      h("nav", { class: "breadcrumb", "aria-label": "Schedules" }, h("ol", null, h("li", null, h("a", { href: "/schedules" }, "Schedules")), h("li", { "aria-current": "page" }, data.name))),
      h("div", { class: "head" }, h("h1", null, data.name), h("div", { class: "buttons" }, buttons(schedule, context, ""),
        mayOperate() && h("button", { type: "button", class: "danger", onclick: () => removeDialog(schedule, context.go) }, "Remove"))),
      schedule.description ? h("p", null, schedule.description) : null,
      h("div", { class: "columns even" }, h("section", { class: "card", "aria-label": "Schedule" }, h("dl", { class: "facts roomy" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
        h("section", { class: "card", "aria-label": "Input" }, json("Input of the workflow", schedule.startWorkflowRequest?.input))),
      h("h2", null, "Last runs"), !runs ? h("p", { class: "quiet" }, "The runs of a schedule with this name cannot be searched.") : runs.length ? history(runs) : h("p", { class: "quiet" }, "The schedule has not run yet."),
    ];
  },
};

// -- actions

function buttons(schedule, { refresh, go }, kind) {
  if (!mayOperate()) return null;
  const { name } = schedule;
  const button = (text, onclick) => h("button", { type: "button", class: kind, "aria-label": `${text} ${name}`, onclick }, text);
  return [
    button("Run now", () => runDialog(schedule, go)),
    schedule.paused
      ? button("Resume", () => change(refresh, { title: `Resume ${name}?`, text: "The schedule continues at its next due time.", button: "Resume", work: () => put(`${pathOf(name)}/resume`), done: `${name} is resumed.` }))
      : button("Pause", () => change(refresh, { title: `Pause ${name}?`, text: "The schedule starts no workflows until it is resumed.", button: "Pause", fields: [field("Reason", "reason")], work: ({ reason }) => put(withQuery(`${pathOf(name)}/pause`, { reason })), done: `${name} is paused.` })),
    button("Edit", () => scheduleDialog(schedule, refresh)),
  ];
}

async function change(refresh, question) {
  if (await ask(question)) refresh();
}

async function removeDialog(schedule, go) {
  const asked = await ask({ title: `Remove ${schedule.name}?`, text: "The schedule is deleted. The workflows that it has started stay.", button: "Remove", isBad: true, work: () => remove(pathOf(schedule.name)), done: `${schedule.name} is removed.` });
  if (asked) go("/schedules");
}

/** Start the workflow of a schedule at once, with the input of the schedule. */
async function runDialog(schedule, go) {
  let id = null;
  await ask({ title: `Run ${schedule.name} now?`, text: "This starts the workflow once, with the input of the schedule. The due times of the schedule stay the same.", button: "Run now",
    work: async () => (id = await post("/api/workflow", schedule.startWorkflowRequest)), done: (started) => `Started ${schedule.startWorkflowRequest.name}: ${started}` });
  if (id) go(`/execution/${id}`);
}

/** Add a schedule, or edit one. Fields that the form does not show are kept. */
async function scheduleDialog(schedule, refresh) {
  const names = await get("/api/metadata/workflow/names");
  const start = schedule?.startWorkflowRequest ?? {};
  const zones = Intl.supportedValuesOf?.("timeZone") ?? [];
  const suggested = (id, values) => h("datalist", { id }, values.slice(0, 600).map((one) => h("option", { value: one })));
  const holder = h("div");
  let form = null;
  let wanted = null;
  const chooseWorkflow = async (name, input) => {
    if (wanted === name) return;
    wanted = name;
    const made = name ? await inputForm(name, { input }).catch(() => null) : null;
    if (wanted !== name) return;
    form = made?.form ?? jsonForm({ value: input });
    holder.replaceChildren(h("h3", null, "Input of the workflow"), form.element);
  };
  await chooseWorkflow(start.name ?? "", start.input);
  const workflow = field("Workflow", "workflow", { value: start.name ?? "", required: true });
  const workflowInput = workflow.querySelector("input");
  workflowInput.setAttribute("list", "workflow-names");
  workflowInput.addEventListener("change", () => chooseWorkflow(workflowInput.value.trim(), undefined));
  const crons = schedule?.cronSchedules?.length ? jsonForm({ value: { cronSchedules: schedule.cronSchedules }, label: "Cron expressions",
    schema: { type: "object", required: ["cronSchedules"], properties: { cronSchedules: { type: "array", minItems: 1, items: { type: "object", required: ["cronExpression"], properties: { cronExpression: { type: "string" }, zoneId: { type: "string", default: "UTC" } } } } } } }) : null;
  const asked = await ask({
    title: schedule ? `Edit ${schedule.name}` : "Add a schedule", button: schedule ? "Save" : "Add", isWide: true,
    fields: [schedule ? null : field("Name", "name", { required: true }), workflow, suggested("workflow-names", names), crons ? crons.element : cronFields(schedule, zones, suggested),
      field("Description", "description", { value: schedule?.description ?? "" }), field("Catch up: start the times that were missed while the coordinator was stopped", "catchUp", { type: "checkbox", value: schedule?.runCatchupScheduleInstances }), holder],
    check: (values) => ({ ...kept(schedule), name: schedule?.name ?? values.name.trim(), description: values.description || null, runCatchupScheduleInstances: values.catchUp,
      ...(crons ? crons.read() : { cronExpression: values.cron.trim(), zoneId: values.zone.trim() || "UTC" }),
      startWorkflowRequest: { ...start, name: values.workflow.trim(), input: form.read() } }),
    work: async (made) => {
      if (!schedule && await get(pathOf(made.name)).then(() => true, (error) => error.status !== 404)) throw new Error(`A schedule with the name ${made.name} exists already. Edit it, or choose another name.`);
      return post("/api/scheduler/schedules", made);
    },
    done: (saved) => `${saved?.name ?? "The schedule"} is saved.`,
  });
  if (asked) refresh();
}

const kept = (schedule) => Object.fromEntries(Object.entries(schedule ?? {}).filter(([key]) => !ADDED.includes(key)));

/** The fields for one cron expression, with a line that says what it means. */
function cronFields(schedule, zones, suggested) {
  const cron = field("Cron expression", "cron", { value: schedule?.cronExpression ?? "0 0 2 * * *", required: true, hint: "second minute hour day-of-month month day-of-week, for example 0 30 9 * * MON-FRI" });
  const zone = field("Time zone", "zone", { value: schedule?.zoneId ?? Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC", required: true });
  zone.querySelector("input").setAttribute("list", "time-zones");
  const words = h("p", { class: "preview", role: "status" });
  let timer = null;
  let number = 0;
  const show = async () => {
    const mine = ++number;
    const expression = cron.querySelector("input").value;
    const found = expression.trim() ? await get(withQuery("/api/view/cron", { expression, zone: zone.querySelector("input").value })).catch((error) => ({ problem: error.message })) : { problem: "Enter a cron expression." };
    if (mine !== number) return;
    words.className = found.problem ? "preview bad" : "preview";
    words.replaceChildren(found.problem ?? `${found.words[0].toUpperCase()}${found.words.slice(1)}, ${found.zone}. Next: ${found.next.slice(0, 3).map((due) => due.local).join(", ") || "never"}`);
  };
  const plan = () => {
    clearTimeout(timer);
    timer = setTimeout(show, 250);
  };
  for (const one of [cron, zone]) one.querySelector("input").addEventListener("input", plan);
  show();
  return [cron, zone, suggested("time-zones", zones), words];
}

function history(runs) {
  return h("div", { class: "scroll" }, h("table", { class: "list cards" },
    h("thead", null, h("tr", null, h("th", null, "Schedule"), h("th", null, "Due"), h("th", null, "State"), h("th", null, "Workflow"), h("th", { class: "wide" }, "Reason"))),
    h("tbody", null, runs.map((run) => h("tr", { "data-key": run.executionId }, h("th", { scope: "row" }, h("a", { href: hrefOf(run.scheduleName) }, run.scheduleName)), h("td", { class: "when", "data-label": "Due" }, ago(run.scheduledTime)),
      h("td", { "data-label": "State" }, h("span", { class: `status ${run.state === "FAILED" ? "bad" : "ok"}` }, run.state === "FAILED" ? "✕ FAILED" : `✓ ${run.state}`)),
      h("td", { class: "text", "data-label": "Workflow" }, run.workflowId ? h("a", { href: `/execution/${run.workflowId}` }, run.workflowName) : run.workflowName ?? "–"), h("td", { class: "wide" }, run.reason ?? ""))))));
}
