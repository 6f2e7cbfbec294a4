"""Resolves the names in `${...}`: the workflow, and tasks by their reference names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.coordinator.definitions.workflow_plan import TaskNode
from conductor.coordinator.language.expressions import (
    TASK_ID_NAME,
    ComputedObject,
    resolve_and_measure,
    secret_placeholder,
)
from conductor.coordinator.language.jsonpath import Step
from conductor.coordinator.settings.environment import environment
from conductor.coordinator.workflows.decision import Draft
from conductor.coordinator.workflows.state import TaskState, WorkflowState

_PAYLOADS = ("input", "output")


class Scope:
    """Looks up names for one task of a workflow. A value is read when an expression first names it."""

    def __init__(self, draft: Draft, task_id: str | None = None) -> None:
        self._draft = draft
        self._task_id = task_id
        self._seen: dict[tuple[str, Step | None], Any] = {}

    def __call__(self, name: str, step: Step | None = None) -> Any:
        """Return the value of a name; None if it is unknown. If `step` is input or output, only that part is filled."""
        key = name, step if step in _PAYLOADS else None
        if key not in self._seen:
            self._seen[key] = self._value(*key)
        return self._seen[key]

    def _value(self, name: str, step: Step | None) -> Any:
        if name == TASK_ID_NAME:
            return self._task_id
        one = self._draft.state if name == "workflow" else self._draft.newest(name)
        if one is None:
            return None
        if step is not None:  # a fast path, because most expressions name an input or an output
            return {step: one.input if step == "input" else one.output}
        return self._workflow() if isinstance(one, WorkflowState) else _task_view(one, self._draft)

    def _workflow(self) -> dict[str, Any]:
        state = self._draft.state
        definition = state.plan.definition
        return {
            "input": state.input,
            "output": state.output,
            "variables": self._draft.variables,
            "status": state.status,
            "workflowId": state.workflow_id,
            "workflowType": definition.get("name"),
            "version": definition.get("version", 1),
            "schemaVersion": definition.get("schemaVersion", 2),
            "correlationId": state.correlation_id,
            "parentWorkflowId": state.parent_workflow_id,
            "parentWorkflowTaskId": state.parent_task_id,
            "reasonForIncompletion": state.reason,
            "env": environment(),
            "secrets": ComputedObject(secret_placeholder),
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


def task_def_of(node: TaskNode) -> Mapping[str, Any]:
    """Return the task definition in the workflow's snapshot; an empty mapping if none was registered."""
    return node.task.get("taskDefinition") or {}


def task_input(draft: Draft, node: TaskNode, task_id: str) -> dict[str, Any]:
    """Return the input of a task. The `inputTemplate` of its definition replaces missing and null values."""
    template = task_def_of(node).get("inputTemplate")
    given = node.task.get("inputParameters")
    if template:
        given = {**template, **(given or {})}
    resolved, size = resolve_and_measure(given or {}, Scope(draft, task_id))
    draft.bytes_brought_in += size
    if not template:
        return resolved  # type: ignore[no-any-return]
    return {key: template.get(key) if value is None else value for key, value in resolved.items()}
