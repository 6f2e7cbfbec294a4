"""The JSON of `/api/view`, which the coordinator writes for the web UI and the command line.

Times are milliseconds since the epoch. The items of a list omit fields with their default value; whole answers do not.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from conductor.protocol.why_waiting import Waiting


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


def base_reference(ref: str, iteration: int, task_type: str) -> str:
    """Return a task's reference name in the workflow definition: without the iteration of its loop."""
    return ref.removesuffix(f"__{iteration}") if iteration and task_type != "DO_WHILE" else ref


class WorkflowDetails(Struct, rename="camel", kw_only=True):
    """`GET /view/workflow/{id}`: a workflow, the attempts at its tasks, and why it waits."""

    now_ms: int
    #: The workflow as `GET /workflow/{id}` returns it, without its tasks.
    workflow: dict[str, Any]
    tasks: list[TaskAttempt]
    #: True if the workflow has more attempts than `tasks`.
    more_tasks: bool = False
    waiting: Waiting


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
    #: True if the search stopped at its limit: older workflows may match, too.
    looked_at_enough: bool = False


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


class Overview(Struct, rename="camel", kw_only=True):
    """`GET /view/overview`: the numbers at the top of the web UI."""

    now_ms: int
    version: str
    #: Workflows that have not ended, including paused ones.
    running: int
    #: Workflows that failed or timed out in the last hour, among the newest 10,000 that ended.
    failed_lately: int
    #: Number of tasks that can be polled now, and when the oldest of them became pollable.
    waiting: int
    oldest_ms: int | None
    #: Tasks that workers hold.
    in_hand: int
    #: A reason for each queue that has tasks and no workers.
    unpolled: list[Waiting]
    healthy: bool = True
    #: The problem if the coordinator is not healthy.
    health: str | None = None


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
