"""What `${...}` may name: the workflow, and every task by its reference name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.coordinator.draft import Draft
from conductor.coordinator.expressions import resolve
from conductor.coordinator.plan import Node
from conductor.coordinator.workflow_state import TaskState

#: The only name outside of the workflow: the id of the task that the input is for.
TASK_ID_NAME = "CPEWF_TASK_ID"


class Scope:
    """Names as one task of a workflow sees them. It reads only those that are asked for."""

    def __init__(self, draft: Draft, task_id: str | None = None) -> None:
        self._draft = draft
        self._task_id = task_id
        self._seen: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        """The value of a name; None if there is none."""
        if name not in self._seen:
            self._seen[name] = self._value(name)
        return self._seen[name]

    def _value(self, name: str) -> Any:
        if name == "workflow":
            return self._workflow()
        if name == TASK_ID_NAME:
            return self._task_id
        task = self._draft.newest(name)
        return _task_view(task, self._draft) if task else None

    def _workflow(self) -> dict[str, Any]:
        state = self._draft.state
        return {
            "input": state.input,
            "output": state.output,
            "variables": self._draft.variables,
            "status": state.status,
            "workflowId": state.workflow_id,
            "workflowType": state.definition.get("name"),
            "version": state.definition.get("version", 1),
            "schemaVersion": state.definition.get("schemaVersion", 2),
            "correlationId": state.correlation_id,
            "parentWorkflowId": state.parent_workflow_id,
            "parentWorkflowTaskId": state.parent_task_id,
            "reasonForIncompletion": state.reason,
        }


def _task_view(task: TaskState, draft: Draft) -> dict[str, Any]:
    return {
        "input": task.input,
        "output": task.output,
        "status": task.status,
        "taskId": task.task_id,
        "taskType": task.wire_type,
        "taskDefName": task.name,
        "referenceTaskName": task.ref,
        "retryCount": task.retry_count,
        "iteration": task.iteration,
        "seq": task.seq,
        "scheduledTime": task.scheduled_ms,
        "startTime": task.started_ms,
        "endTime": task.ended_ms,
        "pollCount": task.poll_count,
        "workerId": task.worker_id,
        "callbackAfterSeconds": task.callback_after_s,
        "reasonForIncompletion": task.reason,
        "workflowInstanceId": draft.state.workflow_id,
        "correlationId": draft.state.correlation_id,
        "subWorkflowId": task.sub_workflow_id,
    }


def task_def_of(draft: Draft, node: Node) -> Mapping[str, Any]:
    """The task definition that applies: the one in the workflow definition, else the registered one, else none."""
    return node.task.get("taskDefinition") or draft.state.task_defs.get(str(node.task.get("name"))) or {}


def task_input(draft: Draft, node: Node, task_id: str) -> dict[str, Any]:
    """The input of a task. Its definition's template fills in what is not given or resolves to null."""
    template = task_def_of(draft, node).get("inputTemplate") or {}
    given = {**template, **(node.task.get("inputParameters") or {})}
    resolved: dict[str, Any] = resolve(given, Scope(draft, task_id))
    return {key: template.get(key) if value is None else value for key, value in resolved.items()}
