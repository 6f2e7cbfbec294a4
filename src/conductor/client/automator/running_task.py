"""One task in hand: until when it is ours, and how to stop it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from conductor.client.automator.polled_tasks import MAX_TIMEOUT_S
from conductor.client.automator.progress import News
from conductor.client.automator.task_trace import TaskTrace
from conductor.telemetry.log_format import TaskLabel

if TYPE_CHECKING:
    from conductor.client.automator.journal import Entry
    from conductor.client.automator.polled_tasks import Grant
    from conductor.client.context.task_context import TaskContext
    from conductor.client.http.models.task_def import TaskDef
    from conductor.client.worker.worker_config import ResolvedConfig

#: Heartbeats follow each other after this share of the response timeout, or a little sooner.
BEAT_SHARE = 1 / 3
#: A poll that took longer than this share of the response timeout leaves open how much of the lease is left.
DOUBT_SHARE = 1 / 4


class Stop(Enum):
    """Why work on a task must stop before its function has returned."""

    LOST = "lease lost"
    TIMED_OUT = "timed out"
    SHUTDOWN = "worker shutting down"


class RunningTask:
    """A task from its delivery to its verdict. All times are those of the worker's monotonic clock, in seconds."""

    #: Heartbeats in a row without an answer.
    failed_beats = 0
    stopped: Stop | None = None
    stop_reason = ""
    #: The spans of a sampled task; None without tracing.
    trace: TaskTrace | None = None
    #: Whether the worker may no longer speak for the task.
    lost = False
    #: Whether nobody holds its lease any more: its verdict is there, or it was given up.
    released = False
    #: The status that its report gives; None while there is none. What ended the task may then be our own report.
    reported_as: str | None = None
    #: The task of the event loop that carries it, and whether its function is awaited there: then that stops it.
    carried_by: asyncio.Task[Any] | None = None
    on_loop = False
    #: Whether its function was called.
    has_begun = False
    #: How long its function took, in seconds.
    took_s = 0.0
    #: Once it is stopped: who says the last word about it, and whether its function has really returned.
    ending: asyncio.Task[None] | None = None
    returned: asyncio.Event
    #: Called with the task, on the event loop, when the work must stop. No closure: it would hold the task in a circle.
    on_stop: Callable[[RunningTask], None] | None = None
    #: Its report, once there is one.
    entry: Entry
    _known: asyncio.Event | None = None
    #: What it has said while it runs, if anybody has asked.
    said: News | None = None

    def __init__(self, grant: Grant, context: TaskContext, config: ResolvedConfig, now: float) -> None:
        task = grant.task
        self.task = task
        self.context = context
        self.config = config
        #: What every event about it begins with.
        self.about = (task.task_def_name or task.task_type, task.task_id, config.worker_id, task.workflow_instance_id)
        self.response_timeout_s = grant.response_timeout_s
        #: The poll was parked for long: the task may be ours from when it was sent, or only from this moment. A
        #: heartbeat makes that certain; nothing runs before.
        self.doubtful = now - grant.sent_at > self.response_timeout_s * DOUBT_SHARE
        self.deadline = (now if self.doubtful else grant.sent_at) + self.response_timeout_s
        self._beating = bool(config.lease_extend_enabled or task.lease_id)
        self.beat_at = now if self.doubtful else grant.sent_at + self.next_beat_s()
        self.timeout_s = task_timeout_s(task.task_definition)
        self.timeout_at = None if self.timeout_s is None else now + self.timeout_s
        #: When its function was called; until then, when it came.
        self.began = now

    def is_over(self) -> bool:
        """Whether there is no lease to keep any more."""
        return self.released or self.lost

    @property
    def beating(self) -> bool:
        """Whether heartbeats are sent for it."""
        return self._beating or self.doubtful

    @property
    def label(self) -> str:
        """Which task it is, for the end of a log line."""
        task_type, task_id, _, workflow_id = self.about
        return TaskLabel.of(task_type, task_id, workflow_id)

    async def certain(self) -> None:
        """Wait until it is known that the task is ours, or that the work must stop."""
        self._known = asyncio.Event()
        self.on_stop = RunningTask._be_known
        if self.doubtful and self.stopped is None:
            await self._known.wait()
        self.on_stop = None

    def _be_known(self) -> None:
        if self._known is not None:
            self._known.set()

    def confirm(self) -> None:
        """A heartbeat was accepted; on the event loop."""
        if self.doubtful:
            self.doubtful = False
            self._be_known()

    def next_beat_s(self) -> float:
        """Seconds to the next heartbeat: a third of the response timeout, shortened by chance so that fleets spread."""
        return self.response_timeout_s * BEAT_SHARE * (0.8 + 0.2 * random.random())

    @property
    def may_tell(self) -> bool:
        """Whether news could be sent now: no heartbeat and no other news is under way, and there is no report yet."""
        return self.beat_at != math.inf and not (self.context.closed or (self.said is not None and self.said.under_way))

    def look_at(self) -> float:
        """When somebody must look at it next: for a heartbeat, its news, its timeout, or the end of its lease."""
        at = self.deadline
        if self._beating or self.doubtful:
            at = min(at, self.beat_at)
        if self.said is not None and self.said.at < at and self.may_tell:
            at = self.said.at
        return at if self.timeout_at is None else min(at, self.timeout_at)

    @property
    def news(self) -> News:
        """What it says while it runs. Made for the first who asks, on whatever thread: most tasks are over before."""
        if self.said is None:
            # One call that no other thread can come between.
            vars(self).setdefault("said", News(self.context, self.about))
        assert self.said is not None  # noqa: S101
        return self.said

    def is_ours(self) -> bool:
        """Whether the worker may speak for it."""
        return not self.lost

    def stop(self, why: Stop, reason: str) -> bool:
        """Stop the work, on the event loop. False if it had been stopped or released before."""
        if self.released or self.lost or self.stopped is why:
            return False
        self.stopped = why
        self.lost = why is Stop.LOST
        self.stop_reason = reason
        self.context.cancel(reason)
        if self.on_stop is not None:
            self.on_stop(self)
        return True


def task_timeout_s(definition: TaskDef | None) -> float | None:
    """Return the execution timeout of a task. ALERT_ONLY asks for an alert on the server, not for an end."""
    timeout_s = (definition.timeout_seconds or 0) if definition is not None else 0
    if definition is None or timeout_s <= 0 or definition.timeout_policy == "ALERT_ONLY":
        return None
    return float(min(timeout_s, MAX_TIMEOUT_S))
