// Actions on many workflows. The API accepts a limited number of ids in one request, so long lists are sent in parts.

import { ask, field } from "./dialogs.js";
import { post, put, withQuery } from "./api.js";
import { say } from "./dom.js";
import { count, isOpen } from "./words.js";

const MAX_IDS = 1000;
const SHOWN_PROBLEMS = 3;

const hasFailed = (status) => ["FAILED", "TIMED_OUT", "TERMINATED"].includes(status);

/** Every action: its name, the statuses to which it applies, its confirmation and its request. */
export const ACTIONS = [
  { name: "Pause", done: "paused", applies: (status) => status === "RUNNING", text: "Running tasks continue. No new tasks are scheduled until you resume the workflows.", send: put, path: "/api/workflow/bulk/pause" },
  { name: "Resume", done: "resumed", applies: (status) => status === "PAUSED", text: "The workflows schedule their next tasks.", send: put, path: "/api/workflow/bulk/resume" },
  { name: "Retry", done: "retried", applies: hasFailed, text: "Each workflow continues at its failed tasks, with new attempts.", send: post, path: "/api/workflow/bulk/retry" },
  { name: "Restart", done: "restarted", applies: (status) => !isOpen(status), text: "Each workflow runs again from the beginning, with the same id and input. Its earlier tasks are deleted.", send: post, path: "/api/workflow/bulk/restart" },
  { name: "Terminate", done: "terminated", applies: isOpen, text: "Their open tasks are cancelled. You can retry the workflows later.", send: post, path: "/api/workflow/bulk/terminate", isBad: true },
];

/**
 * Ask, then run an action on workflows. Returns whether any workflow was changed. The dialog stays open while workflows
 * are left for which the action failed, and shows why. Its button then tries only these workflows again.
 */
export async function runAction(action, ids) {
  const fields = action.name === "Terminate" ? [field("Reason", "reason")] : [];
  let left = ids;
  let done = 0;
  const work = async ({ reason }) => {
    const problems = new Map(); // id → why the action failed
    for (let from = 0; from < left.length; from += MAX_IDS) {
      if (from) say(`${action.name}: ${from.toLocaleString("en")} of ${left.length.toLocaleString("en")} …`);
      const answer = await action.send(withQuery(action.path, { reason }), left.slice(from, from + MAX_IDS));
      done += answer.bulkSuccessfulResults.length;
      for (const [id, problem] of Object.entries(answer.bulkErrorResults ?? {})) problems.set(id, problem);
    }
    if (!problems.size) return;
    left = [...problems.keys()];
    const reasons = [...new Set(problems.values())];
    const others = reasons.length > SHOWN_PROBLEMS ? ` And ${count(reasons.length - SHOWN_PROBLEMS, "other reason")}.` : "";
    throw new Error(`${count(done, "workflow")} ${action.done}, ${count(left.length, "workflow")} not: ${reasons.slice(0, SHOWN_PROBLEMS).join("; ")}.${others}`);
  };
  await ask({ title: `${action.name} ${count(ids.length, "workflow")}?`, text: action.text, button: action.name, isBad: action.isBad, fields, work, done: () => `${count(done, "workflow")} ${action.done}` });
  return done > 0;
}

export const retry = ACTIONS.find((one) => one.name === "Retry");
