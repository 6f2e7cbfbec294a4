"""Works off a workflow on a server: one task at a time, always the first that is open.

The server gets time to settle before the next task is done, so that a run does not depend on timing, and two runs can
be compared task by task.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx

from conductor.coordinator.definitions.workflow_plan import TASK_TYPES
from tests.acceptance.side_by_side.definitions import OWNER, Definition
from tests.acceptance.side_by_side.values import Values, Way

Task = dict[str, Any]
Workflow = dict[str, Any]

#: A workflow without a change for this time waits forever.
QUIET_S = 30.0
LOOK_EVERY_S = 0.05
#: The number of tasks to do. A workflow that wants more is terminated.
MAX_TASKS_DONE = 40
ENDS = ("COMPLETED", "FAILED", "TERMINATED", "TIMED_OUT")
OPEN = ("SCHEDULED", "IN_PROGRESS")
_FROM_OUTSIDE = ("WAIT", "HUMAN")
_OF_THE_SERVER = frozenset({*TASK_TYPES, "FORK"} - {"SIMPLE"})


class Server:
    """One of the two servers that are compared."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=60)

    def close(self) -> None:
        self._http.close()

    def define_tasks(self, names: list[str], retries: int) -> None:
        """Task definitions, with retries without a delay."""
        fields = {"retryCount": retries, "retryDelaySeconds": 0, "responseTimeoutSeconds": 600, "timeoutSeconds": 0}
        defs = [{"name": name, "ownerEmail": OWNER, **fields} for name in names]
        self._http.post("/metadata/taskdefs", json=defs).raise_for_status()

    def register(self, definition: Definition) -> str | None:
        """Why the definition is refused; None if it is not."""
        answer = self._http.post("/metadata/workflow", params={"overwrite": "true"}, json=definition)
        return None if answer.is_success else answer.text

    def start(self, definition: Definition, given: dict[str, Any]) -> httpx.Response:
        """The answer to a start: the id of the workflow, or why not."""
        asked = {"name": definition["name"], "version": definition["version"], "input": given}
        return self._http.post("/workflow", json=asked)

    def run(self, workflow_id: str, values: Values, way: Way) -> Workflow:
        """Work off the workflow. Return it when it has ended or waits forever. Sub-workflows are in `child`."""
        return _Run(self._http, workflow_id, values, way).run()


class _Run:
    def __init__(self, http: httpx.Client, workflow_id: str, values: Values, way: Way) -> None:
        self._http = http
        self._id = workflow_id
        self._values = values
        self._way = way
        #: Tasks that were polled and not reported yet.
        self._in_hand: set[str] = set()
        #: The name of the task that fails.
        self._failing: str | None = None
        self._done = 0

    def run(self) -> Workflow:
        seen, seen_at = "", time.monotonic()
        while True:
            found = self._look(self._id)
            now = repr([(task["taskId"], task["status"], task.get("iteration")) for task in _all_tasks(found)])
            if now != seen:
                seen, seen_at = now, time.monotonic()
            quiet_s = time.monotonic() - seen_at
            settled = (_is_settled(found) and not _starts_another(found)) or quiet_s > QUIET_S / 3
            if found["status"] in ENDS and (settled or quiet_s > QUIET_S / 3):
                return found
            if quiet_s > QUIET_S:
                return found
            if found["status"] in ENDS or not settled or not self._do_one(found):
                time.sleep(LOOK_EVERY_S)

    def _look(self, workflow_id: str) -> Workflow:
        answer = self._http.get(f"/workflow/{workflow_id}", params={"includeTasks": "true"})
        answer.raise_for_status()
        found: Workflow = answer.json()
        for task in found["tasks"]:
            child = task.get("subWorkflowId") or (task.get("outputData") or {}).get("subWorkflowId")
            if task["taskType"] == "SUB_WORKFLOW" and child:
                task["child"] = self._look(child)
        return found

    def _do_one(self, workflow: Workflow) -> bool:
        """Do the first task that is open; whether there was one."""
        for task in _all_tasks(workflow):
            if task["status"] not in OPEN or (task["taskType"] in _OF_THE_SERVER and not _is_for_outside(task)):
                continue
            if self._done >= MAX_TASKS_DONE:
                self._http.delete(f"/workflow/{self._id}", params={"reason": "enough"}).raise_for_status()
                return True
            if task["taskType"] in _OF_THE_SERVER or self._take(task):
                self._done += 1
                self._report(task)
                return True
        return False

    def _take(self, task: Task) -> bool:
        """Poll until this task is in hand, with others of its type perhaps; they are reported when it is their turn."""
        if task["taskId"] not in self._in_hand:
            ask = {"workerid": "me", "count": "20", "timeout": "100"}
            answer = self._http.get(f"/tasks/poll/batch/{task['taskType']}", params=ask)
            answer.raise_for_status()
            self._in_hand |= {one["taskId"] for one in (answer.json() if answer.content else ())}
        return task["taskId"] in self._in_hand

    def _report(self, task: Task) -> None:
        for_workers = task["taskType"] not in _OF_THE_SERVER
        if for_workers and self._failing is None and self._way.fails:
            self._failing = task["taskType"]
        fails = for_workers and task["taskType"] == self._failing
        ref = task["referenceTaskName"].split("__")[0]
        result = {
            "taskId": task["taskId"],
            "workflowInstanceId": task["workflowInstanceId"],
            "workerId": "me",
            "status": "FAILED" if fails else "COMPLETED",
            "outputData": {"did": ref, **self._values.outputs.get(ref, {})},
            **({"reasonForIncompletion": "it was told to"} if fails else {}),
        }
        self._http.post("/tasks", json=result).raise_for_status()


def _all_tasks(workflow: Workflow) -> Iterator[Task]:
    """Return the tasks in order. Tasks of sub-workflows follow the tasks that started them."""
    for task in workflow["tasks"]:
        yield task
        if "child" in task:
            yield from _all_tasks(task["child"])


def _is_for_outside(task: Task) -> bool:
    """Whether a system task waits for an update from outside."""
    given = task.get("inputData") or {}
    if task["taskType"] in _FROM_OUTSIDE:
        return not (given.get("duration") or given.get("until"))
    return bool((task.get("workflowTask") or {}).get("asyncComplete")) and task["status"] == "IN_PROGRESS"


def _starts_another(workflow: Workflow) -> bool:
    """Whether the failure workflow of a failed one is still to come: the real server starts it a moment later."""
    named = workflow["workflowDefinition"].get("failureWorkflow") or "$"
    failed = workflow["status"] in ("FAILED", "TIMED_OUT")
    return not named.startswith("$") and failed and "conductor.failure_workflow" not in (workflow.get("output") or {})


def _is_settled(workflow: Workflow) -> bool:
    """Whether the server is done with everything that it does by itself."""
    tasks = workflow["tasks"]
    if workflow["status"] == "RUNNING" and not any(task["status"] in OPEN for task in tasks):
        return False
    return not any(_moves(task, workflow) for task in tasks if task["status"] in OPEN)


def _moves(task: Task, workflow: Workflow) -> bool:
    """Whether the server is about to do something with an open task."""
    kind = task["taskType"]
    if kind not in _OF_THE_SERVER or _is_for_outside(task):
        return False
    if kind == "SUB_WORKFLOW":
        child = task.get("child")
        return child is None or child["status"] in ENDS or not _is_settled(child)
    if kind in ("JOIN", "EXCLUSIVE_JOIN", "DO_WHILE"):
        others = [one for one in workflow["tasks"] if one["status"] in OPEN and one is not task]
        return all(one["taskType"] in ("JOIN", "EXCLUSIVE_JOIN", "DO_WHILE") for one in others)
    return True
