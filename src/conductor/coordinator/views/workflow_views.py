"""Workflows as Conductor's clients read them."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.lookup import find_workflow, get_task, workflow_data
from conductor.coordinator.store.rows import TaskData, WorkflowData, WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.task_views import tasks, version_in


def workflow(tx: Tx, snapshots: Snapshots, workflow_id: str, *, with_tasks: bool) -> dict[str, Any]:
    """One workflow; 404 if unknown."""
    return whole_workflow(tx, snapshots, find_workflow(tx, workflow_id), with_tasks=with_tasks)


def whole_workflow(tx: Tx, snapshots: Snapshots, row: WorkflowRow, *, with_tasks: bool) -> dict[str, Any]:
    """A workflow with its definition and, if asked, its tasks."""
    data = workflow_data(tx, row.pk)
    found = workflow_json(tx.ids, row, data)
    found["workflowDefinition"] = snapshots.get(tx, row.snapshot).wire()
    if found["workflowDefinition"].get("rateLimitConfig") and (turn := tx.row("turn", row.pk)) is not None:
        found["rateLimitKey"], found["rateLimited"] = turn[1], turn[2] is not None
    # A parent may have been removed before its child.
    parent = get_task(tx, row.parent_task)
    if parent is not None:
        found["parentWorkflowId"] = tx.ids.workflow(parent.workflow)
        found["parentWorkflowTaskId"] = tx.ids.task(parent.pk)
    failed = tx.rows("failed tasks", row.pk, data.failed_task)
    found["failedReferenceTaskNames"] = list(dict.fromkeys(ref for ref, _ in failed))
    found["failedTaskNames"] = list(dict.fromkeys(name for _, name in failed))
    if with_tasks:
        found["tasks"] = tasks(tx, snapshots, row)
        started = {
            msgspec.json.decode(task["workflowTask"], type=_Named).taskReferenceName: task["inputData"]
            for task in found["tasks"]
            if task["taskType"] == "SUB_WORKFLOW"
        }
        versions = {ref: version for ref, given in started.items() if (version := version_in(TaskData(bytes(given))))}
        if versions:
            definition = found["workflowDefinition"]
            found["workflowDefinition"] = {**definition, "tasks": _with_versions(definition["tasks"], versions)}
    return found


class _Named(msgspec.Struct):
    taskReferenceName: str  # noqa: N815 - as it is written


def _with_versions(value: Any, versions: dict[str, int]) -> Any:
    """The tasks of a definition, each SUB_WORKFLOW among them with the version that it has started."""
    if isinstance(value, list):
        return [_with_versions(one, versions) for one in value]
    if not isinstance(value, dict):
        return value
    if "taskReferenceName" not in value:  # the cases of a SWITCH
        return {key: _with_versions(one, versions) for key, one in value.items()}
    inside = {key: _with_versions(value[key], versions) for key in _SEQUENCES if value.get(key)}
    version = versions.get(value["taskReferenceName"])
    if version is not None and value.get("subWorkflowParam"):
        inside["subWorkflowParam"] = {**value["subWorkflowParam"], "version": version}
    return {**value, **inside}


_SEQUENCES = ("decisionCases", "defaultCase", "forkTasks", "loopOver")


def workflow_status(tx: Tx, workflow_id: str, *, output: bool, variables: bool) -> dict[str, Any]:
    """The short form of a workflow."""
    row = find_workflow(tx, workflow_id)
    data = workflow_data(tx, row.pk)
    status: dict[str, Any] = {"workflowId": workflow_id, "status": row.status}
    if row.correlation_id is not None:
        status["correlationId"] = row.correlation_id
    if output:
        status["output"] = raw(data.output)
    if variables:
        status["variables"] = raw(data.variables)
    return status


def raw(payload: bytes | None) -> msgspec.Raw:
    """A stored JSON object as it is, `{}` when there is none."""
    return msgspec.Raw(payload or b"{}")


def workflow_json(ids: Ids, row: WorkflowRow, data: WorkflowData) -> dict[str, Any]:
    """A workflow as Conductor's clients read it; tasks and definition are added by the caller."""
    workflow: dict[str, Any] = {
        "workflowId": ids.workflow(row.pk),
        "workflowName": row.name,
        "workflowVersion": row.version,
        "status": row.status,
        "priority": row.priority,
        "createTime": row.created_ms,
        "startTime": row.created_ms,
        "updateTime": row.updated_ms,
        "endTime": row.ended_ms or 0,
        "lastRetriedTime": row.retried_ms,
        "input": raw(data.input),
        "output": raw(data.output),
        "variables": raw(data.variables),
        "taskToDomain": raw(data.task_to_domain),
        "tasks": [],
    }
    if row.correlation_id is not None:
        workflow["correlationId"] = row.correlation_id
    if row.idempotency_key is not None:
        workflow["idempotencyKey"] = row.idempotency_key
    if data.reason is not None:
        workflow["reasonForIncompletion"] = data.reason
    if data.created_by is not None:
        workflow["createdBy"] = data.created_by
    return workflow
