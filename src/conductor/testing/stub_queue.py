"""Tasks in memory: which are ready for whom, which come back later, what became of each."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import NamedTuple
from uuid import uuid4

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.common.clock import Clock
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES
from conductor.protocol.wire import DEFAULT_RESPONSE_TIMEOUT_S, MAX_LOGS_PER_REPORT, MAX_REASON_CHARS, Verdict
from conductor.testing.wait_until import call_on


class QueueKey(NamedTuple):
    """One queue: a task type, in a domain or in none."""

    task_type: str
    domain: str | None


@dataclass(slots=True)
class StubLease:
    """The right to report on a task, from one poll to its report or its end."""

    id: str
    task_id: str
    worker_id: str | None
    ends_s: float
    #: The report that ended it, and what was thought of that.
    report: str | None = None
    verdict: Verdict | None = None


class StubQueue:
    """The tasks of the stub. Not safe by itself: whoever calls it holds the stub's lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tasks: dict[str, Task] = {}
        self.workflow_ids: set[str] = set()
        self.leases: dict[str, StubLease] = {}
        self.logs: defaultdict[str, list[TaskExecLog]] = defaultdict(list)
        self._ready: defaultdict[QueueKey, OrderedDict[str, Task]] = defaultdict(OrderedDict)
        self._later: defaultdict[QueueKey, dict[str, float]] = defaultdict(dict)
        self._parked: defaultdict[QueueKey, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = defaultdict(list)

    def add(self, task: Task) -> None:
        """A new task, ready at once."""
        self.tasks[task.task_id] = task
        self.workflow_ids.add(task.workflow_instance_id)
        self.make_ready(task)

    def make_ready(self, task: Task) -> None:
        """Hand the task out to the next poll."""
        key = key_of(task)
        self._later[key].pop(task.task_id, None)
        task.status = "SCHEDULED"
        self._ready[key][task.task_id] = task
        self.ring(key)

    def ring(self, key: QueueKey) -> None:
        """Wake every poll that waits here, to look again."""
        for loop, event in self._parked[key]:
            call_on(loop, event.set)

    def postpone(self, task: Task, seconds: float) -> None:
        """Hand the task out again after that time."""
        task.status = "SCHEDULED"
        if seconds <= 0:
            self.make_ready(task)
        else:
            self._later[key_of(task)][task.task_id] = self._clock.monotonic() + seconds

    def postponed(self) -> list[Task]:
        """Those that come back later."""
        return [self.tasks[task_id] for later in self._later.values() for task_id in later]

    def withdraw(self, task: Task) -> None:
        """Hand the task out to nobody any more."""
        key = key_of(task)
        self._later[key].pop(task.task_id, None)
        self._ready[key].pop(task.task_id, None)

    def ready(self, key: QueueKey) -> int:
        """How many could be taken now."""
        now_s = self._clock.monotonic()
        for task_id in [task_id for task_id, due_s in self._later[key].items() if due_s <= now_s]:
            self.make_ready(self.tasks[task_id])
        return len(self._ready[key])

    def next_due_s(self, key: QueueKey) -> float:
        """When the next postponed task comes back, on the monotonic clock."""
        return min(self._later[key].values(), default=float("inf"))

    def sizes(self) -> dict[str, int]:
        """How many are ready, by the names Conductor gives its queues."""
        return {":".join(filter(None, (key.domain, key.task_type))): len(ids) for key, ids in self._ready.items()}

    def take(self, key: QueueKey, count: int, worker_id: str | None, *, lease: bool) -> list[Task]:
        """Deliver up to that many tasks."""
        ready = self._ready[key]
        taken = [ready.popitem(last=False)[1] for _ in range(min(count, len(ready)))]
        return [self._deliver(task, worker_id, lease) for task in taken]

    def _deliver(self, task: Task, worker_id: str | None, lease: bool) -> Task:
        now_ms = self._clock.wall_ms()
        task.status = "IN_PROGRESS"
        task.start_time = task.start_time or now_ms
        task.update_time = now_ms
        task.poll_count += 1
        task.callback_after_seconds = 0
        task.worker_id = worker_id
        if lease:
            task.lease_id = str(uuid4())
            self.leases[task.lease_id] = StubLease(task.lease_id, task.task_id, worker_id, ends_s=0)
            self.extend(task)
        return task

    def extend(self, task: Task) -> None:
        """A heartbeat: the silence of the worker is forgiven, its lease begins anew."""
        task.update_time = self._clock.wall_ms()
        if task.lease_id is not None:
            life_s = task.response_timeout_seconds or DEFAULT_RESPONSE_TIMEOUT_S
            self.leases[task.lease_id].ends_s = self._clock.monotonic() + life_s
            task.lease_expires_at = task.update_time + life_s * 1000

    def keep_news(self, task: Task, result: TaskResult) -> None:
        """What a heartbeat brings besides: log lines, and the output so far."""
        self.logs[task.task_id] += result.logs
        if result.output_data:
            task.output_data = result.output_data

    def is_alive(self, lease: StubLease) -> bool:
        """Whether the lease still gives its holder the right to report."""
        task = self.tasks[lease.task_id]
        in_time = self._clock.monotonic() < lease.ends_s
        return in_time and task.lease_id == lease.id and task.status == "IN_PROGRESS"

    def has_lost(self, task: Task, worker_id: str | None) -> bool:
        """Return whether a worker that sends no lease id has held this open task and no longer does."""
        held = [lease for lease in self.leases.values() if lease.task_id == task.task_id]
        if worker_id is None or not held:
            return False
        if held[-1].worker_id != worker_id:
            return any(lease.worker_id == worker_id for lease in held)
        return task.status == "IN_PROGRESS" and self._clock.monotonic() >= held[-1].ends_s

    def apply(self, result: TaskResult) -> None:
        """Let a report have its effect."""
        task = self.tasks[result.task_id]
        task.output_data = result.output_data
        task.worker_id = result.worker_id
        task.reason_for_incompletion = (result.reason_for_incompletion or "")[:MAX_REASON_CHARS] or None
        task.callback_after_seconds = result.callback_after_seconds
        self.logs[task.task_id] += result.logs[:MAX_LOGS_PER_REPORT]
        if result.status is TaskResultStatus.IN_PROGRESS:
            self.postpone(task, result.callback_after_seconds)
        else:
            self.set_status(task, result.status.value)

    def set_status(self, task: Task, status: str) -> None:
        """Change a task's status from outside, as a cancelled workflow or a timeout would."""
        self.withdraw(task)
        task.status = status
        if status in TERMINAL_TASK_STATUSES:
            task.end_time = self._clock.wall_ms()

    def park(self, key: QueueKey) -> asyncio.Event:
        """An event that is set when a task of that queue becomes ready. Give it back with `unpark`."""
        event = asyncio.Event()
        self._parked[key].append((asyncio.get_running_loop(), event))
        return event

    def unpark(self, key: QueueKey, event: asyncio.Event) -> None:
        """Whoever waited has gone."""
        self._parked[key] = [parked for parked in self._parked[key] if parked[1] is not event]

    def parked(self) -> int:
        """How many long polls are waiting now."""
        return sum(map(len, self._parked.values()))


def key_of(task: Task) -> QueueKey:
    """The queue a task belongs to."""
    return QueueKey(task.task_type, task.domain)
