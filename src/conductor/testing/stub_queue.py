"""Tasks in memory: ready tasks by queue, postponed tasks, leases and logs."""

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
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TaskStatus
from conductor.protocol.wire import DEFAULT_RESPONSE_TIMEOUT_S, MAX_LOGS_PER_REPORT, MAX_REASON_CHARS, Verdict
from conductor.testing.wait_until import call_on


class QueueKey(NamedTuple):
    """A queue: a task type, with or without a domain."""

    task_type: str
    domain: str | None


@dataclass(slots=True)
class StubLease:
    """The right to report on a task, from a poll until the report or the expiry."""

    id: str
    task_id: str
    worker_id: str | None
    expires_s: float
    #: Id of the report that ended the lease, and its verdict.
    report: str | None = None
    verdict: Verdict | None = None


class StubQueue:
    """The tasks of the stub. Not thread-safe: callers hold the stub's lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tasks: dict[str, Task] = {}
        self.workflow_ids: set[str] = set()
        self.leases: dict[str, StubLease] = {}
        self.logs: defaultdict[str, list[TaskExecLog]] = defaultdict(list)
        self._ready: defaultdict[QueueKey, OrderedDict[str, Task]] = defaultdict(OrderedDict)
        #: When each postponed task becomes ready, in seconds of the monotonic clock, by task id.
        self._postponed: defaultdict[QueueKey, dict[str, float]] = defaultdict(dict)
        self._parked: defaultdict[QueueKey, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = defaultdict(list)

    def add(self, task: Task) -> None:
        self.tasks[task.task_id] = task
        self.workflow_ids.add(task.workflow_instance_id)
        self.make_ready(task)

    def make_ready(self, task: Task) -> None:
        """Deliver the task to the next poll."""
        key = _key_of(task)
        self._postponed[key].pop(task.task_id, None)
        task.status = TaskStatus.SCHEDULED
        self._ready[key][task.task_id] = task
        self.wake_polls(key)

    def wake_polls(self, key: QueueKey) -> None:
        """Wake every parked poll of the queue, so that it checks for tasks again."""
        for loop, event in self._parked[key]:
            call_on(loop, event.set)

    def list_postponed(self) -> list[Task]:
        return [self.tasks[task_id] for due in self._postponed.values() for task_id in due]

    def count_ready(self, key: QueueKey) -> int:
        now_s = self._clock.monotonic()
        for task_id in [task_id for task_id, due_s in self._postponed[key].items() if due_s <= now_s]:
            self.make_ready(self.tasks[task_id])
        return len(self._ready[key])

    def next_due_s(self, key: QueueKey) -> float:
        """Return the time on the monotonic clock at which the next postponed task becomes ready."""
        return min(self._postponed[key].values(), default=float("inf"))

    def sizes(self) -> dict[str, int]:
        """Return the number of ready tasks by Conductor's queue names."""
        return {":".join(filter(None, (key.domain, key.task_type))): len(ids) for key, ids in self._ready.items()}

    def take(self, key: QueueKey, count: int, worker_id: str | None, *, lease: bool) -> list[Task]:
        """Deliver up to `count` tasks to a worker, and return them."""
        ready = self._ready[key]
        now_ms = self._clock.wall_ms()
        tasks = [ready.popitem(last=False)[1] for _ in range(min(count, len(ready)))]
        for task in tasks:
            task.status = TaskStatus.IN_PROGRESS
            task.start_time = task.start_time or now_ms
            task.update_time = now_ms
            task.poll_count += 1
            task.callback_after_seconds = 0
            task.worker_id = worker_id
            if lease:
                task.lease_id = str(uuid4())
                self.leases[task.lease_id] = StubLease(task.lease_id, task.task_id, worker_id, expires_s=0)
                self.extend(task)
        return tasks

    def extend(self, task: Task) -> None:
        """Restart the response timeout of a task, and its lease if it has one."""
        task.update_time = self._clock.wall_ms()
        if task.lease_id is not None:
            lease_s = task.response_timeout_seconds or DEFAULT_RESPONSE_TIMEOUT_S
            self.leases[task.lease_id].expires_s = self._clock.monotonic() + lease_s
            task.lease_expires_at = task.update_time + lease_s * 1000

    def store_progress(self, task: Task, result: TaskResult) -> None:
        """Store the log lines and the output that a heartbeat contains."""
        self.logs[task.task_id] += result.logs
        if result.output_data:
            task.output_data = result.output_data

    def is_valid(self, lease: StubLease) -> bool:
        """Return whether the holder of this lease may still report."""
        task = self.tasks[lease.task_id]
        in_time = self._clock.monotonic() < lease.expires_s
        return in_time and task.lease_id == lease.id and task.status == TaskStatus.IN_PROGRESS

    def has_lost(self, task: Task, worker_id: str | None) -> bool:
        """Return whether a worker that sends no lease id once held this open task and has lost it."""
        leases = [lease for lease in self.leases.values() if lease.task_id == task.task_id]
        if worker_id is None or not leases:
            return False
        if leases[-1].worker_id != worker_id:
            return any(lease.worker_id == worker_id for lease in leases)
        return task.status == TaskStatus.IN_PROGRESS and self._clock.monotonic() >= leases[-1].expires_s

    def apply(self, result: TaskResult) -> None:
        """Apply an accepted report to its task."""
        task = self.tasks[result.task_id]
        task.output_data = result.output_data
        task.worker_id = result.worker_id
        task.reason_for_incompletion = (result.reason_for_incompletion or "")[:MAX_REASON_CHARS] or None
        task.callback_after_seconds = result.callback_after_seconds
        self.logs[task.task_id] += result.logs[:MAX_LOGS_PER_REPORT]
        if result.status is not TaskResultStatus.IN_PROGRESS:
            self.set_status(task, result.status.value)
        elif result.callback_after_seconds <= 0:
            self.make_ready(task)
        else:
            task.status = TaskStatus.SCHEDULED
            self._postponed[_key_of(task)][task.task_id] = self._clock.monotonic() + result.callback_after_seconds

    def set_status(self, task: Task, status: str) -> None:
        """Take the task out of its queue and change its status, as a cancelled workflow or a timeout would."""
        key = _key_of(task)
        self._postponed[key].pop(task.task_id, None)
        self._ready[key].pop(task.task_id, None)
        task.status = status
        if status in TERMINAL_TASK_STATUSES:
            task.end_time = self._clock.wall_ms()

    def park(self, key: QueueKey) -> asyncio.Event:
        """Return an event that is set when a task of the queue becomes ready. Pass it to `unpark` afterwards."""
        event = asyncio.Event()
        self._parked[key].append((asyncio.get_running_loop(), event))
        return event

    def unpark(self, key: QueueKey, event: asyncio.Event) -> None:
        self._parked[key] = [parked for parked in self._parked[key] if parked[1] is not event]

    def count_parked(self) -> int:
        return sum(map(len, self._parked.values()))


def _key_of(task: Task) -> QueueKey:
    return QueueKey(task.task_type, task.domain)
