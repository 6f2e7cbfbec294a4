"""The stub's `/tasks`: poll, report, read, log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.common.clock import Clock
from conductor.protocol.wire import FEATURE_BATCH_REPORTS, FEATURE_LEASES, FEATURES_HEADER, MAX_POLL_TIMEOUT_MS
from conductor.testing.http11 import StubAnswer
from conductor.testing.report_rules import ReportRules
from conductor.testing.request import JsonObject, Request
from conductor.testing.router import StubError, StubRoute, body_object, json_answer, text_answer
from conductor.testing.stub_queue import QueueKey, StubQueue
from conductor.testing.wait_until import Watch

#: Timeout of a poll request that does not contain a timeout.
_DEFAULT_POLL_MS = 100
#: If less than this time remains of a poll's timeout, the poll is answered, because the rest is a rounding error.
_MIN_WAIT_S = 1e-6


class TaskRoutes:
    """Answers the requests of workers."""

    def __init__(
        self,
        queue: StubQueue,
        reports: ReportRules,
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
        self._features = {FEATURES_HEADER: f"{FEATURE_LEASES}, {FEATURE_BATCH_REPORTS}"} if leases else {}
        #: How often each worker has recalled its parked polls of a queue by polling for 0 tasks.
        self._recalls: Counter[tuple[QueueKey, str | None]] = Counter()
        #: The last poll of each queue, in the format of `/tasks/queue/polldata`.
        self._last_polls: dict[QueueKey, JsonObject] = {}

    def routes(self) -> list[StubRoute]:
        """Return the endpoints, specific paths before general ones."""
        return [
            StubRoute("GET POST", "/tasks/poll/batch/*", self.poll_batch),
            StubRoute("GET", "/tasks/poll/*", self.poll_one),
            StubRoute("POST", "/tasks", self.update),
            *([StubRoute("POST", "/tasks/reports", self.update_batch)] if self._leases else []),
            StubRoute("GET", "/tasks/queue/size", self.queue_size),
            StubRoute("GET", "/tasks/queue/all", self.queue_sizes),
            StubRoute("GET", "/tasks/queue/polldata/all", lambda _: json_answer([*self._last_polls.values()])),
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
        count = _int_parameter(request, "count", 1)
        timeout_ms = _int_parameter(request, "timeout", _DEFAULT_POLL_MS)
        if timeout_ms > MAX_POLL_TIMEOUT_MS:
            raise StubError(400, "Long Poll Timeout value cannot be more than 5 seconds")
        tasks = await self._poll(request, task_type, count, timeout_ms)
        return StubAnswer(body=b"[" + b",".join(tasks) + b"]", headers=self._features)

    async def _poll(self, request: Request, task_type: str, count: int, timeout_ms: int) -> list[bytes]:
        """Return the polled tasks, encoded under the lock, so that the answer shows no later change."""
        key = QueueKey(task_type, request.query.get("domain"))
        worker_id = request.query.get("workerid")
        self._last_polls[key] = {
            "queueName": task_type,
            "domain": key.domain,
            "workerId": worker_id,
            "lastPollTime": self._clock.wall_ms(),
        }
        if count <= 0:
            self._recall_parked_polls(key, worker_id)
            return []
        recalls = self._recalls[key, worker_id]

        def is_recalled() -> bool:
            return self._recalls[key, worker_id] > recalls

        await self._wait_until_ready(key, count, timeout_ms / 1000, is_recalled)
        with self._watch.held:
            if is_recalled():
                return []
            return [task.encode() for task in self._queue.take(key, count, worker_id, lease=self._leases)]

    def _recall_parked_polls(self, key: QueueKey, worker_id: str | None) -> None:
        """Answer the parked polls of a worker that wants no more tasks, as the coordinator does."""
        if self._leases and worker_id is not None:
            with self._watch.held:
                self._recalls[key, worker_id] += 1
                self._queue.wake_polls(key)

    async def _wait_until_ready(
        self, key: QueueKey, count: int, timeout_s: float, is_recalled: Callable[[], bool]
    ) -> None:
        enough = count if self._hold_partial_batches else 1
        deadline_s = self._clock.monotonic() + timeout_s
        while True:
            left_s = deadline_s - self._clock.monotonic()
            with self._watch.held:
                if is_recalled() or self._queue.count_ready(key) >= enough or left_s <= _MIN_WAIT_S:
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
            raise self._reports.malformed("A report must be a JSON object")
        with self._watch.held:
            return self._reports.process(body_object(request))

    def update_batch(self, request: Request) -> StubAnswer:
        if not isinstance(request.json, list):
            raise StubError(400, "A JSON array of reports is required")
        with self._watch.held:
            return json_answer([self._reports.process_in_batch(body) for body in request.json])

    def read_task(self, _request: Request, task_id: str) -> StubAnswer:
        with self._watch.held:
            if task_id not in self._queue.tasks:
                raise StubError(404, f"Task not found for taskId: {task_id}")
            return StubAnswer(body=self._queue.tasks[task_id].encode())

    def add_log(self, request: Request, task_id: str) -> StubAnswer:
        with self._watch.held:
            self._queue.logs[task_id].append(TaskExecLog(log=request.body.decode(), task_id=task_id))
        return StubAnswer()

    def read_log(self, _request: Request, task_id: str) -> StubAnswer:
        with self._watch.held:
            lines = list(self._queue.logs[task_id])
        return json_answer(lines) if lines else StubAnswer(204)

    def queue_size(self, request: Request) -> StubAnswer:
        key = QueueKey(request.query.get("taskType", ""), request.query.get("domain") or None)
        with self._watch.held:
            return text_answer(str(self._queue.count_ready(key)))

    def queue_sizes(self, _request: Request) -> StubAnswer:
        with self._watch.held:
            return json_answer(self._queue.sizes())


def _int_parameter(request: Request, name: str, default: int) -> int:
    value = request.query.get(name, str(default))
    try:
        return int(value)
    except ValueError:
        raise StubError(500, f"Failed to convert {name}={value!r} to a number") from None
