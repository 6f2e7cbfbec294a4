"""The rows of tasks and workflows, as the schema has them.

They hold no lists or dicts, so that no circle can be made of them: the collector of garbage need not look at them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES


class TaskRow(Struct, frozen=True, gc=False):
    """The columns of `task`, in the order of the schema. `..._at_ms`, `..._until_ms` and `..._since_ms` are moments."""

    pk: int
    workflow: int
    queue: int | None
    type: int
    operator: str
    ref: str
    seq: int
    iteration: int
    status: str
    priority: int
    retry_count: int
    retried_task: int | None
    retried: int
    executed: int
    poll_count: int
    scheduled_ms: int
    first_scheduled_ms: int
    started_ms: int
    updated_ms: int
    ended_ms: int
    start_delay_s: int
    callback_after_s: int
    worker_id: str | None
    lease_no: int
    lease_until_ms: int | None
    response_timeout_ms: int
    timeout_ms: int
    poll_timeout_ms: int
    total_timeout_ms: int
    alerted: int
    ready_since_ms: int | None
    due_at_ms: int | None
    wake_at_ms: int | None
    sub_workflow: int | None
    #: JSON: the workers that held it before its present holder, the last few
    former_workers: str | None = None
    #: the task whose report asked for this delivery; None: a poll did
    granted_for: int | None = None

    @property
    def terminal(self) -> bool:
        """Whether it never changes again."""
        return self.status in TERMINAL_TASK_STATUSES


#: A task of which nothing is known yet; new ones are made of it. Its values are the defaults of the schema.
NEW_TASK = TaskRow(
    pk=0,
    workflow=0,
    queue=None,
    type=0,
    operator="SIMPLE",
    ref="",
    seq=0,
    iteration=0,
    status="SCHEDULED",
    priority=0,
    retry_count=0,
    retried_task=None,
    retried=0,
    executed=0,
    poll_count=0,
    scheduled_ms=0,
    first_scheduled_ms=0,
    started_ms=0,
    updated_ms=0,
    ended_ms=0,
    start_delay_s=0,
    callback_after_s=0,
    worker_id=None,
    lease_no=0,
    lease_until_ms=None,
    response_timeout_ms=0,
    timeout_ms=0,
    poll_timeout_ms=0,
    total_timeout_ms=0,
    alerted=0,
    ready_since_ms=None,
    due_at_ms=None,
    wake_at_ms=None,
    sub_workflow=None,
)


class TaskData(Struct, frozen=True, gc=False):
    """The payload of a task: JSON as it is stored."""

    input: bytes
    output: bytes | None = None
    reason: str | None = None
    #: lease number → [report id, verdict]
    reports: bytes | None = None
    #: The task as a workflow definition would have it, if none has (`state.Own`).
    definition: bytes | None = None


class WorkflowRow(Struct, frozen=True, gc=False):
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
    ended_ms: int | None = None
    retried_ms: int = 0
    wake_at_ms: int | None = None
    last_task: int | None = None
    restless: int = 0
    #: The trace that it belongs to, if whoever started it has one.
    traceparent: str | None = None

    @property
    def terminal(self) -> bool:
        """Whether it is over."""
        return self.status in TERMINAL_WORKFLOW_STATUSES


class WorkflowData(Struct, frozen=True, gc=False):
    """The payload of a workflow: JSON as it is stored."""

    input: bytes
    output: bytes | None = None
    variables: bytes | None = None
    task_to_domain: bytes | None = None
    reason: str | None = None
    created_by: str | None = None
    failed_task: int | None = None


#: How many columns of a joined row belong to the task, to its payload, to the workflow.
TASK_WIDTH = len(TaskRow.__struct_fields__)
DATA_WIDTH = len(TaskData.__struct_fields__)
WORKFLOW_WIDTH = len(WorkflowRow.__struct_fields__)


def insert_of(table: str, columns: Sequence[str]) -> str:
    """The statement that adds a row; the columns that it does not name have their defaults."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - our own names


def update_of(table: str, columns: Sequence[str]) -> str:
    """The statement that replaces some columns of a row; the key is bound last.

    One that names no other column leaves the indexes of the others alone.
    """
    return f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in columns)} WHERE pk = ?"  # noqa: S608 - our own names
