// View: one workflow, with the reason why it waits, its graph, its timeline and the selected task.

import { act, ask, field, objectOf } from "./dialogs.js";
import { get, post, put, remove, withQuery } from "./api.js";
import { h } from "./dom.js";
import { Tasks, branchStatus, graph, tally, walk } from "./graph.js";
import { timeline } from "./timeline.js";
import { ago, count, exactly, isOpen, json, left, setNow, since, span, status, timeOfDay, waiting } from "./words.js";

const FAILED = ["FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT", "CANCELED"];
/** Task types that people complete or fail. */
const BY_HAND = ["WAIT", "HUMAN"];

export const title = (data) => (data ? `${data.workflow.workflowName} ${data.workflow.status}` : "Workflow");

let definition = null; // cached, because only a restart changes the definition of a workflow
let payload = null;

export async function load({ params, query }) {
  const id = params[0];
  const isKnown = definition?.id === id;
  const data = await get(withQuery(`/api/view/workflow/${encodeURIComponent(id)}`, { definition: isKnown ? "false" : "true" }));
  setNow(data.nowMs);
  if (!isKnown) definition = { id, body: data.workflow.workflowDefinition };
  data.definition = definition.body;
  data.line = chosenLine(data, query);
  data.payload = data.line ? await payloadOf(data.line) : null;
  return data;
}

async function payloadOf(line) {
  const mark = `${line.taskId} ${line.status} ${line.updatedMs ?? 0}`;
  if (payload?.mark !== mark || isOpen(line.status)) {
    const [task, logs] = await Promise.all([get(`/api/tasks/${line.taskId}`), get(`/api/tasks/${line.taskId}/log`)]);
    payload = { mark, task, logs: logs ?? [] };
  }
  return payload;
}

/** The selected attempt: the one in the address, else the one that explains why the workflow waits. */
function chosenLine(data, query) {
  const attempt = query.get("attempt");
  if (attempt) return data.tasks.find((line) => line.taskId === attempt) ?? null;
  const ref = query.get("task");
  if (ref) {
    const round = Number(query.get("at") ?? 0);
    const lines = data.tasks.filter((line) => line.baseRef === ref && (!round || (line.iteration ?? 0) === round || line.type === "DO_WHILE"));
    return lines.at(-1) ?? null;
  }
  if (query.get("branches")) return null;
  return data.tasks.find((line) => line.taskId === data.waiting.taskId) ?? data.tasks.findLast?.((line) => FAILED.includes(line.status)) ?? null;
}

export const isLive = (data) => isOpen(data.workflow.status);

export function render(data, context) {
  const { workflow } = data;
  const { query } = context;
  const here = `/execution/${workflow.workflowId}`;
  const rounds = Object.fromEntries(query.getAll("round").map((one) => [one.slice(0, one.lastIndexOf(":")), Number(one.slice(one.lastIndexOf(":") + 1))]));
  const kept = query.getAll("round").map((one) => ["round", one]);
  const link = (pairs) => `${here}?${new URLSearchParams([...kept, ...pairs])}`;
  const selected = data.line?.baseRef ?? query.get("task");
  const tasks = new Tasks(data.tasks, rounds);
  const look = {
    tasks, selected,
    hrefOf: (ref, round) => link(round ? [["task", ref], ["at", round]] : [["task", ref]]),
    hrefOfRound: (ref, round) => `${here}?${new URLSearchParams([...kept.filter(([, one]) => !one.startsWith(`${ref}:`)), ["round", `${ref}:${round}`], ["task", ref]])}`,
    hrefOfBranches: (ref) => link([["branches", ref]]),
  };
  return h("div", { class: "execution", "data-key": workflow.workflowId },
    heading(data, context),
    h("div", { class: "columns" },
      h("section", { class: "drawing", "aria-label": "Graph" }, h("div", { class: "scroll" }, graph(data.definition, look))),
      h("div", { class: "side" },
        query.get("branches") ? branches(data, query.get("branches"), tasks, look) : panel(data, context, link),
        h("section", { class: "card", "aria-label": "Timeline" }, h("h2", null, "Timeline"),
          timeline(workflow, data.tasks, { selected, all: query.get("all") === "true", hrefOfAll: link([["all", "true"]]),
            hrefOf: (line) => link(line.iteration ? [["task", line.baseRef], ["at", line.iteration]] : [["task", line.baseRef]]) }),
          data.moreTasks ? h("p", { class: "quiet" }, "The workflow has more tasks than are shown here.") : null),
        h("section", { class: "card", "aria-label": "Workflow data" }, h("h2", null, "Workflow"),
          facts(data), json("Input", workflow.input), json("Output", workflow.output), json("Variables", workflow.variables)))));
}

function heading(data, context) {
  const { workflow } = data;
  return h("div", { class: "title" },
    h("div", { class: "head" },
      h("h1", null, workflow.workflowName, h("a", { class: "quiet version", href: `/workflowDef/${encodeURIComponent(workflow.workflowName)}?version=${workflow.workflowVersion}` }, `v${workflow.workflowVersion}`)),
      status(workflow.status),
      h("span", { class: "quiet" }, "started ", ago(workflow.createTime), ", ", isOpen(workflow.status) ? ["running for ", since(workflow.createTime)] : `took ${span(workflow.endTime - workflow.createTime)}`),
      workflow.correlationId ? h("span", null, h("span", { class: "quiet" }, "correlation id "), workflow.correlationId) : null,
      buttons(data, context)),
    waiting(data.waiting),
    h("p", { class: "quiet ids" }, h("code", null, workflow.workflowId),
      workflow.parentWorkflowId ? [" started by ", h("a", { href: `/execution/${workflow.parentWorkflowId}` }, "its parent workflow")] : null));
}

function facts(data) {
  const { workflow } = data;
  const rows = [
    ["Started", exactly(workflow.createTime)],
    ["Ended", workflow.endTime ? exactly(workflow.endTime) : null],
    ["Priority", workflow.priority || null],
    ["Started by", workflow.createdBy],
    ["Domains", Object.entries(workflow.taskToDomain ?? {}).map(([task, domain]) => `${task} → ${domain}`).join(", ")],
    ["Idempotency key", workflow.idempotencyKey],
  ].filter(([, value]) => value);
  return h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

// -- the actions that apply to the status of the workflow

function buttons(data, { refresh }) {
  const { workflow } = data;
  const id = workflow.workflowId;
  const path = `/api/workflow/${id}`;
  const button = (text, kind, question, work, done) => h("button", { type: "button", class: kind, onclick: async () => {
    const asked = await ask({ title: `${text} ${workflow.workflowName}?`, button: text, isBad: kind === "danger", ...question });
    if (asked && await act(done, () => work(asked))) {
      definition = null;
      refresh();
    }
  } }, text);
  const reason = [field("Reason", "reason", { hint: "Stored with the workflow." })];
  const all = {
    pause: () => button("Pause", "", { text: "No new task is scheduled. Running tasks continue. You can resume the workflow." }, () => put(`${path}/pause`), "Paused."),
    resume: () => button("Resume", "primary", { text: "The workflow continues with the results of the tasks that have ended meanwhile." }, () => put(`${path}/resume`), "Resumed."),
    retry: () => button("Retry", "primary", { text: "Failed and cancelled tasks run again, as new attempts. Completed tasks keep their results." },
      () => post(`${path}/retry`), "Retried: the failed tasks are scheduled again."),
    restart: () => button("Restart", "", { text: "The workflow starts again with the same id and input. Its tasks so far are deleted.", fields: [field("Use the latest definition", "latest", { type: "checkbox" })] },
      (asked) => post(withQuery(`${path}/restart`, { useLatestDefinitions: asked.latest ? "true" : "" })), "Restarted from the beginning."),
    terminate: () => button("Terminate", "danger", { text: "Open tasks are cancelled. You can retry or restart the workflow later.", fields: reason }, (asked) => remove(withQuery(path, { reason: asked.reason })), "Terminated."),
  };
  const offered = { RUNNING: ["pause", "terminate"], PAUSED: ["resume", "terminate"], COMPLETED: ["restart"] }[workflow.status] ?? ["retry", "restart"];
  return h("div", { class: "buttons", role: "group", "aria-label": "Actions for this workflow" }, offered.map((name) => all[name]()));
}

// -- one task

function panel(data, context, link) {
  const line = data.line;
  if (!line) {
    const ref = context.query.get("task");
    const task = ref ? [...walk(data.definition.tasks)].find((one) => one.taskReferenceName === ref) : null;
    return h("section", { class: "card task", "aria-label": "Task" },
      h("h2", null, ref ?? "No task selected"),
      h("p", { class: "quiet" }, ref ? "The workflow has not reached this task." : "Select a task in the graph to see its input, output, logs and attempts."),
      task ? json("Definition", task) : null);
  }
  const attempts = data.tasks.filter((one) => one.ref === line.ref);
  const { task, logs } = data.payload;
  return h("section", { class: "card task", "aria-label": `Task ${line.ref}`, "data-key": `task-${line.taskId}` },
    h("div", { class: "head" }, h("h2", null, line.ref), status(line.status), taskButtons(data, line, context)),
    line.waiting ? waiting(line.waiting) : null,
    line.reason && !line.waiting ? h("p", { class: FAILED.includes(line.status) ? "why bad" : "why" }, line.reason) : null,
    h("dl", { class: "facts" }, taskFacts(line, attempts).map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    line.subWorkflowId ? h("p", null, h("a", { href: `/execution/${line.subWorkflowId}`, class: "strong" }, "Open the sub-workflow →")) : null,
    json("Input", task.inputData), json(isOpen(line.status) ? "Output so far" : "Output", task.outputData),
    logList(logs), attempts.length > 1 ? attemptList(attempts, line, link) : null);
}

function taskFacts(line, attempts) {
  const open = isOpen(line.status);
  const waitedUntil = line.startedMs || (open ? null : line.endedMs);
  return [
    ["Task", line.type === "SIMPLE" ? h("a", { href: `/taskDef/${encodeURIComponent(line.name)}` }, line.name) : line.type],
    ["Attempt", attempts.length > 1 || line.retryCount ? `${(line.retryCount ?? 0) + 1}${attempts.length > 1 ? ` (${attempts.length} in total)` : ""}` : null],
    ["Iteration", line.iteration && line.type !== "DO_WHILE" ? line.iteration : null],
    ["Chosen case", line.chosen],
    ["Scheduled", timeSpan(line.scheduledMs)],
    ["Wait time", waitedUntil && line.type === "SIMPLE" ? span(waitedUntil - line.scheduledMs) : null],
    ["Run time", line.startedMs ? (open ? since(line.startedMs) : span(line.endedMs - line.startedMs)) : null],
    ["Worker", line.workerId],
    ["Previous workers", line.formerWorkers?.join(", ")],
    ["Domain", line.domain],
    ["Lease left", line.leaseUntilMs ? left(line.leaseUntilMs) : null],
    ["Due in", open && line.dueAtMs ? left(line.dueAtMs) : null],
    ["Task id", h("code", null, line.taskId)],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
}

const timeSpan = (ms) => [ago(ms)];

function logList(logs) {
  if (!logs.length) return h("p", { class: "empty", "data-key": "logs" }, "Logs: ", h("span", { class: "quiet" }, "none"));
  return h("details", { open: true, class: "logs", "data-key": "logs" }, h("summary", null, "Logs", h("span", { class: "quiet" }, ` ${count(logs.length, "line")}`)),
    h("ol", { tabindex: "0", "aria-label": "Log lines" }, logs.map((one) => h("li", null, h("time", { datetime: new Date(one.createdTime).toISOString(), title: exactly(one.createdTime) }, timeOfDay(one.createdTime)), " ", one.log))));
}

function attemptList(attempts, line, link) {
  return h("details", { open: true, class: "attempts", "data-key": "attempts" }, h("summary", null, "Attempts", h("span", { class: "quiet" }, ` ${attempts.length}`)),
    h("ol", null, attempts.map((one) => h("li", { class: one === line ? "chosen" : "" },
      h("a", { href: link([["attempt", one.taskId]]), "aria-current": one === line ? "true" : null }, `${(one.retryCount ?? 0) + 1}`), " ", status(one.status),
      h("span", { class: "quiet" }, one.workerId ? ` by ${one.workerId}` : "", one.reason && !isOpen(one.status) ? `: ${one.reason}` : "")))));
}

function taskButtons(data, line, { refresh }) {
  const { workflow } = data;
  const offered = [];
  const open = isOpen(line.status);
  if (!isOpen(workflow.status)) {
    offered.push(h("button", { type: "button", onclick: async () => {
      const asked = await ask({ title: `Rerun from ${line.ref}?`, text: "This task and all tasks after it run again. Tasks before it keep their results.", button: "Rerun from here" });
      if (asked && await act(`Rerun from ${line.ref}.`, () => post(`/api/workflow/${workflow.workflowId}/rerun`, { reRunFromTaskId: line.taskId }))) refresh();
    } }, "Rerun from here"));
  } else if (open && BY_HAND.includes(line.type)) {
    offered.push(byHand(data, line, refresh, "Complete", "COMPLETED"), byHand(data, line, refresh, "Fail", "FAILED"));
  }
  return offered.length ? h("div", { class: "buttons", role: "group", "aria-label": "Actions for this task" }, offered) : null;
}

function byHand(data, line, refresh, word, ends) {
  const isBad = ends === "FAILED";
  return h("button", { type: "button", class: isBad ? "danger" : "primary", onclick: async () => {
    const fields = [field("Output, as JSON", "output", { rows: 6, value: "{}", hint: "Later tasks read this output." })];
    if (isBad) fields.unshift(field("Reason", "reason", { required: true }));
    const asked = await ask({ title: `${word} ${line.ref}?`, text: isBad ? "The task fails with this reason. The workflow fails, too, unless the task is optional." : "The workflow continues.",
      fields, button: word, isBad, check: (values) => ({ reason: values.reason, output: objectOf(values.output, "The output") }) });
    if (!asked) return;
    const report = { taskId: line.taskId, workflowInstanceId: data.workflow.workflowId, status: ends, outputData: asked.output, reasonForIncompletion: asked.reason };
    if (await act(`${line.ref} is ${ends}.`, () => post("/api/tasks", report))) refresh();
  } }, word);
}

// -- the branches of a wide fork

function branches(data, ref, tasks, look) {
  const fork = [...walk(data.definition.tasks)].find((one) => one.taskReferenceName === ref);
  const known = new Set([...walk(data.definition.tasks)].map((one) => one.taskReferenceName));
  const all = fork?.forkTasks?.map((branch) => ({ ref: branch[0].taskReferenceName, to: branch.map((one) => one.taskReferenceName).join(" → "), status: branchStatus(branch, tasks, 0) }))
    ?? [...tasks.byRef].filter(([one]) => !known.has(one)).map(([one, lines]) => ({ ref: one, to: one, status: lines.at(-1).status }));
  const rank = (one) => (one.status === null ? 3 : FAILED.includes(one.status) ? 0 : isOpen(one.status) ? 1 : 2);
  const sorted = [...all].sort((one, other) => rank(one) - rank(other));
  return h("section", { class: "card", "aria-label": `Branches of ${ref}` },
    h("h2", null, `${count(all.length, "branch").replace("branchs", "branches")} of ${ref}`), h("p", { class: "quiet" }, tally(all.map((one) => one.status))),
    h("ol", { class: "branches", tabindex: "0", "aria-label": "Branches" }, sorted.map((one) => h("li", { "data-key": one.ref }, h("a", { href: look.hrefOf(one.ref, 0) }, one.to), " ", one.status ? status(one.status) : h("span", { class: "quiet" }, "not reached")))));
}
