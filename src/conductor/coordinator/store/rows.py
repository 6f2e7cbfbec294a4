"""The rows of tasks and workflows as structs, with the columns of `sql/schema.sql`.

The structs hold no lists or dicts, so they cannot form reference cycles and the garbage collector skips them
(`gc=False`).
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from msgspec import Struct

from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES, TaskStatus, WorkflowStatus


class TaskRow(Struct, frozen=True, gc=False):
    """The columns of `task`, in the order of the schema."""

    pk: int
    workflow: int
    queue: int | None
    type: int
    operator: str
    ref: str
    seq: int
    iteration: int
    status: TaskStatus
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
    #: JSON list of the last workers that held the task before its present holder.
    former_workers: str | None = None
    #: The task whose report asked for this delivery; None if a poll asked for it.
    granted_for: int | None = None
    #: The attempt that recorded the first durable step of the task. Retries keep it, so that they find all steps.
    step_line: int | None = None
    step_count: int = 0
    step_bytes: int = 0
    #: 0, or one of the values in `tasks/task_steps.py`: SUSPENDED or WOKEN.
    suspended: int = 0

    @property
    def terminal(self) -> bool:
        """Whether the attempt has ended."""
        return self.status in TERMINAL_TASK_STATUSES


#: A row with default values, which is copied for each new task.
NEW_TASK = TaskRow(
    pk=0,
    workflow=0,
    queue=None,
    type=0,
    operator="SIMPLE",
    ref="",
    seq=0,
    iteration=0,
    status=TaskStatus.SCHEDULED,
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
    """The columns of `task_data`: the payload of a task as encoded JSON."""

    input: bytes
    output: bytes | None = None
    reason: str | None = None
    #: JSON object: lease number to [report id, verdict].
    reports: bytes | None = None
    #: JSON of `state.RuntimeDefinition`, for a task that was created at run time and is in no workflow definition.
    definition: bytes | None = None


class StepRow(NamedTuple):
    """The columns of `step`, in the order of the schema."""

    pk: int
    #: The attempt that recorded the first step of the task.
    line: int
    name: str
    number: int
    kind: str
    state: str
    fingerprint: str
    #: JSON: the result, or the error of a failed step.
    result: bytes | None
    started_ms: int
    #: None while the step waits.
    ended_ms: int | None
    #: When the step stops waiting; None if only a message or the end of a workflow ends the wait.
    due_at_ms: int | None
    #: The workflow that the step has started.
    workflow: int | None


class WorkflowRow(Struct, frozen=True, gc=False):
    """The columns of `workflow`, in the order of the schema."""

    pk: int
    name: str
    version: int
    snapshot: int
    status: WorkflowStatus
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
    #: The W3C trace context of the client that started the workflow.
    traceparent: str | None = None
    #: 1 after a durable step of one of its tasks has started a workflow.
    has_calls: int = 0

    @property
    def terminal(self) -> bool:
        """Whether the workflow has ended."""
        return self.status in TERMINAL_WORKFLOW_STATUSES


class WorkflowData(Struct, frozen=True, gc=False):
    """The columns of `workflow_data`: the payload of a workflow as encoded JSON."""

    input: bytes
    output: bytes | None = None
    variables: bytes | None = None
    task_to_domain: bytes | None = None
    reason: str | None = None
    created_by: str | None = None
    failed_task: int | None = None
    #: JSON: key and address of the client that started the workflow; None if the coordinator did.
    started_by: str | None = None


class WholeTask(NamedTuple):
    """A task with its payload and the name of its type."""

    row: TaskRow
    data: TaskData
    name: str


class Table:
    """A table whose rows are structs."""

    def __init__(self, name: str, row: type[Struct], *, own_key: bool) -> None:
        self.name = name
        #: The columns of the table, in the order of the struct's fields.
        self.columns = row.__struct_fields__
        self.names = frozenset(self.columns)
        names = self.columns if own_key else ("pk", *self.columns)
        #: The INSERT statement. Its parameters are the key, then all other columns.
        self.insert = f"INSERT INTO {name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - no client input


WORKFLOW = Table("workflow", WorkflowRow, own_key=True)
WORKFLOW_DATA = Table("workflow_data", WorkflowData, own_key=False)
TASK = Table("task", TaskRow, own_key=True)
TASK_DATA = Table("task_data", TaskData, own_key=False)

# Register adapters, because otherwise sqlite3 searches for one each time it binds a status.
for _status in (TaskStatus, WorkflowStatus):
    sqlite3.register_adapter(_status, str.__str__)

_TASK_STATUS = TASK.columns.index("status")
_WORKFLOW_STATUS = WORKFLOW.columns.index("status")
_TASK_WIDTH = len(TASK.columns)
_WORKFLOW_WIDTH = len(WORKFLOW.columns)


def read_task(*columns: Any) -> TaskRow:
    """Return the row of a task from the columns of the table."""
    values = list(columns)
    values[_TASK_STATUS] = TaskStatus(values[_TASK_STATUS])
    return TaskRow(*values)


def read_whole_task(*columns: Any) -> WholeTask:
    """Return a task from the columns of the table, those of its payload, and the name of its type."""
    return WholeTask(read_task(*columns[:_TASK_WIDTH]), TaskData(*columns[_TASK_WIDTH:-1]), columns[-1])


def read_workflow(*columns: Any) -> WorkflowRow:
    """Return the row of a workflow from the columns of the table."""
    values = list(columns)
    values[_WORKFLOW_STATUS] = WorkflowStatus(values[_WORKFLOW_STATUS])
    return WorkflowRow(*values)


def read_whole_workflow(*columns: Any) -> tuple[WorkflowRow, WorkflowData]:
    """Return a workflow from the columns of the table and those of its payload."""
    return read_workflow(*columns[:_WORKFLOW_WIDTH]), WorkflowData(*columns[_WORKFLOW_WIDTH:])
