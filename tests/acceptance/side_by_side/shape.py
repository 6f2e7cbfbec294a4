"""The compared part of a run: its end, and the type, status, attempt and output keys of every task, in order."""

from __future__ import annotations

from typing import Any

#: Tasks that look at others. The state of an open one at a Conductor server depends on when a thread of
#: its own last looked at it: its output may have what was there by then, and in a workflow that fails it is FAILED or
#: CANCELED. Neither is compared.
LOOKING = ("JOIN", "DO_WHILE", "EXCLUSIVE_JOIN")
CUT_SHORT = ("FAILED", "CANCELED")
OPEN = ("SCHEDULED", "IN_PROGRESS")


def mended(workflow: dict[str, Any]) -> dict[str, Any]:
    """A run of the real server without what its threads leave behind: open tasks of a workflow that failed."""
    ended_badly = workflow["status"] in ("FAILED", "TERMINATED", "TIMED_OUT")
    tasks = []
    for task in workflow["tasks"]:
        task = {**task, "child": mended(task["child"])} if "child" in task else task
        tasks.append({**task, "status": "CANCELED"} if ended_badly and task["status"] in OPEN else task)
    return {**workflow, "tasks": tasks}


def shape(workflow: dict[str, Any], depth: int = 0) -> list[str]:
    """A line for the workflow and one for each of its tasks; sub-workflows are indented under their tasks."""
    indent = "    " * depth
    tasks = workflow["tasks"]
    cut_short = bool(tasks) and _is_cut_short(tasks[-1]) and not workflow["workflowDefinition"].get("outputParameters")
    output = "?" if cut_short else sorted(workflow.get("output") or ())
    lines = [f"{indent}{workflow['status']} output={output}"]
    for task in tasks:
        kind, status, keys = task["taskType"], task["status"], str(sorted(task.get("outputData") or ()))
        if _is_cut_short(task):
            status, keys = "FAILED or CANCELED", "?"
        attempt, number = task.get("retryCount", 0), task.get("iteration", 0)
        ref = task["referenceTaskName"]
        lines.append(f"{indent}  {ref} {kind} {status} attempt={attempt} round={number} output={keys}")
        if "child" in task:
            lines += shape(task["child"], depth + 1)
    return lines


def _is_cut_short(task: dict[str, Any]) -> bool:
    return task["taskType"] in LOOKING and task["status"] in CUT_SHORT


def waits_for_ever(workflow: dict[str, Any]) -> bool:
    """Whether a workflow runs and only its JOINs are open: the real server lets one wait for what never comes."""
    if workflow["status"] != "RUNNING":
        return False
    still_open = [task for task in workflow["tasks"] if task["status"] in OPEN]
    return all(
        task["taskType"] in LOOKING or ("child" in task and waits_for_ever(task["child"])) for task in still_open
    )
