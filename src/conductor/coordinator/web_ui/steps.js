// The durable steps of a task: name, duration, and the result or what the step waits for.

import { h } from "./dom.js";
import { count, span, status } from "./words.js";

/** State of a step → the task status that is shown for it. */
const STATUS = { DONE: "COMPLETED", FAILED: "FAILED", WAITING: "IN_PROGRESS" };

export function stepList(line) {
  if (!line.steps?.length) return null;
  const older = line.stepCount - line.steps.length;
  return h("details", { open: true, class: "attempts", "data-key": "steps" }, h("summary", null, "Durable steps", h("span", { class: "quiet" }, ` ${line.stepCount}`)),
    older > 0 ? h("p", { class: "quiet" }, `${count(older, "older step")} ${older === 1 ? "is" : "are"} not shown.`) : null,
    h("ol", { tabindex: "0", "aria-label": "Durable steps" }, line.steps.map((step) => h("li", { "data-key": `step-${nameOf(step)}` },
      h("strong", null, nameOf(step)), " ", status(STATUS[step.state]),
      h("span", { class: "quiet" }, step.kind === "STEP" ? "" : ` ${step.kind}`, step.endedMs ? ` ${span(Math.max(0, step.endedMs - step.startedMs))}` : "", step.waits ? ` ${step.waits}` : ""),
      step.workflowId ? [" ", h("a", { href: `/execution/${step.workflowId}` }, "Open the workflow →")] : null,
      step.result ? [" ", h("code", null, step.result, step.resultBytes > step.result.length ? "…" : "")] : null))));
}

const nameOf = (step) => (step.number > 1 ? `${step.name}#${step.number}` : step.name);
