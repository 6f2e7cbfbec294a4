"""Every SQL statement as a typed constant. The SQL is in `sql/`, where a comment describes each statement.

A `Query` knows the type of its rows: a struct or named tuple, or the value itself for statements with one column.
`transaction.Tx` runs queries and commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from conductor.coordinator.store.rows import (
    StepRow,
    TaskData,
    TaskRow,
    WholeTask,
    WorkflowData,
    WorkflowRow,
    read_task,
    read_whole_task,
    read_workflow,
)
from conductor.coordinator.store.sql import STATEMENTS

Row = TypeVar("Row")


class Query(Generic[Row]):
    """A SELECT statement, and the function that converts one of its rows."""

    def __init__(self, name: str, read: Callable[..., Row]) -> None:
        self.name = name
        self.sql = STATEMENTS[name]
        self.read = read


class Command:
    """A statement that changes rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sql = STATEMENTS[name]


def _value(value: Any) -> Any:
    return value


class TaskName(NamedTuple):
    """The key and the reference name of a task."""

    pk: int
    ref: str


class ReadyTask(NamedTuple):
    """A task that can be polled."""

    pk: int
    workflow: int


class LogLine(NamedTuple):
    """A line of a task's log."""

    line: str
    at_ms: int


class FailedTask(NamedTuple):
    """The reference name and the type of a task that failed."""

    ref: str
    name: str


class QueueName(NamedTuple):
    """A queue with its names and keys."""

    task_type: str
    domain: str
    pk: int
    type: int


class QueueWithLimits(NamedTuple):
    """A queue with the limits of its task type. 0 means no limit."""

    pk: int
    task_type: str
    domain: str
    type: int
    concurrent_limit: int
    rate_limit: int
    rate_window_ms: int


class Suspect(NamedTuple):
    """A workflow in whose steps the process has died, and the number of such deaths in a row."""

    workflow: int
    deaths: int


class RateLimitTurn(NamedTuple):
    """The place of a workflow among those that wait for their rate limit. `place` is None while the workflow runs."""

    name: str
    key: str
    place: int | None
    #: JSON of the action to run as soon as the rate limit allows it; None to take the first step of the workflow.
    action: bytes | None


class RateLimitLine(NamedTuple):
    """How many workflows run under a rate limit, and how many wait ahead of a given place."""

    running: int
    before: int | None


class RestoredState(NamedTuple):
    """The newest change of a restored database, and its unfinished work."""

    newest_change_ms: int | None
    running_workflows: int
    leased_tasks: int


class LastKey(NamedTuple):
    """The highest key that a table has used so far."""

    table: str
    key: int


class Epoch(NamedTuple):
    """A start of a coordinator on the file; see `ids.py`."""

    number: int
    #: The lowest key that a new row of each table could get after this start of the coordinator.
    first_workflow: int
    first_task: int
    first_run: int
    nonce: bytes


class TaskType(NamedTuple):
    """A task type with its limits. 0 means no limit."""

    pk: int
    #: The registered definition; None while no definition is registered.
    definition: bytes | None
    concurrent_limit: int
    rate_limit: int
    rate_window_ms: int


class QueuePlace(NamedTuple):
    """The task type and the domain of a queue."""

    task_type: str
    domain: str


class QueueOfType(NamedTuple):
    """A queue of a task type."""

    pk: int
    domain: str


class StoredSchedule(NamedTuple):
    """A schedule as JSON, with the times of its creation and last update."""

    body: bytes
    created_ms: int
    updated_ms: int


class DueTime(NamedTuple):
    """The next due time of one cron expression of a schedule."""

    schedule: str
    position: int
    at_ms: int


class ScheduleRun(NamedTuple):
    """A run of a schedule."""

    pk: int
    schedule: str
    due_ms: int
    ran_ms: int
    workflow_name: str
    workflow: int | None
    state: str
    reason: str | None
    zone: str
    request: bytes


class KeySecret(NamedTuple):
    """A key for the API, with one of its secrets."""

    key: int
    name: str
    #: JSON: a list of roles.
    roles: str
    #: JSON: a list of task types; None for all.
    task_types: str | None
    created_ms: int
    secret: int
    digest: bytes
    secret_created_ms: int
    #: When the secret expires; None if it does not.
    expires_ms: int | None


class AuditRow(NamedTuple):
    """An action of a client."""

    at_ms: int
    #: The primary key of a row in `audit`, or in `workflow` for the start of a stored workflow.
    pk: int
    action: str
    #: JSON: the API key and the address of the client.
    actor: str
    worker_id: str | None
    workflow: int | None
    subject: str
    reason: str | None


class StoredSecret(NamedTuple):
    """A secret and its encrypted value."""

    name: str
    value: bytes


class PublishedEvent(NamedTuple):
    """An event whose handlers have not finished."""

    pk: int
    event: str
    payload: bytes
    #: JSON of the actions that are left to run; None before the first action has run.
    actions: bytes | None


class StoredMessage(NamedTuple):
    """A message to a workflow, with its payload as JSON."""

    pk: int
    id: str
    received_ms: int
    payload: bytes


class MessageQueue(NamedTuple):
    """The messages to a workflow that no task has taken. `newest_ms` is 0 if there are none."""

    number: int
    payload_bytes: int
    newest_ms: int


class NameCount(NamedTuple):
    """A workflow name, and the number of open workflows with this name."""

    name: str
    number: int


class TaskByHand(NamedTuple):
    """An open task that waits for a person or a signal."""

    pk: int
    ref: str
    operator: str
    scheduled_ms: int
    workflow: int
    workflow_name: str
    correlation_id: str | None
    workflow_status: str
    #: None if the input is large.
    input: bytes | None


class KeyTime(NamedTuple):
    """The key of a row and the time when the row was created."""

    pk: int
    at_ms: int


class TaskTimes(NamedTuple):
    """When an attempt became pollable, started and ended. Times are 0 while they are unknown."""

    name: str
    of_server: int
    status: str
    ready_ms: int
    started_ms: int
    ended_ms: int


class FailedWorkflow(NamedTuple):
    """A workflow that failed, and the task that ended it."""

    pk: int
    name: str
    status: str
    ended_ms: int
    reason: str | None
    task: str | None
    #: Status of the sub-workflow that the task started.
    child: str | None


class QueueTotals(NamedTuple):
    """The number of tasks that can be polled, and the number of tasks that workers hold."""

    ready: int
    in_hand: int


class ReadyInQueue(NamedTuple):
    """How many tasks of a queue can be polled, and since when."""

    queue: int
    number: int
    oldest_ms: int


class DelayedInQueue(NamedTuple):
    """How many tasks of a queue become pollable later."""

    queue: int
    number: int


class LeasedInQueue(NamedTuple):
    """How many tasks of a queue one worker holds."""

    queue: int
    worker_id: str | None
    number: int
    oldest_started_ms: int


class OpenLease(NamedTuple):
    """An open lease, with its task, workflow and worker."""

    task: int
    task_type: str
    domain: str
    ref: str
    workflow: int
    workflow_name: str
    worker_id: str | None
    retry_count: int
    started_ms: int
    updated_ms: int
    lease_until_ms: int


class QueuedTaskTimes(NamedTuple):
    """When a queued task became pollable, started and ended."""

    queue: int
    status: str
    ready_ms: int
    started_ms: int
    ended_ms: int


class Run(NamedTuple):
    """How long a worker ran a task."""

    worker_id: str | None
    duration_ms: int


class TaskWithoutPayload(NamedTuple):
    """A task without its payload. Only SWITCH and DECISION tasks have `output`, which names the chosen case."""

    row: TaskRow
    reason: str | None
    output: bytes | None
    name: str


class StepPreview(NamedTuple):
    """A durable step with the first bytes of its result."""

    name: str
    number: int
    kind: str
    state: str
    started_ms: int
    ended_ms: int | None
    due_at_ms: int | None
    workflow: int | None
    result: bytes | None
    result_bytes: int | None


def _task_without_payload(*columns: Any) -> TaskWithoutPayload:
    return TaskWithoutPayload(read_task(*columns[:-3]), *columns[-3:])


# -- tasks

LAST_KEY: Query[int] = Query("last key", _value)
TASK: Query[TaskRow] = Query("task", read_task)
TASK_DATA: Query[TaskData] = Query("task data", TaskData)
WHOLE_TASK: Query[WholeTask] = Query("whole task", read_whole_task)
LATEST_TASK: Query[WholeTask] = Query("latest task", read_whole_task)
TASKS_OF_WORKFLOW: Query[WholeTask] = Query("tasks of workflow", read_whole_task)
COUNT_TASKS: Query[int] = Query("count tasks", _value)
NEWEST_ITERATION: Query[int | None] = Query("newest iteration", _value)
TASKS_OF_NAME: Query[TaskName] = Query("tasks of name", TaskName)
READY_TASKS: Query[ReadyTask] = Query("ready tasks", ReadyTask)
IS_READY: Query[int] = Query("is ready", _value)
DUE_TASKS: Query[TaskRow] = Query("due tasks", read_task)
NEAREST_WAKE: Query[int | None] = Query("nearest wake", _value)
IN_PROGRESS_OF_TYPE: Query[int] = Query("in progress of type", _value)
GRANTED_FOR_REPORT: Query[TaskRow] = Query("granted for report", read_task)
RUNNING_OR_DELAYED_TASKS: Query[TaskRow] = Query("running or delayed tasks", read_task)
SHIFT_RATE_STARTS = Command("shift rate starts")
FORGET_RATE_STARTS = Command("forget rate starts")
RATE_STARTS: Query[int] = Query("rate starts", _value)
RATE_START_AT: Query[int] = Query("rate start at", _value)
ADD_RATE_START = Command("add rate start")
ADD_LOG = Command("add log")
NEWEST_LOGS: Query[LogLine] = Query("newest logs", LogLine)
OPEN_TASKS_OF_WORKFLOW: Query[TaskRow] = Query("open tasks of workflow", read_task)
OPEN_TASKS_OF_TYPE: Query[TaskRow] = Query("open tasks of type", read_task)
HELD_TASKS_OF_QUEUE: Query[TaskRow] = Query("held tasks of queue", read_task)
END_TASK_UNREAD = Command("end task unread")
FAILED_TASKS: Query[FailedTask] = Query("failed tasks", FailedTask)
REMOVE_TASK = Command("remove task")
REMOVE_TASK_DATA = Command("remove task data")
REMOVE_TASK_LOGS = Command("remove task logs")
KEYS_OF_TASKS: Query[int] = Query("keys of tasks", _value)
PAYLOAD_OF_WORKFLOW: Query[float] = Query("payload of workflow", _value)
QUEUE_SIZE: Query[int] = Query("queue size", _value)
QUEUE_DELAYED: Query[int] = Query("queue delayed", _value)
ALL_QUEUES: Query[QueueName] = Query("all queues", QueueName)
LIMITED_TYPE: Query[str] = Query("limited type", _value)
RATE_LIMITED_QUEUES: Query[QueueWithLimits] = Query("rate limited queues", QueueWithLimits)
TASKS_WAITING_FOR_WORKFLOW: Query[int] = Query("tasks waiting for workflow", _value)
PENDING_TASKS_OF_TYPE: Query[int] = Query("pending tasks of type", _value)

# -- durable steps

STEPS_AFTER: Query[StepRow] = Query("steps after", StepRow)
STEP: Query[StepRow] = Query("step", StepRow)
WAITING_STEPS: Query[StepRow] = Query("waiting steps", StepRow)
WAITING_FOR_MESSAGE: Query[StepRow] = Query("waiting for message", StepRow)
STEP_OF_WORKFLOW: Query[StepRow] = Query("step of workflow", StepRow)
NEWEST_STEPS: Query[StepPreview] = Query("newest steps", StepPreview)
ADD_STEP = Command("add step")
END_STEP = Command("end step")
SET_WORKFLOW_OF_STEP = Command("set workflow of step")
FORGET_STEP = Command("forget step")
FORGET_ENDED_CALLS = Command("forget ended calls")
REMOVE_STEPS = Command("remove steps")
REMOVE_STEPS_OF_WORKFLOW = Command("remove steps of workflow")
RUNNING_CALLS: Query[int] = Query("running calls", _value)

# -- workflows

WORKFLOW: Query[WorkflowRow] = Query("workflow", read_workflow)
WORKFLOW_DATA: Query[WorkflowData] = Query("workflow data", WorkflowData)
SNAPSHOT_OF_WORKFLOW: Query[int] = Query("snapshot of workflow", _value)
USED_IDEMPOTENCY_KEYS: Query[str] = Query("used idempotency keys", _value)
IDEMPOTENT_WORKFLOW: Query[WorkflowRow] = Query("idempotent workflow", read_workflow)
MARK_FOR_TERMINATION = Command("mark for termination")
MARKED_FOR_TERMINATION: Query[int] = Query("marked for termination", _value)
REASON_OF_TERMINATION: Query[str] = Query("reason of termination", _value)
UNMARK_FOR_TERMINATION = Command("unmark for termination")
DUE_WORKFLOWS: Query[int] = Query("due workflows", _value)
RUNNING_WORKFLOWS: Query[int] = Query("running workflows", _value)
CORRELATED_WORKFLOWS: Query[WorkflowRow] = Query("correlated workflows", read_workflow)
END_WORKFLOW_UNREAD = Command("end workflow unread")
SET_WORKFLOW_RESULT = Command("set workflow result")
REMOVE_WORKFLOW = Command("remove workflow")
REMOVE_WORKFLOW_DATA = Command("remove workflow data")
ENDED_BEFORE: Query[int] = Query("ended before", _value)
ENDED_BEYOND: Query[int] = Query("ended beyond", _value)
OLDEST_ENDED: Query[int | None] = Query("oldest ended", _value)
REMOVE_SNAPSHOT = Command("remove snapshot")
SUSPECTS: Query[Suspect] = Query("suspects", Suspect)
ADD_SUSPECT = Command("suspect")
CLEAR_SUSPECT = Command("clear suspect")
TURN: Query[RateLimitTurn] = Query("turn", RateLimitTurn)
LINE_UP = Command("line up")
RUNNING_IN_LINE: Query[int] = Query("running in line", _value)
BEFORE_IN_LINE: Query[int] = Query("before in line", _value)
FIRST_IN_LINE: Query[int] = Query("first in line", _value)
BEGIN_TURN = Command("begin turn")
LEAVE_LINE = Command("leave line")

# -- the file and definitions

KEEP_SECRET = Command("keep secret")
IN_USE: Query[int] = Query("in use", _value)
BEGIN_USE = Command("begin use")
END_USE = Command("end use")
TOUCH = Command("touch")
REPLICA_PLACE: Query[int] = Query("replica place", _value)
SET_REPLICA_PLACE = Command("set replica place")
SECRET: Query[bytes] = Query("secret", _value)
LAST_KEYS: Query[LastKey] = Query("last keys", LastKey)
ADD_EPOCH = Command("add epoch")
ADD_RESTORED_EPOCH = Command("add restored epoch")
RESTORED_STATE: Query[RestoredState] = Query("restored state", RestoredState)
EPOCHS: Query[Epoch] = Query("epochs", Epoch)
TASK_TYPE: Query[TaskType] = Query("task type", TaskType)
ADD_TASK_TYPE = Command("add task type")
SET_TASK_TYPE = Command("set task type")
SET_TASK_TYPE_LIMITS = Command("set task type limits")
TASK_DEFINITIONS: Query[bytes] = Query("task definitions", _value)
DROP_TASK_DEFINITION = Command("drop task definition")
QUEUE: Query[int] = Query("queue", _value)
ADD_QUEUE = Command("add queue")
QUEUE_OF: Query[QueuePlace] = Query("queue of", QueuePlace)
QUEUES_OF_TYPE: Query[QueueOfType] = Query("queues of type", QueueOfType)
WORKFLOW_DEFINITION: Query[bytes] = Query("workflow definition", _value)
LATEST_WORKFLOW_DEFINITION: Query[bytes] = Query("latest workflow definition", _value)
WORKFLOW_DEFINITIONS: Query[bytes] = Query("workflow definitions", _value)
WORKFLOW_DEFINITION_NAMES: Query[str] = Query("workflow definition names", _value)
WORKFLOW_DEFINITION_VERSIONS: Query[bytes] = Query("workflow definition versions", _value)
SET_WORKFLOW_DEFINITION = Command("set workflow definition")
DROP_WORKFLOW_DEFINITION = Command("drop workflow definition")
ADD_SNAPSHOT = Command("add snapshot")
SNAPSHOT: Query[bytes] = Query("snapshot", _value)
SCHEMA: Query[bytes] = Query("schema", _value)
LATEST_SCHEMA: Query[bytes] = Query("latest schema", _value)
SCHEMAS: Query[bytes] = Query("schemas", _value)
SET_SCHEMA = Command("set schema")
DROP_SCHEMA = Command("drop schema")
DROP_SCHEMAS = Command("drop schemas")

# -- schedules

SCHEDULE: Query[StoredSchedule] = Query("schedule", StoredSchedule)
SET_SCHEDULE = Command("set schedule")
DROP_SCHEDULE = Command("drop schedule")
MATCHING_SCHEDULES: Query[str] = Query("matching schedules", _value)
NEXT_DUE_OF_SCHEDULE: Query[int | None] = Query("next due of schedule", _value)
SET_DUE = Command("set due")
DROP_DUE = Command("drop due")
DROP_ALL_DUE = Command("drop all due")
DUE_SCHEDULES: Query[DueTime] = Query("due schedules", DueTime)
LATE_DUE_TIMES: Query[int] = Query("late due times", _value)
EARLIEST_DUE: Query[int | None] = Query("earliest due", _value)
PAUSE_SCHEDULES = Command("pause schedules")
RESUME_SCHEDULES = Command("resume schedules")
ADD_SCHEDULE_RUN = Command("add schedule run")
FORGET_SCHEDULE_RUNS = Command("forget schedule runs")
SCHEDULE_RUN: Query[ScheduleRun] = Query("schedule run", ScheduleRun)

# -- secrets and events

SECRETS: Query[StoredSecret] = Query("secrets", StoredSecret)
SET_SECRET = Command("set secret")
DROP_SECRET = Command("drop secret")
EVENT_HANDLER: Query[bytes] = Query("event handler", _value)
EVENT_HANDLERS: Query[bytes] = Query("event handlers", _value)
LISTENING: Query[int] = Query("listening", _value)
SET_EVENT_HANDLER = Command("set event handler")
DROP_EVENT_HANDLER = Command("drop event handler")
ADD_EVENT = Command("add event")
WAITING_EVENTS: Query[PublishedEvent] = Query("waiting events", PublishedEvent)
KEEP_ACTIONS_OF_EVENT = Command("keep actions of event")
REMOVE_EVENT = Command("remove event")

# -- messages to workflows

ADD_MESSAGE = Command("add message")
MESSAGES: Query[StoredMessage] = Query("messages", StoredMessage)
MESSAGES_OF_NAME: Query[StoredMessage] = Query("messages of name", StoredMessage)
MESSAGE_QUEUE: Query[MessageQueue] = Query("message queue", MessageQueue)
REMOVE_MESSAGE = Command("remove message")
REMOVE_MESSAGES = Command("remove messages")

# -- keys and audit

KEY_SECRETS: Query[KeySecret] = Query("key secrets", KeySecret)
ADD_KEY = Command("add key")
DROP_KEY = Command("drop key")
ADD_KEY_SECRET = Command("add key secret")
END_KEY_SECRETS = Command("end key secrets")
FORGET_KEY_SECRETS = Command("forget key secrets")
DROP_KEY_SECRETS = Command("drop key secrets")
ADD_AUDIT_ENTRY = Command("add audit entry")
KEEP_AUDIT_OF_START = Command("keep audit of start")
AUDIT_BEFORE: Query[AuditRow] = Query("audit before", AuditRow)
STARTS_BEFORE: Query[AuditRow] = Query("starts before", AuditRow)
AUDIT_OF_WORKFLOW: Query[AuditRow] = Query("audit of workflow", AuditRow)
START_OF_WORKFLOW: Query[AuditRow] = Query("start of workflow", AuditRow)
FORGET_AUDIT = Command("forget audit")
OLDEST_AUDIT: Query[int] = Query("oldest audit", _value)

# -- views

OPEN_WORKFLOWS: Query[int] = Query("open workflows", _value)
OPEN_WORKFLOWS_BY_NAME: Query[NameCount] = Query("open workflows by name", NameCount)
READY_BY_QUEUE: Query[ReadyInQueue] = Query("ready by queue", ReadyInQueue)
DELAYED_BY_QUEUE: Query[DelayedInQueue] = Query("delayed by queue", DelayedInQueue)
FIRST_WORKFLOW_FROM: Query[KeyTime] = Query("first workflow from", KeyTime)
FIRST_TASK_FROM: Query[KeyTime] = Query("first task from", KeyTime)
ENDED_BETWEEN: Query[int] = Query("ended between", _value)
FAILED_BETWEEN: Query[int] = Query("failed between", _value)
TASKS_IN_KEY_RANGE: Query[TaskTimes] = Query("tasks in key range", TaskTimes)
FAILED_WORKFLOWS: Query[FailedWorkflow] = Query("failed workflows", FailedWorkflow)
QUEUE_TOTALS: Query[QueueTotals] = Query("queue totals", QueueTotals)
LEASED_BY_QUEUE: Query[LeasedInQueue] = Query("leased by queue", LeasedInQueue)
OPEN_LEASES: Query[OpenLease] = Query("open leases", OpenLease)
LEASED_OF_QUEUE: Query[int] = Query("leased of queue", _value)
QUEUES_OF_ALL_TYPES: Query[QueueWithLimits] = Query("queues of all types", QueueWithLimits)
QUEUE_WITH_LIMITS: Query[QueueWithLimits] = Query("queue with limits", QueueWithLimits)
NEWEST_QUEUED_TASKS: Query[QueuedTaskTimes] = Query("newest queued tasks", QueuedTaskTimes)
NEWEST_RUNS: Query[Run] = Query("newest runs", Run)
RATE_STARTS_SINCE: Query[int] = Query("rate starts since", _value)
TASKS_WITHOUT_PAYLOAD: Query[TaskWithoutPayload] = Query("tasks of workflow without payload", _task_without_payload)
LAST_FAILED_TASK: Query[TaskRow] = Query("last failed task", read_task)
REFS_OF_ENDED_TASKS: Query[str] = Query("refs of ended tasks", _value)
COUNT_OF_TASKS_BY_HAND: Query[int] = Query("count of tasks by hand", _value)
TASKS_BY_HAND: Query[TaskByHand] = Query("tasks by hand", TaskByHand)
LINE_OF_TURN: Query[RateLimitLine] = Query("line of turn", RateLimitLine)
