"""The state of one running task: how long its lease lasts, and whether the work must stop."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from conductor.client.automator.polled_tasks import MAX_TIMEOUT_S
from conductor.client.automator.progress import ProgressTracker
from conductor.telemetry.log_format import TaskLabel

if TYPE_CHECKING:
    from conductor.client.automator.journal import PendingReport
    from conductor.client.automator.polled_tasks import Grant
    from conductor.client.automator.task_trace import TaskTrace
    from conductor.client.automator.thread_pool import CallResult
    from conductor.client.context.task_context import TaskContext
    from conductor.client.http.models.task_def import TaskDef
    from conductor.client.worker.worker_config import ResolvedConfig

#: The interval between heartbeats is this share of the response timeout, or a little less.
HEARTBEAT_SHARE = 1 / 3
#: After a poll that took longer than this share of the response timeout, the function is not called before a heartbeat
#: has confirmed the lease.
DOUBT_SHARE = 1 / 4

#: Why steps of a lost task are refused.
LOST = "the worker has lost this task; its steps are not recorded any more"


class Stop(Enum):
    """Why work on a task must stop before its function has returned."""

    LOST = "lease lost"
    TIMED_OUT = "timed out"
    SHUTDOWN = "worker shutting down"


class RunningTask:
    """A task from its delivery to its verdict. Times are seconds on the worker's monotonic clock.

    Each field has one writer:

    - The constructor writes the first group, which never changes.
    - `stop` and `confirm`, on the event loop: `stopped`, `stop_reason`, `is_doubtful`.
    - `Engine`: `trace`, `processing`, `ending`, `returned`.
    - `Executor`: `is_executing`, `is_awaited`, `call`, `has_begun`, `began`, `took_s`.
    - `Reporter`: `report`.
    - `LeaseKeeper`: `released` on the event loop; on the lease thread `deadline`, `heartbeat_at`, `failed_heartbeats`
      and `timeout_at`.

    Cancellation has one path: `stop` notes the reason, tells the function's context, and calls the engine's `on_stop`.
    """

    def __init__(
        self,
        grant: Grant,
        context: TaskContext,
        config: ResolvedConfig,
        now: float,
        on_stop: Callable[[RunningTask], None] = lambda _running: None,
    ) -> None:
        task = grant.task
        self.task = task
        self.context = context
        self.config = config
        #: The first fields of every event about the task: task type, task id, worker id, workflow id.
        self.about = (task.task_def_name or task.task_type, task.task_id, config.worker_id, task.workflow_instance_id)
        self.response_timeout_s = grant.response_timeout_s
        self.timeout_s = task_timeout_s(task.task_definition)
        self.progress = ProgressTracker(context, self.about)
        #: When the task arrived, or when a prefetched task left the buffer.
        self.arrived_at = now
        self._sends_heartbeats = bool(config.lease_extend_enabled or task.lease_id)
        self._on_stop = on_stop

        self.stopped: Stop | None = None
        self.stop_reason = ""
        #: True after a long parked poll: the start of the lease is unknown, so it may expire soon. The function is not
        #: called before a heartbeat has confirmed the lease.
        self.is_doubtful = now - grant.sent_at > self.response_timeout_s * DOUBT_SHARE
        self._confirmed = asyncio.Event() if self.is_doubtful else None

        #: The spans of a sampled task; None without tracing.
        self.trace: TaskTrace | None = None
        #: The asyncio task that runs `Engine.process_task`.
        self.processing: asyncio.Task[Any] | None = None
        #: The asyncio task that reports the stop; None unless the task is stopped during its execution.
        self.ending: asyncio.Task[None] | None = None
        #: Set when the function of a stopped task returns; None unless the task is stopped during its execution.
        self.returned: asyncio.Event | None = None

        #: Whether the function runs or waits for `Isolation`. In both cases a stop must interrupt it.
        self.is_executing = False
        #: Whether the function runs on the event loop or waits for `Isolation`. In both cases cancelling `processing`
        #: interrupts it.
        self.is_awaited = False
        #: The function's call on the thread pool.
        self.call: asyncio.Future[CallResult] | None = None
        self.has_begun = False
        #: When the function was called; before that, when the task arrived.
        self.began = now
        self.took_s = 0.0

        #: The report in flight; None before the function has ended.
        self.report: PendingReport | None = None

        self.deadline = (now if self.is_doubtful else grant.sent_at) + self.response_timeout_s
        #: When the next heartbeat is due; infinite while one is in flight.
        self.heartbeat_at = now if self.is_doubtful else grant.sent_at + self.next_heartbeat_s()
        #: The number of heartbeats in a row without an answer.
        self.failed_heartbeats = 0
        self.timeout_at = None if self.timeout_s is None else now + self.timeout_s
        #: Whether `LeaseKeeper` has stopped keeping the lease, after a verdict or at the end of the process.
        self.released = False

    def is_lost(self) -> bool:
        """Return whether the worker may no longer report on the task."""
        return self.stopped is Stop.LOST

    def is_ours(self) -> bool:
        """Return whether the worker may report on the task."""
        return self.stopped is not Stop.LOST

    def has_completed(self) -> bool:
        """Return whether the report completes the task. A failed task may be retried, even after a terminal error."""
        return self.reported_as == "COMPLETED" and self.is_ours()

    def is_held(self, now: float) -> bool:
        """Return whether the worker still holds the task.

        After a pause of the whole process, other code may run before the lease thread notices the end of the lease. So
        this also reads the deadline.
        """
        return self.stopped is None and not self.released and now < self.deadline

    def is_over(self) -> bool:
        """Return whether the lease is released or lost."""
        return self.released or self.stopped is Stop.LOST

    @property
    def reported_as(self) -> str | None:
        """The status in the report; None without a report. The server may already show this status."""
        return None if self.report is None else self.report.status

    @property
    def label(self) -> str:
        """The task type, task id and workflow id, for the end of a log line."""
        task_type, task_id, _, workflow_id = self.about
        return TaskLabel.of(task_type, task_id, workflow_id)

    @property
    def sends_heartbeats(self) -> bool:
        """Whether heartbeats are sent for the task."""
        return self._sends_heartbeats or self.is_doubtful

    async def wait_until_confirmed(self) -> None:
        """Wait until a heartbeat has confirmed the lease, or the work must stop."""
        if self._confirmed is not None and self.stopped is None:
            await self._confirmed.wait()

    def confirm(self) -> None:
        """Record that a heartbeat has confirmed the lease. Called on the event loop."""
        self.is_doubtful = False
        if self._confirmed is not None:
            self._confirmed.set()

    def stop(self, why: Stop, reason: str) -> bool:
        """Stop the work. Called on the event loop.

        Return False if the task was already stopped for this reason, or if its lease is lost or released.
        """
        if self.is_over() or self.stopped is why:
            return False
        self.stopped = why
        self.stop_reason = reason
        self.context.cancel(reason)
        if self._confirmed is not None:
            self._confirmed.set()
        self._on_stop(self)
        return True

    def next_heartbeat_s(self) -> float:
        """Return the seconds until the next heartbeat, randomly shortened so that the workers of a fleet spread out."""
        return self.response_timeout_s * HEARTBEAT_SHARE * (0.8 + 0.2 * random.random())

    def can_send_progress(self) -> bool:
        """Return whether progress may be sent now: no heartbeat and no update is in flight, and there is no report."""
        return self.heartbeat_at != math.inf and not (self.context.closed or self.progress.in_flight)

    def next_check_at(self) -> float:
        """Return when the lease thread must check the task: heartbeat, progress, timeout, or the end of the lease."""
        at = self.deadline
        if self.sends_heartbeats:
            at = min(at, self.heartbeat_at)
        if self.progress.send_at < at and self.can_send_progress():
            at = self.progress.send_at
        return at if self.timeout_at is None else min(at, self.timeout_at)


def task_timeout_s(definition: TaskDef | None) -> float | None:
    """Return the seconds after which a running task is stopped; None for no limit.

    With the timeout policy ALERT_ONLY the server alerts, and the worker does not stop the task.
    """
    timeout_s = (definition.timeout_seconds or 0) if definition is not None else 0
    if definition is None or timeout_s <= 0 or definition.timeout_policy == "ALERT_ONLY":
        return None
    return float(min(timeout_s, MAX_TIMEOUT_S))
