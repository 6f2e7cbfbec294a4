"""The stub's `/tasks`: poll, report, read, log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.common.clock import Clock
from conductor.protocol.wire import FEATURE_BATCH_REPORTS, FEATURE_LEASES, FEATURES_HEADER, MAX_POLL_TIMEOUT_MS
from conductor.testing.http11 import StubAnswer
from conductor.testing.report_rules import Reports
from conductor.testing.request import Request
from conductor.testing.router import StubRoute, body_object, json_answer, text_answer
from conductor.testing.stub_errors import StubError
from conductor.testing.stub_queue import QueueKey, StubQueue
from conductor.testing.wait_until import Watch

#: What a poll waits that does not say how long.
_DEFAULT_POLL_MS = 100
#: Floating-point dust that is no time left to wait.
_DUST_S = 1e-6


class TaskRoutes:
    """Answers what workers ask."""

    def __init__(
        self,
        queue: StubQueue,
        reports: Reports,
        watch: Watch,
        clock: Clock,
        *,
        leases: bool,
        hold_partial_batches: bool,
    ) -> None:
        self._queue = queue
        self._reports = reports
        self._watch = watch
        self._clock = clock
        self._leases = leases
        self._hold_partial_batches = hold_partial_batches
        #: How often a worker has recalled its polls of a queue.
        self._recalls: Counter[tuple[QueueKey, str | None]] = Counter()
        #: Who polled last, as a server lists it.
        self._polls: dict[QueueKey, dict[str, object]] = {}

    def routes(self) -> list[StubRoute]:
        """The endpoints, the more special ones first."""
        return [
            StubRoute("GET POST", "/tasks/poll/batch/*", self.poll_batch),
            StubRoute("GET", "/tasks/poll/*", self.poll_one),
            StubRoute("POST", "/tasks", self.update),
            *([StubRoute("POST", "/tasks/reports", self.update_batch)] if self._leases else []),
            StubRoute("GET", "/tasks/queue/size", self.queue_size),
            StubRoute("GET", "/tasks/queue/all", self.queue_sizes),
            StubRoute("GET", "/tasks/queue/polldata/all", self.poll_data),
            StubRoute("GET", "/tasks/*/log", self.read_log),
            StubRoute("POST", "/tasks/*/log", self.add_log),
            StubRoute("GET", "/tasks/*", self.read_task),
        ]

    async def poll_one(self, request: Request, task_type: str) -> StubAnswer:
        tasks = await self._poll(request, task_type, 1, _DEFAULT_POLL_MS)
        if tasks:
            return StubAnswer(body=tasks[0], headers=self._features)
        return StubAnswer(204, headers=self._features)

    async def poll_batch(self, request: Request, task_type: str) -> StubAnswer:
        count = _number(request, "count", 1)
        timeout_ms = _number(request, "timeout", _DEFAULT_POLL_MS)
        if timeout_ms > MAX_POLL_TIMEOUT_MS:
            raise StubError(400, "Long Poll Timeout value cannot be more than 5 seconds")
        tasks = await self._poll(request, task_type, count, timeout_ms)
        return StubAnswer(body=b"[" + b",".join(tasks) + b"]", headers=self._features)

    @property
    def _features(self) -> dict[str, str]:
        return {FEATURES_HEADER: f"{FEATURE_LEASES}, {FEATURE_BATCH_REPORTS}"} if self._leases else {}

    async def _poll(self, request: Request, task_type: str, count: int, timeout_ms: int) -> list[bytes]:
        """The tasks as they travel: encoded before anybody can change them."""
        key = QueueKey(task_type, request.query.get("domain"))
        caller = (key, request.query.get("workerid"))
        self._polls[key] = {
            "queueName": task_type,
            "domain": key.domain,
            "workerId": caller[1],
            "lastPollTime": self._clock.wall_ms(),
        }
        if count <= 0:
            self._recall(*caller)
            return []
        recalls = self._recalls[caller]
        await self._until_ready(key, count, timeout_ms / 1000, lambda: self._recalls[caller] > recalls)
        with self._watch.held:
            if self._recalls[caller] > recalls:
                return []
            tasks = self._queue.take(key, count, request.query.get("workerid"), lease=self._leases)
            return [task.encode() for task in tasks]

    def _recall(self, key: QueueKey, worker_id: str | None) -> None:
        """A coordinator answers a worker's parked polls when that wants no more work; whose those are, it must say."""
        if self._leases and worker_id is not None:
            with self._watch.held:
                self._recalls[key, worker_id] += 1
                self._queue.ring(key)

    async def _until_ready(self, key: QueueKey, count: int, timeout_s: float, recalled: Callable[[], bool]) -> None:
        enough = count if self._hold_partial_batches else 1
        ends_s = self._clock.monotonic() + timeout_s
        while True:
            left_s = ends_s - self._clock.monotonic()
            with self._watch.held:
                if recalled() or self._queue.ready(key) >= enough or left_s <= _DUST_S:
                    return
                event = self._queue.park(key)
                left_s = min(left_s, self._queue.next_due_s(key) - self._clock.monotonic())
            self._watch.notify()
            try:
                await self._clock.wait(event, left_s)
            finally:
                with self._watch.held:
                    self._queue.unpark(key, event)
                self._watch.notify()

    def update(self, request: Request) -> StubAnswer:
        if self._leases and not isinstance(request.json, dict):
            raise self._reports.malformed("A report is a JSON object")
        with self._watch.held:
            return self._reports.take(body_object(request))

    def update_batch(self, request: Request) -> StubAnswer:
        if not isinstance(request.json, list):
            raise StubError(400, "A JSON array of reports is required")
        with self._watch.held:
            return json_answer(self._reports.take_batch(request.json))

    def read_task(self, request: Request, task_id: str) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        with self._watch.held:
            return StubAnswer(body=self._find(task_id).encode())

    def _find(self, task_id: str) -> Task:
        if task_id not in self._queue.tasks:
            raise StubError(404, f"Task not found for taskId: {task_id}")
        return self._queue.tasks[task_id]

    def add_log(self, request: Request, task_id: str) -> StubAnswer:
        with self._watch.held:
            self._queue.logs[task_id].append(TaskExecLog(log=request.body.decode(), task_id=task_id))
        return StubAnswer()

    def read_log(self, request: Request, task_id: str) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        with self._watch.held:
            lines = list(self._queue.logs[task_id])
        return json_answer(lines) if lines else StubAnswer(204)

    def queue_size(self, request: Request) -> StubAnswer:
        key = QueueKey(request.query.get("taskType", ""), request.query.get("domain") or None)
        with self._watch.held:
            return text_answer(str(self._queue.ready(key)))

    def queue_sizes(self, request: Request) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        with self._watch.held:
            return json_answer(self._queue.sizes())

    def poll_data(self, request: Request) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        return json_answer([*self._polls.values()])


def _number(request: Request, name: str, default: int) -> int:
    value = request.query.get(name, str(default))
    try:
        return int(value)
    except ValueError:
        raise StubError(500, f"Failed to convert {name}={value!r} to a number") from None
