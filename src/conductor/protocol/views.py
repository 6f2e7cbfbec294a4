"""The JSON of `/api/view`, which the coordinator writes for the web UI and the command line.

Times are milliseconds since the epoch. The items of a list omit fields with their default value; whole answers do not.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from conductor.protocol.why_waiting import Waiting


class StepView(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A durable step of a task."""

    name: str
    number: int = 1
    #: STEP, SLEEP, MESSAGE or WORKFLOW.
    kind: str
    #: DONE, FAILED or WAITING.
    state: str
    started_ms: int
    ended_ms: int | None = None
    due_at_ms: int | None = None
    workflow_id: str | None = None
    #: The first `MAX_RESULT_CHARS` characters of the result, or of the error of a failed step, as JSON.
    result: str | None = None
    result_bytes: int = 0
    #: A description of the time, message or workflow that the step waits for; None if the step has ended.
    waits: str | None = None


class TaskAttempt(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """An attempt at a task of a workflow, without its payload."""

    task_id: str
    ref: str
    #: The reference name in the workflow definition, without the iteration of a loop.
    base_ref: str
    name: str
    type: str
    status: str
    seq: int
    iteration: int = 0
    retry_count: int = 0
    retried: bool = False
    scheduled_ms: int
    started_ms: int = 0
    ended_ms: int = 0
    updated_ms: int = 0
    start_delay_s: int = 0
    worker_id: str | None = None
    former_workers: list[str] = []
    lease_until_ms: int | None = None
    due_at_ms: int | None = None
    ready_since_ms: int | None = None
    domain: str = ""
    poll_count: int = 0
    sub_workflow_id: str | None = None
    reason: str | None = None
    #: The case that a SWITCH chose.
    chosen: str | None = None
    #: Why an open task waits.
    waiting: Waiting | None = None
    #: The newest durable steps of the task and of its earlier attempts, in the order in which they were recorded. Only
    #: the newest attempt has them.
    steps: list[StepView] = []
    #: The number of all durable steps, also of those that `steps` leaves out.
    step_count: int = 0


def base_reference(ref: str, iteration: int, task_type: str) -> str:
    """Return a task's reference name in the workflow definition: without the iteration of its loop."""
    return ref.removesuffix(f"__{iteration}") if iteration and task_type != "DO_WHILE" else ref


class RelatedWorkflow(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A workflow that started another one, or that another one waits for."""

    workflow_id: str
    name: str
    status: str
    #: Why the workflow waits or how it ended; None for a parent.
    waiting: Waiting | None = None


class AuditEntry(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """An action of a client."""

    at_ms: int
    action: str
    #: None if the coordinator had no keys.
    key: str | None = None
    address: str
    worker_id: str | None = None
    workflow_id: str | None = None
    #: The name of the workflow, definition, schedule, secret or key.
    subject: str
    reason: str | None = None


class AuditPage(Struct, rename="camel"):
    """`GET /view/audit`: actions of clients, the newest first."""

    entries: list[AuditEntry]
    #: The value of `before` for the next page; None after the last page.
    next: str | None = None


class WorkflowDetails(Struct, rename="camel", kw_only=True):
    """`GET /view/workflow/{id}`: a workflow, the attempts at its tasks, and why it waits."""

    now_ms: int
    #: The workflow as `GET /workflow/{id}` returns it, without its tasks.
    workflow: dict[str, Any]
    tasks: list[TaskAttempt]
    #: True if the workflow has more attempts than `tasks`.
    more_tasks: bool = False
    waiting: Waiting
    #: The workflows that started this one, the outermost first.
    parents: list[RelatedWorkflow] = []
    #: The sub-workflow that explains why this workflow waits or failed, then the sub-workflow of that one, and so on.
    causes: list[RelatedWorkflow] = []


class WorkflowEntry(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A workflow in a list."""

    workflow_id: str
    name: str
    version: int
    status: str
    correlation_id: str | None = None
    start_time: int
    end_time: int | None = None
    is_sub_workflow: bool = False
    #: Why the workflow waits or how it ended; None for a completed workflow.
    waiting: Waiting | None = None
    #: Why the workflow ended, from a Conductor server's search. A coordinator sends `waiting` instead.
    reason: str | None = None

    @property
    def why(self) -> str:
        """Return why the workflow waits or ended in one sentence, or an empty string."""
        return self.waiting.sentence if self.waiting is not None else self.reason or ""


class WorkflowPage(Struct, rename="camel", kw_only=True):
    """`GET /view/workflows`: one page of the list, newest first."""

    now_ms: int
    results: list[WorkflowEntry]
    #: The workflow id to pass as `before` for the next page; None on the last page.
    next: str | None = None
    #: True if the search stopped at its limit, so that older matches may be missing.
    looked_at_enough: bool = False
    #: Number of workflows that match on all pages, if it was requested.
    total: int | None = None
    #: True if more workflows match than `total`.
    total_is_limited: bool = False


class QueueHolder(Struct, rename="camel", kw_only=True):
    """A worker that holds tasks of a queue."""

    worker_id: str | None
    #: Number of tasks that the worker holds.
    in_hand: int
    oldest_started_ms: int


class QueueStats(Struct, rename="camel", kw_only=True):
    """Rates (tasks per minute) and durations of the newest tasks of a queue."""

    scheduled_per_min: float = 0.0
    ended_per_min: float = 0.0
    tasks: int = 0
    failed: int = 0
    wait_p50_ms: int | None = None
    wait_p95_ms: int | None = None
    run_p50_ms: int | None = None
    run_p95_ms: int | None = None


class QueueLoad(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A queue: the tasks in it, the workers that poll it, and its throughput."""

    name: str
    domain: str = ""
    #: True for queues of the coordinator's own system tasks.
    of_server: bool = False
    #: Tasks that can be polled now.
    ready: int
    #: Tasks that can be polled later.
    delayed: int
    #: When the oldest ready task became pollable.
    oldest_ms: int | None = None
    #: Tasks that workers hold.
    in_hand: int
    holders: list[QueueHolder]
    #: Parked polls.
    parked: int
    last_poll_ms: int | None = None
    last_worker: str | None = None
    concurrent_limit: int = 0
    rate_limit: int = 0
    rate_window_ms: int = 0
    rate_opens_ms: int | None = None
    #: Set if tasks wait and no worker takes them.
    problem: Waiting | None = None
    stats: QueueStats | None = None
    #: Number of reports per verdict since the coordinator started; NONE counts reports without a lease.
    verdicts: dict[str, int] = {}


class QueueLoads(Struct, rename="camel", kw_only=True):
    """`GET /view/queues`: every queue, those with a problem first."""

    now_ms: int
    queues: list[QueueLoad]


class OpenLease(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A task that a worker holds."""

    task_id: str
    name: str
    domain: str = ""
    ref: str
    workflow_id: str
    workflow_name: str
    worker_id: str | None = None
    #: Number of the attempt; the first is 1.
    attempt: int
    #: When a worker first polled the task.
    started_ms: int
    #: When the worker last polled or extended the lease.
    heard_ms: int
    until_ms: int


class OpenLeases(Struct, rename="camel", kw_only=True):
    """`GET /view/leases`: open leases, in the order in which they expire."""

    now_ms: int
    leases: list[OpenLease]


class LoopPace(Struct, rename="camel"):
    """A DO_WHILE that runs without a pause."""

    workflow_id: str
    workflow_name: str
    #: The reference name of the loop.
    ref: str
    rounds: int
    rounds_per_second: float


class DueTime(Struct, rename="camel", kw_only=True):
    """A time at which a schedule is due."""

    at_ms: int
    #: The time in the zone of the cron expression, such as "Thu 2026-11-19 02:00:00".
    local: str


class CronView(Struct, rename="camel", kw_only=True):
    """`GET /view/cron`: a cron expression in words, with its next due times."""

    expression: str
    zone: str
    words: str = ""
    next: list[DueTime] = []
    #: Why the expression or the zone is invalid; None if both are valid.
    problem: str | None = None


class ScheduleEntry(Struct, rename="camel", kw_only=True):
    """A schedule in a list."""

    #: The schedule as `GET /scheduler/schedules/{name}` returns it.
    schedule: dict[str, Any]
    times: list[CronView]
    warnings: list[str]


class ScheduleList(Struct, rename="camel", kw_only=True):
    """`GET /view/schedules`: schedules, sorted by name."""

    now_ms: int
    schedules: list[ScheduleEntry]


class SecretEntry(Struct, rename="camel", kw_only=True):
    """A secret, without its value."""

    name: str
    from_environment: bool
    from_api: bool


class SecretList(Struct, rename="camel", kw_only=True):
    """`GET /view/secrets`: the names of all secrets."""

    secrets: list[SecretEntry]
    #: Whether secrets of the API are stored; otherwise they are lost when the coordinator stops.
    are_stored: bool


class InboxTask(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A task that waits for a person or a signal."""

    task_id: str
    ref: str
    type: str
    #: The display name of a HUMAN task.
    title: str | None = None
    since_ms: int
    workflow_id: str
    workflow_name: str
    workflow_status: str
    correlation_id: str | None = None
    #: The first plain values of its input.
    facts: dict[str, Any] = {}


class Inbox(Struct, rename="camel", kw_only=True):
    """`GET /view/inbox`: one page of the tasks that wait for a person or a signal, oldest first."""

    now_ms: int
    #: The number of tasks in the inbox, at most 1,000.
    count: int
    tasks: list[InboxTask]
    #: The task id to pass as `after` for the next page; None on the last page.
    next: str | None = None


class Overview(Struct, rename="camel", kw_only=True):
    """`GET /view/overview`: the numbers at the top of the web UI."""

    now_ms: int
    version: str
    #: Workflows that have not ended, including paused ones.
    running: int
    #: Workflows that failed or timed out in the last hour; at most 100,000 are counted.
    failed_lately: int
    #: Number of tasks that can be polled now, and when the oldest of them became pollable.
    waiting: int
    oldest_ms: int | None
    #: Tasks that workers hold.
    in_hand: int
    #: Tasks that wait for a person or a signal, at most 1,000.
    inbox: int
    #: A reason for each queue that has tasks and no workers.
    unpolled: list[Waiting]
    #: Loops with at least 10 rounds per second, the fastest first.
    fast_loops: list[LoopPace]
    healthy: bool = True
    #: The problem if the coordinator is not healthy.
    health: str | None = None


class ReplicationState(Struct, rename="camel", kw_only=True):
    """The replication of the coordinator's database. URL and error contain no passwords."""

    url: str
    running: bool
    #: How long ago the replica was last known to be complete.
    lag_s: float
    last_sync_ms: int | None
    #: None after a successful copy.
    last_error: str | None
    #: The number of bytes that were copied since the start of the coordinator.
    bytes: int
    #: How often Litestream was started again.
    restarts: int


class ServerState(Struct, rename="camel", kw_only=True):
    """`GET /view/server`: the coordinator's process, database and retention."""

    now_ms: int
    version: str
    python: str
    pid: int
    started_ms: int
    healthy: bool
    health: str | None
    database: str
    file_bytes: int | None
    log_bytes: int | None
    commits: int
    committed_callers: int
    parked_polls: int
    #: How long finished workflows are kept, and how many of them; None is no limit.
    keep_finished_s: float | None
    keep_finished_count: int | None
    #: None without replication.
    replication: ReplicationState | None = None
    #: How long the writer has worked on transactions since the start.
    writer_busy_s: float = 0.0
    #: Bytes of the disk that holds the database; 0 for a database in memory. The coordinator refuses to start workflows
    #: while less than `disk_reserve_bytes` is free.
    disk_total_bytes: int = 0
    disk_free_bytes: int = 0
    disk_reserve_bytes: int = 0
    #: The number of stored secrets that cannot be decrypted, because the coordinator has no key.
    unreadable_secrets: int = 0


class TaskTypeActivity(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Durations and failures of the attempts at one task type."""

    name: str
    #: True for a system task, which the coordinator runs itself.
    of_server: bool = False
    attempts: int
    failed: int
    wait_p95_ms: int | None = None
    run_p50_ms: int | None = None
    run_p95_ms: int | None = None


class Activity(Struct, rename="camel", kw_only=True):
    """`GET /view/activity`: what happened in the last hours, for charts.

    Each list of numbers has one item per time span of `bucket_ms`, oldest first. The first span begins at `from_ms`,
    the last one contains the present. Workflows include sub-workflows.
    """

    now_ms: int
    from_ms: int
    bucket_ms: int
    #: Workflows that started.
    started: list[int]
    #: Workflows that ended without a failure; None for a span that was not counted.
    finished: list[int | None]
    #: Workflows that failed or timed out, and have not been retried.
    failed: list[int]
    #: The most tasks that waited for workers; None for a span without a measurement.
    waiting: list[int | None]
    #: The most tasks that workers held; None for a span without a measurement.
    in_hand: list[int | None]
    #: True if older spans of `finished` were not counted, because too many workflows ended.
    is_partial: bool
    task_types: list[TaskTypeActivity]
    #: `task_types` covers this many attempts, out of `attempts` that were scheduled in this time.
    sampled_attempts: int
    attempts: int


class FailureGroup(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Failed workflows of the same name with the same failed task and the same cause."""

    #: Identifies the group in requests.
    key: str
    workflow_name: str
    #: Type of the task whose failure ended the workflows; None if no task failed.
    task_type: str | None = None
    #: The reason without the parts that differ between workflows, such as numbers and ids.
    cause: str
    #: The reason of the newest failure.
    reason: str
    count: int
    first_ms: int
    last_ms: int
    #: The newest failed workflows.
    newest: list[str]


class Failures(Struct, rename="camel", kw_only=True):
    """`GET /view/failures`: failed workflows that have not been retried, grouped by cause; the largest groups first."""

    now_ms: int
    from_ms: int
    groups: list[FailureGroup]
    #: The number of groups, and the number of failed workflows in all groups.
    group_count: int
    failed: int
    #: Workflows that failed only because a sub-workflow failed. Retrying the sub-workflow continues them.
    parents: int
    #: True if only the newest failures were examined.
    is_partial: bool


class WorkflowIds(Struct, rename="camel", kw_only=True):
    """Ids of workflows with their statuses, newest first, for actions on all of them."""

    now_ms: int
    #: Workflow id → status.
    statuses: dict[str, str]
    #: True if more workflows match.
    has_more: bool


class WorkerQueue(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A queue that a worker polls, or of which it holds tasks."""

    name: str
    domain: str = ""
    last_poll_ms: int | None = None
    in_hand: int = 0
    #: The number of tasks that the worker runs at the same time; 0 if unknown.
    slots: int = 0


class WorkerState(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A worker process, as its polls describe it."""

    worker_id: str | None
    #: True if the worker polled lately, or holds tasks.
    is_live: bool
    #: None if the worker holds tasks but has not polled since the coordinator started.
    last_poll_ms: int | None = None
    in_hand: int
    #: The slots of the worker in all its queues; 0 if the worker does not report them.
    slots: int = 0
    #: Name and version of the worker's SDK, or its user agent.
    client: str = ""
    #: How many of the newest 2,000 tasks the worker has run to their end, and how long they took.
    runs: int = 0
    run_p50_ms: int | None = None
    run_p95_ms: int | None = None
    queues: list[WorkerQueue]


class WorkerStates(Struct, rename="camel", kw_only=True):
    """`GET /view/workers`: the workers that polled since the coordinator started, and those that hold tasks."""

    now_ms: int
    known_since_ms: int
    workers: list[WorkerState]
