"""A row of the workflow table, its payload, and how they read on the wire."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.ids import Ids
from conductor.wire import TERMINAL_WORKFLOW_STATUSES


class WorkflowRow(NamedTuple):
    """The columns of `workflow`, in the order of the schema."""

    pk: int
    name: str
    version: int
    snapshot: int
    status: str
    priority: int
    correlation_id: str | None
    idempotency_key: str | None
    parent_task: int | None
    created_ms: int
    updated_ms: int
    ended_ms: int | None
    retried_ms: int
    wake_ms: int | None
    last_task: int | None

    @property
    def terminal(self) -> bool:
        """Whether it is over."""
        return self.status in TERMINAL_WORKFLOW_STATUSES


class WorkflowData(NamedTuple):
    """The payload of a workflow."""

    input: bytes
    output: bytes | None
    variables: bytes | None
    task_to_domain: bytes | None
    reason: str | None
    created_by: str | None
    failed_task: int | None


def raw(payload: bytes | None) -> msgspec.Raw:
    """A stored JSON object as it is, `{}` when there is none."""
    return msgspec.Raw(payload or b"{}")


def workflow_json(ids: Ids, row: WorkflowRow, data: WorkflowData) -> dict[str, Any]:
    """A workflow as Conductor's clients read it; tasks and definition are added by who has them."""
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
