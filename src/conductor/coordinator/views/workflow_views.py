"""Builds the JSON of workflows, in the form that Conductor's clients expect."""

from __future__ import annotations

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.lookup import find_workflow, get_task, workflow_data
from conductor.coordinator.store.rows import WorkflowData, WorkflowRow
from conductor.coordinator.store.statements import FAILED_TASKS, TURN
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.task_views import read_started_version, read_tasks
from conductor.protocol.json_types import Json, JsonObject

#: The fields of a workflow task that contain other tasks.
_TASK_LISTS = ("decisionCases", "defaultCase", "forkTasks", "loopOver")


def read_workflow(tx: Tx, snapshots: Snapshots, workflow_id: str, *, with_tasks: bool) -> JsonObject:
    """Return a workflow, or raise a 404."""
    return read_whole_workflow(tx, snapshots, find_workflow(tx, workflow_id), with_tasks=with_tasks)


def read_whole_workflow(tx: Tx, snapshots: Snapshots, row: WorkflowRow, *, with_tasks: bool) -> JsonObject:
    """Return a workflow with its definition and, if requested, its tasks."""
    data = workflow_data(tx, row.pk)
    workflow = _make_workflow_json(tx.ids, row, data)
    workflow["workflowDefinition"] = snapshots.get(tx, row.snapshot).wire()
    if workflow["workflowDefinition"].get("rateLimitConfig") and (turn := tx.first(TURN, row.pk)) is not None:
        workflow["rateLimitKey"], workflow["rateLimited"] = turn.key, turn.place is not None
    # A parent may have been removed before its child.
    parent = get_task(tx, row.parent_task)
    if parent is not None:
        workflow["parentWorkflowId"] = tx.ids.workflow(parent.workflow)
        workflow["parentWorkflowTaskId"] = tx.ids.task(parent.pk)
    failed = tx.rows(FAILED_TASKS, row.pk, data.failed_task)
    workflow["failedReferenceTaskNames"] = list(dict.fromkeys(ref for ref, _ in failed))
    workflow["failedTaskNames"] = list(dict.fromkeys(name for _, name in failed))
    if with_tasks:
        workflow["tasks"] = read_tasks(tx, snapshots, row)
        versions = _read_started_versions(workflow["tasks"])
        if versions:
            definition = workflow["workflowDefinition"]
            workflow["workflowDefinition"] = {**definition, "tasks": _add_versions(definition["tasks"], versions)}
    return workflow


class _WorkflowTask(msgspec.Struct, rename="camel"):
    task_reference_name: str


def _read_started_versions(tasks: list[JsonObject]) -> dict[str, int]:
    """Return the versions that the SUB_WORKFLOW tasks among `tasks` started, by reference name."""
    versions: dict[str, int] = {}
    for task in tasks:
        if task["taskType"] == "SUB_WORKFLOW":
            ref = msgspec.json.decode(task["workflowTask"], type=_WorkflowTask).task_reference_name
            version = read_started_version(task["inputData"])
            if version:
                versions[ref] = version
            else:  # this attempt started no registered version, so an earlier one no longer applies
                versions.pop(ref, None)
    return versions


def _add_versions(value: Json, versions: dict[str, int]) -> Json:
    """Return the tasks of a definition, each SUB_WORKFLOW among them with the version that it started."""
    if isinstance(value, list):
        return [_add_versions(item, versions) for item in value]
    if not isinstance(value, dict):
        return value
    if "taskReferenceName" not in value:  # the cases of a SWITCH
        return {key: _add_versions(item, versions) for key, item in value.items()}
    inner = {key: _add_versions(value[key], versions) for key in _TASK_LISTS if value.get(key)}
    version = versions.get(value["taskReferenceName"])
    if version is not None and value.get("subWorkflowParam"):
        inner["subWorkflowParam"] = {**value["subWorkflowParam"], "version": version}
    return {**value, **inner}


def read_workflow_status(tx: Tx, workflow_id: str, *, output: bool, variables: bool) -> JsonObject:
    """Return the status of a workflow and, if requested, its output and variables. Raise a 404 for an unknown id."""
    row = find_workflow(tx, workflow_id)
    data = workflow_data(tx, row.pk)
    status: JsonObject = {"workflowId": workflow_id, "status": row.status}
    if row.correlation_id is not None:
        status["correlationId"] = row.correlation_id
    if output:
        status["output"] = _insert(data.output)
    if variables:
        status["variables"] = _insert(data.variables)
    return status


def _insert(payload: bytes | None) -> msgspec.Raw:
    return msgspec.Raw(payload or b"{}")


def _make_workflow_json(ids: Ids, row: WorkflowRow, data: WorkflowData) -> JsonObject:
    workflow: JsonObject = {
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
        "input": _insert(data.input),
        "output": _insert(data.output),
        "variables": _insert(data.variables),
        "taskToDomain": _insert(data.task_to_domain),
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
