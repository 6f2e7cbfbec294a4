// View: one workflow, with its input and output, the reason why it waits, its graph, the selected task and its timeline.

import { completeDialog, failDialog } from "./answer.js";
import { cardOfWorkflow, loadOfWorkflow } from "./audit.js";
import { mayOperate, mayStart } from "./access.js";
import { ask, field } from "./dialogs.js";
import { get, post, put, remove, withQuery } from "./api.js";
import { h } from "./dom.js";
import { Tasks, branchStatus, comparedBy, graph, placeTasks, tally, walk } from "./graph.js";
import { jsonForm } from "./form.js";
import { fullSchema, startDialog } from "./start.js";
import { isObject, parseJson } from "./schema.js";
import { stepList } from "./steps.js";
import { timeline } from "./timeline.js";
import { ago, command, count, exactly, isOpen, json, left, setNow, since, span, status, timeOfDay, waiting } from "./words.js";

const FAILED = ["FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT", "CANCELED"];
/** Task types that people complete or fail. */
const BY_HAND = ["WAIT", "HUMAN"];
const SHOWN_RUNS = 40;
const SHOWN_BRANCHES = 30;

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
  placeTasks(data.tasks, data.definition);
  data.line = chosenLine(data, query);
  [data.payload, data.audit] = await Promise.all([data.line ? payloadOf(data.line) : null, loadOfWorkflow(data.workflow.workflowId)]);
  return data;
}

async function payloadOf(line) {
  const mark = `${line.taskId} ${line.status} ${line.updatedMs ?? 0}`;
  if (payload?.mark !== mark || isOpen(line.status)) {
    const [task, logs, inner] = await Promise.all([get(`/api/tasks/${line.taskId}`), get(`/api/tasks/${line.taskId}/log`),
      line.subWorkflowId ? get(`/api/view/workflow/${line.subWorkflowId}/waiting`).catch(() => null) : null]); // the sub-workflow might have been removed
    payload = { mark, task, logs: logs ?? [], inner };
  }
  return payload;
}

/** The selected attempt: the one in the address, else the one that explains why the workflow waits. */
function chosenLine(data, query) {
  const attempt = query.get("attempt");
  if (attempt) return data.tasks.find((line) => line.taskId === attempt) ?? null;
  const ref = query.get("task");
  if (ref) {
    const path = query.get("at");
    return data.tasks.findLast((line) => line.base === ref && (path === null || line.path === path)) ?? null;
  }
  if (query.get("branches")) return null;
  return data.tasks.find((line) => line.taskId === data.waiting.taskId) ?? data.tasks.findLast?.((line) => FAILED.includes(line.status)) ?? null;
}

export const isLive = (data) => isOpen(data.workflow.status);
export const usesEvents = true;
export const shows = (data, changed) => changed.includes(data.workflow.workflowId);

export function render(data, context) {
  const { workflow } = data;
  const { query } = context;
  const here = `/execution/${workflow.workflowId}`;
  const rounds = Object.fromEntries(query.getAll("round").map((one) => [one.slice(0, one.lastIndexOf(":")), Number(one.slice(one.lastIndexOf(":") + 1))]));
  const kept = query.getAll("round").map((one) => ["round", one]);
  const link = (pairs) => `${here}?${new URLSearchParams([...kept, ...pairs])}`;
  const selected = data.line?.base ?? query.get("task");
  const tasks = new Tasks(data.tasks, rounds);
  const at = (path) => (path ? [["at", path]] : []);
  const look = {
    tasks, selected, room: document.documentElement.clientWidth - (document.documentElement.clientWidth > 700 ? 60 : 44),
    hrefOf: (ref, path) => link([["task", ref], ...at(path)]),
    hrefOfRound: (ref, round, path) => `${here}?${new URLSearchParams([...kept.filter(([, one]) => !one.startsWith(`${ref}:`)), ["round", `${ref}:${round}`], ["task", ref], ...at(path)])}`,
    hrefOfBranches: (ref, path) => link([["branches", ref], ...at(path)]),
    hrefOfAttempt: (line) => link([["attempt", line.taskId]]),
    hrefOfLine: (line) => link([["task", line.base], ...at(line.path)]),
  };
  const isAll = query.get("all") === "true";
  const hrefOfAll = `${here}?${new URLSearchParams([...query].filter(([name]) => name !== "all").concat([["all", "true"]]))}`;
  return h("div", { class: "execution", "data-key": workflow.workflowId },
    heading(data, context),
    h("section", { class: "data", "aria-label": "Input and output" },
      h("div", { class: "card" }, json("Input", workflow.input, { openLines: 1000 })),
      h("div", { class: "card" }, isOpen(workflow.status) && !Object.keys(workflow.output ?? {}).length ? h("p", { class: "empty" }, "Output: ", h("span", { class: "quiet" }, "none yet")) : json("Output", workflow.output, { openLines: 1000 }))),
    h("div", { class: "columns" },
      h("section", { class: "drawing", "aria-label": "Graph" }, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Graph, scrollable" }, graph(data.definition, look))),
      h("div", { class: "side" },
        query.get("branches") ? branches(data, query, tasks, look, isAll, hrefOfAll) : panel(data, context, look, isAll, hrefOfAll),
        h("section", { class: "card", "aria-label": "Timeline" }, h("h2", null, "Timeline"),
          timeline(workflow, data.tasks, { selected, all: isAll, hrefOfAll, hrefOf: look.hrefOfLine }),
          data.moreTasks ? h("p", { class: "quiet" }, "The workflow has more tasks than are shown here.") : null),
        h("section", { class: "card", "aria-label": "Workflow data" }, h("h2", null, "Workflow"), facts(data), json("Variables", workflow.variables)),
        cardOfWorkflow(data.audit, workflow.workflowId))));
}

function heading(data, context) {
  const { workflow } = data;
  return h("div", { class: "title" },
    breadcrumb(data.parents ?? [], workflow),
    h("div", { class: "head" },
      h("h1", null, workflow.workflowName, h("a", { class: "quiet version", href: `/workflowDef/${encodeURIComponent(workflow.workflowName)}?version=${workflow.workflowVersion}` }, `v${workflow.workflowVersion}`)),
      status(workflow.status),
      h("span", { class: "quiet" }, "started ", ago(workflow.createTime), ", ", isOpen(workflow.status) ? ["running for ", since(workflow.createTime)] : `took ${span(workflow.endTime - workflow.createTime)}`),
      workflow.correlationId ? h("span", null, h("span", { class: "quiet" }, "correlation id "), workflow.correlationId) : null,
      buttons(data, context)),
    data.waiting.kind === "done" ? null : waiting(data.waiting, linked(data.waiting.sentence, data.causes ?? []), terminatedBy(data)),
    causes(data.causes ?? []),
    h("p", { class: "quiet ids" }, h("code", null, workflow.workflowId)));
}

/** The workflows that started this one, the outermost first. */
function breadcrumb(parents, workflow) {
  if (!parents.length) return null;
  return h("nav", { class: "breadcrumb", "aria-label": "Parent workflows" }, h("ol", null,
    parents.map((one) => h("li", null, h("a", { href: `/execution/${one.workflowId}` }, one.name), " ", status(one.status))),
    h("li", { "aria-current": "page" }, workflow.workflowName)));
}

/** Who has terminated the workflow, if the audit trail says so. */
function terminatedBy({ workflow, audit }) {
  if (workflow.status !== "TERMINATED") return null;
  const found = audit?.entries.find((one) => one.action === "terminate");
  return found ? h("span", null, " (by ", h("strong", null, found.key ?? "a request without a key"), `, ${found.address})`) : null;
}

/** A sentence in which the id of a sub-workflow, or its name and its id in brackets, is a link. */
function linked(sentence, related) {
  const found = related.find((one) => sentence.includes(one.workflowId));
  if (!found) return sentence;
  const named = `${found.name} (${found.workflowId})`;
  const replaced = sentence.includes(named) ? named : found.workflowId;
  const at = sentence.indexOf(replaced);
  return [sentence.slice(0, at), linkTo(found), sentence.slice(at + replaced.length)];
}

/** The workflows that a task has started: its sub-workflow, or those that its durable steps have called. */
function startedBy(line, task, causes) {
  const own = line.subWorkflowId ? [{ workflowId: line.subWorkflowId, name: task.inputData?.subWorkflowName ?? line.subWorkflowId }] : [];
  const called = (line.steps ?? []).filter((step) => step.workflowId).map((step) => ({ workflowId: step.workflowId, name: step.name }));
  return [...causes, ...own, ...called];
}

const linkTo = (one) => h("a", { href: `/execution/${one.workflowId}`, title: one.workflowId }, one.name);

/** Where the innermost sub-workflow waits or failed. */
function causes(chain) {
  const last = chain.at(-1);
  if (!last) return null;
  return h("p", { class: `why inner ${last.waiting?.urgent ? "bad" : ""}` },
    h("span", { class: "quiet" }, chain.length > 1 ? "Innermost sub-workflow: " : "Sub-workflow: "), chain.map((one, at) => [at ? " › " : null, linkTo(one)]), ": ", last.waiting?.sentence,
    last.waiting?.remedy && last.waiting.kind !== "signal" ? h("span", { class: "remedy" }, ` ${last.waiting.remedy}`) : null);
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

function buttons(data, context) {
  const { workflow } = data;
  const id = workflow.workflowId;
  const path = `/api/workflow/${id}`;
  const button = (text, kind, question, work, done) => h("button", { type: "button", class: kind, onclick: async () => {
    const made = typeof question === "function" ? await question() : question;
    const asked = await ask({ title: `${text} ${workflow.workflowName}?`, button: text, isBad: kind === "danger", work: (values) => work(values), done, ...made });
    if (asked) {
      definition = null;
      context.refresh();
    }
  } }, text);
  const reason = [field("Reason", "reason", { hint: "Stored with the workflow." })];
  const restart = async () => {
    const form = await inputOf(data);
    return { isWide: true, text: "The workflow starts again with the same id. Its tasks so far are deleted.",
      fields: [h("h3", null, "Input"), form.element, field("Use the latest definition", "latest", { type: "checkbox" })],
      check: ({ latest }) => {
        const input = form.readChanged();
        if (latest && input) throw new Error("A restart changes either the input or the definition. To change both, use Start again.");
        return { latest, input };
      } };
  };
  const all = {
    pause: () => button("Pause", "", { text: "No new task is scheduled. Running tasks continue. You can resume the workflow." }, () => put(`${path}/pause`), "Paused."),
    resume: () => button("Resume", "primary", { text: "The workflow continues with the results of the tasks that have ended meanwhile." }, () => put(`${path}/resume`), "Resumed."),
    retry: () => button("Retry", "primary", { text: "Failed and cancelled tasks run again, as new attempts. Completed tasks keep their results." },
      () => post(`${path}/retry`), "Retried: the failed tasks are scheduled again."),
    restart: () => button("Restart", "", restart, ({ latest, input }) => (input ? post(`${path}/rerun`, { workflowInput: input }) : post(withQuery(`${path}/restart`, { useLatestDefinitions: latest ? "true" : "" }))), "Restarted from the beginning."),
    again: () => h("button", { type: "button", onclick: () => startDialog(workflow.workflowName, context.go, { input: workflow.input, definition: data.definition, correlationId: workflow.correlationId,
      text: "This starts a new workflow with the latest definition. The form begins with the input of this workflow." }) }, "Start again"),
    message: () => button("Send message", "", { title: `Send a message to ${workflow.workflowName}`, text: "A task that waits for the message takes it. Otherwise the message waits for such a task.",
      fields: [field("Message", "message", { rows: 4, value: '{"name": "approval"}', required: true, hint: "A JSON object. The field `name` is the name of the message." })],
      check: ({ message }) => {
        const payload = parseJson(message, "The message");
        if (!isObject(payload)) throw new Error("The message must be a JSON object, such as {\"name\": \"approval\"}.");
        return payload;
      } }, (payload) => post(`${path}/messages`, payload), "The message is sent."),
    terminate: () => button("Terminate", "danger", { text: "Open tasks are cancelled. You can retry or restart the workflow later.", fields: reason }, (asked) => remove(withQuery(path, { reason: asked.reason })), "Terminated."),
  };
  const offered = { RUNNING: ["pause", "message", "terminate"], PAUSED: ["resume", "terminate"], COMPLETED: ["restart", "again"] }[workflow.status] ?? ["retry", "restart", "again"];
  return h("div", { class: "buttons", role: "group", "aria-label": "Actions for this workflow" }, offered.filter((name) => (name === "again" ? mayStart() : mayOperate())).map((name) => all[name]()));
}

/** The form for the input of this workflow. */
async function inputOf({ workflow, definition: used }) {
  return jsonForm({ schema: await fullSchema(used.inputSchema), value: workflow.input });
}

// -- one task

function panel(data, context, look, isAll, hrefOfAll) {
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
  const runs = data.tasks.filter((one) => one.base === line.base);
  const { task, logs, inner } = data.payload;
  const open = isOpen(line.status);
  return h("section", { class: "card task", "aria-label": `Task ${line.ref}`, "data-key": `task-${line.taskId}` },
    h("div", { class: "head" }, h("h2", null, line.ref), status(line.status), taskButtons(data, line, context)),
    line.waiting ? waiting(line.waiting, linked(line.waiting.sentence, startedBy(line, task, data.causes ?? []))) : null,
    line.reason && !line.waiting ? h("p", { class: FAILED.includes(line.status) ? "why bad reason" : "why reason" }, line.reason) : null,
    line.subWorkflowId ? h("p", { class: "sub" }, h("a", { href: `/execution/${line.subWorkflowId}`, class: "strong" }, "Open the sub-workflow →"), inner && inner.kind !== "done" && !data.causes?.some((one) => one.workflowId === line.subWorkflowId) ? [" ", h("span", { class: inner.urgent ? "bad" : null }, inner.sentence)] : null) : null,
    h("dl", { class: "facts" }, taskFacts(data, line, attempts).map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    open && BY_HAND.includes(line.type) ? [h("p", { class: "quiet" }, "From a terminal or a script:"), command("conductor-worker", "task", "complete", `${data.workflow.workflowId}:${line.ref}`, "--output", "{}")] : null,
    line.waiting?.kind === "unpolled" ? [h("p", { class: "quiet" }, "Start its worker, for example:"), command("conductor-worker", "run", "MODULE"), h("p", { class: "quiet" }, "MODULE is the Python module that contains ", h("code", null, `@worker_task("${line.name}")`), ".")] : null,
    json("Input", task.inputData), json(open ? "Output so far" : "Output", task.outputData),
    stepList(line), logList(logs), attempts.length > 1 ? attemptList("Attempts", attempts, line, look) : null,
    runs.length > attempts.length ? attemptList("Runs", runs, line, look, isAll, hrefOfAll) : null);
}

function taskFacts(data, line, attempts) {
  const open = isOpen(line.status);
  const waitedUntil = line.startedMs || (open ? null : line.endedMs);
  const defined = ["SWITCH", "DECISION"].includes(line.type) ? [...walk(data.definition.tasks)].find((one) => one.taskReferenceName === line.base) : null;
  return [
    ["Task", line.type === "SIMPLE" ? h("a", { href: `/taskDef/${encodeURIComponent(line.name)}` }, line.name) : line.type],
    ["Attempt", attempts.length > 1 || line.retryCount ? `${(line.retryCount ?? 0) + 1}${attempts.length > 1 ? ` (${attempts.length} in total)` : ""}` : null],
    ["Iteration", line.path || null],
    ["Compared", defined ? h("code", null, comparedBy(defined)) : null],
    ["Chosen case", line.chosen],
    ["Scheduled", timeSpan(line.scheduledMs)],
    ["Wait time", waitedUntil && line.type === "SIMPLE" ? span(waitedUntil - line.scheduledMs) : null],
    [line.status === "SCHEDULED" ? "Since its start" : "Run time", line.startedMs ? (open ? since(line.startedMs) : span(line.endedMs - line.startedMs)) : null],
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

/** The attempts at a task, or its runs in all iterations. */
function attemptList(title, attempts, line, look, isAll = true, hrefOfAll = null) {
  const isRuns = hrefOfAll !== null;
  const sorted = isRuns ? [...attempts].reverse() : attempts;
  const shown = isAll ? sorted : sorted.slice(0, SHOWN_RUNS);
  const nameOf = (one) => (isRuns ? `${one.path || "1"}${one.retryCount ? ` attempt ${one.retryCount + 1}` : ""}` : `${(one.retryCount ?? 0) + 1}`);
  return h("details", { open: true, class: "attempts", "data-key": title }, h("summary", null, title, h("span", { class: "quiet" }, ` ${attempts.length}`)),
    shown.length < attempts.length ? h("p", null, `The newest ${shown.length} of ${attempts.length}. `, h("a", { href: hrefOfAll }, `Show all ${attempts.length} runs`)) : null,
    h("ol", { tabindex: "0", "aria-label": title }, shown.map((one) => h("li", { class: one === line ? "chosen" : "", "data-key": `${title}-${one.taskId}` },
      h("a", { href: look.hrefOfAttempt(one), "aria-current": one === line ? "true" : null, "aria-label": isRuns ? `Iteration ${nameOf(one)}` : null }, nameOf(one)), " ", status(one.status),
      h("span", { class: "quiet" }, one.endedMs && one.startedMs ? ` ${span(one.endedMs - one.startedMs)}` : "", one.workerId ? ` by ${one.workerId}` : "", one.reason && !isOpen(one.status) ? `: ${one.reason}` : "")))));
}

function taskButtons(data, line, { refresh }) {
  const { workflow } = data;
  if (!mayOperate()) return null;
  const offered = [];
  const open = isOpen(line.status);
  if (!isOpen(workflow.status)) {
    offered.push(h("button", { type: "button", onclick: () => rerunDialog(data, line, refresh) }, "Rerun from here"));
  } else if (open && BY_HAND.includes(line.type)) {
    offered.push(byHand(line, refresh));
  }
  return offered.length ? h("div", { class: "buttons", role: "group", "aria-label": "Actions for this task" }, offered) : null;
}

/** Rerun a workflow from a task; the inputs are sent only if they are changed. */
async function rerunDialog(data, line, refresh) {
  const { workflow } = data;
  const own = jsonForm({ value: data.payload.task.inputData, label: "Input of the task" });
  const whole = await inputOf(data);
  const asked = await ask({
    title: `Rerun from ${line.ref}?`, text: "This task and all tasks after it run again. Tasks before it keep their results.", button: "Rerun from here", isWide: true,
    fields: [h("details", null, h("summary", null, "Change the input of the task"), own.element), h("details", null, h("summary", null, "Change the input of the workflow"), h("p", { class: "quiet" }, "Tasks that run again read the new input."), whole.element)],
    check: () => ({ taskInput: own.readChanged(), workflowInput: whole.readChanged() }),
    work: (changed) => post(`/api/workflow/${workflow.workflowId}/rerun`, { reRunFromTaskId: line.taskId, ...changed }), done: `Rerun from ${line.ref}.`,
  });
  if (asked) refresh();
}

function byHand(line, refresh) {
  const button = (word, kind, work) => h("button", { type: "button", class: kind, onclick: async () => {
    if (await work(line.taskId)) refresh();
  } }, word);
  if (!mayOperate()) return null;
  return [button("Complete", "primary", completeDialog), button("Fail", "danger", failDialog)];
}

// -- the branches of a wide fork

function branches(data, query, tasks, look, isAll, hrefOfAll) {
  const ref = query.get("branches");
  const path = query.get("at") ?? "";
  const fork = [...walk(data.definition.tasks)].find((one) => one.taskReferenceName === ref);
  const all = fork?.forkTasks?.length
    ? fork.forkTasks.map((branch) => ({ href: look.hrefOf(branch[0].taskReferenceName, path), to: branch.map((one) => one.taskReferenceName).join(" → "), status: branchStatus(branch, tasks, path) }))
    : tasks.forkedBy(ref, path, data.definition).map((lines) => ({ href: look.hrefOfLine(lines.at(-1)), to: lines.at(-1).ref, status: lines.at(-1).status }));
  const rank = (one) => (one.status === null ? 3 : FAILED.includes(one.status) ? 0 : isOpen(one.status) ? 1 : 2);
  const sorted = [...all].sort((one, other) => rank(one) - rank(other));
  const shown = isAll ? sorted : sorted.slice(0, SHOWN_BRANCHES);
  const name = all.length === 1 ? "branch" : "branches";
  return h("section", { class: "card", "aria-label": `Branches of ${ref}` },
    h("h2", null, `${all.length.toLocaleString("en")} ${name} of ${ref}`), h("p", { class: "quiet" }, tally(all.map((one) => one.status))),
    h("ol", { class: "branches", tabindex: "0", "aria-label": "Branches" }, shown.map((one) => h("li", { "data-key": one.to }, h("a", { href: one.href }, one.to), " ", one.status ? status(one.status) : h("span", { class: "quiet" }, "not reached")))),
    shown.length < all.length ? h("p", null, `${shown.length} of ${all.length.toLocaleString("en")} are shown, failed and running ones first. `, h("a", { href: hrefOfAll }, `Show all ${all.length.toLocaleString("en")} branches`)) : null);
}
