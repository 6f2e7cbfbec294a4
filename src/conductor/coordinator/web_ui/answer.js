// Completes or fails a task that waits for a person, with the form of the task.

import { ask, field } from "./dialogs.js";
import { get, post } from "./api.js";
import { h } from "./dom.js";
import { jsonForm } from "./form.js";
import { isObject, unwrap } from "./schema.js";
import { fullSchema } from "./start.js";
import { json } from "./words.js";

const MAX_VALUE = 2000; // longer texts are shown as JSON
/** Keys of the input of a task that describe its form. */
const FORM_KEYS = ["formSchema", "__humanTaskDefinition"];

/** Ask for the output of an open task, and complete it; returns whether it was completed. */
export async function completeDialog(taskId) {
  const task = await get(`/api/tasks/${encodeURIComponent(taskId)}`);
  const form = jsonForm({ schema: await formSchemaOf(task), label: "Output" });
  return null !== await ask({
    title: `Complete: ${titleOf(task)}`, button: "Complete", isWide: true, text: "The output is the answer. Later tasks can read it.",
    fields: [subject(task), form.element], check: () => form.read(),
    work: (output) => report(task, { status: "COMPLETED", outputData: output }), done: `${task.referenceTaskName} is completed.`,
  });
}

/** Ask for a reason, and fail an open task; returns whether it has failed. */
export async function failDialog(taskId) {
  const task = await get(`/api/tasks/${encodeURIComponent(taskId)}`);
  return null !== await ask({
    title: `Fail: ${titleOf(task)}`, button: "Fail", isBad: true, text: "The task fails with this reason. The workflow fails, too, unless the task is optional.",
    fields: [field("Reason", "reason", { required: true })],
    work: ({ reason }) => report(task, { status: "FAILED", reasonForIncompletion: reason }), done: `${task.referenceTaskName} has failed.`,
  });
}

const report = (task, result) => post("/api/tasks", { taskId: task.taskId, workflowInstanceId: task.workflowInstanceId, ...result });

const titleOf = (task) => task.inputData?.__humanTaskDefinition?.displayName || task.referenceTaskName;

/** Show the facts for the person's decision: the input of the task, without the keys that describe the form. */
function subject(task) {
  const about = Object.fromEntries(Object.entries(task.inputData ?? {}).filter(([key]) => !FORM_KEYS.includes(key)));
  return Object.keys(about).length ? h("div", { class: "subject" }, valuesOf(about)) : null;
}

/** A list of the short values of an object, and its other values as JSON. */
export function valuesOf(object) {
  const isShort = ([, value]) => value === null || (typeof value !== "object" && String(value).length <= MAX_VALUE);
  const all = Object.entries(object);
  const short = all.filter(isShort).slice(0, 30);
  const rest = all.filter((one) => !short.includes(one));
  return [short.length ? h("dl", { class: "facts" }, short.map(([key, value]) => [h("dt", null, key), h("dd", null, String(value))])) : null,
    rest.length ? json("Input", Object.fromEntries(rest)) : null];
}

/** The schema of the output, from the input of the task, its definition, or a registered schema with the name of its form. */
async function formSchemaOf(task) {
  const input = task.inputData ?? {};
  const human = isObject(input.__humanTaskDefinition) ? input.__humanTaskDefinition : {};
  const template = isObject(human.userFormTemplate) ? human.userFormTemplate : {};
  const found = [input.formSchema, human.formSchema, human.schema, template.schema, task.workflowTask?.outputSchema, task.taskDefinition?.outputSchema].find(isObject);
  if (found) return unwrap(found) ? found : fullSchema(found);
  return template.name ? fullSchema({ name: template.name, version: template.version || null }) : null;
}
