"""Reports that ask for the next task, over HTTP and with real workers: what goes wrong between request and answer."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from conductor.client.automator.engine import Engine
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import get_task_context
from conductor.client.event.task_runner_events import TaskRunnerEventsListener, TaskUpdateRetried
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.task_authority import TaskCheck
from conductor.coordinator.tasks.task_report import Outcome, Report
from conductor.testing import FakeClock
from conductor.testing.wait_until import Watch
from tests.integration.chaos.http_stream import Message
from tests.integration.chaos.proxy import Proxy

JSON = {"content-type": "application/json"}

FLOW = {"name": "flow", "version": 1, "tasks": [{"name": "job", "taskReferenceName": "job", "type": "SIMPLE"}]}


@pytest.fixture
def api() -> Iterator[httpx.Client]:
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=60) as client:
        yield client


def start(api: httpx.Client, count: int) -> None:
    for _ in range(count):
        assert api.post("/workflow", json={"name": "flow", "workflowDef": FLOW}).status_code == 200


def take(api: httpx.Client, count: int) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = api.get("/tasks/poll/batch/job", params={"count": count, "workerid": "w"}).json()
    return tasks


def report_of(task: dict[str, Any], **fields: Any) -> dict[str, Any]:
    said = {name: task[name] for name in ("taskId", "workflowInstanceId", "workerId", "leaseId")}
    return {**said, "reportId": f"r-{task['leaseId']}", "status": "COMPLETED", **fields}


def test_a_report_that_cannot_be_read_does_not_pass_its_next_task_on_to_another(api: httpx.Client) -> None:
    """Only the author of the first report asks. Its report is malformed, so no task is granted at all."""
    start(api, 3)
    bad, good = take(api, 2)
    reports = [report_of(bad, callbackAfterSeconds=2**40), report_of(good)]
    answers = api.post("/tasks/reports", params={"next": 1}, json=reports).json()
    assert [answer["verdict"] for answer in answers] == ["REJECTED", "COMMITTED"]
    assert [answer.get("nextTask") for answer in answers] == [None, None]


class RefuseFirstReport:
    """Answers the first request with a report instead of the coordinator (503), and keeps its body."""

    def __init__(self) -> None:
        self.body = b""

    def draw(self, _: random.Random, request: Message) -> str:
        if self.body or b"reportId" not in request.body:
            return "none"
        self.body = request.body
        return "unavailable"


class Held(TaskRunnerEventsListener):
    """A function whose calls wait until the test lets them go, and the reports that failed."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.failed = 0
        self.watch = Watch(lambda: f"entered {self.entered}, {self.failed} failed")

    async def job(self) -> dict[str, int]:
        gate = self.gates.setdefault(len(self.entered), asyncio.Event())
        self.entered.append(get_task_context().get_task_id())
        self.watch.notify()
        await gate.wait()
        return {}

    def on_task_update_retried(self, _: TaskUpdateRetried) -> None:
        self.failed += 1
        self.watch.notify()


async def test_a_delayed_report_does_not_requeue_a_task_that_executes() -> None:
    """The first attempt did not ask for a task. If a later one did, the first could arrive last and requeue it."""
    fate, held, clock = RefuseFirstReport(), Held(), FakeClock()
    with Coordinator(clock=clock) as coordinator, Proxy(fate) as proxy:
        proxy.upstream_port = coordinator.port
        with httpx.Client(base_url=coordinator.url, timeout=60) as api:
            await asyncio.to_thread(start, api, 2)
            handler = TaskHandlerAsyncIO(
                workers=[Worker("job", held.job, thread_count=1)],
                configuration=Configuration(f"http://127.0.0.1:{proxy.port}/api"),
                event_listeners=[held],
                clock=clock,
            )
            async with handler:
                await held.watch.until(lambda: len(held.entered) == 1)
                handler.pause("job")
                held.gates[0].set()
                await held.watch.until(lambda: held.failed == 1)
                handler.resume("job")
                while len(held.entered) < 2:
                    clock.advance(1.0)
                    await asyncio.sleep(0.01)
                late = await asyncio.to_thread(api.post, "/tasks", content=fate.body, headers=JSON)
                assert late.headers["conductor-verdict"] == "COMMITTED"
                executing = await asyncio.to_thread(api.get, f"/tasks/{held.entered[1]}")
                assert executing.json()["status"] == "IN_PROGRESS"
                held.gates[1].set()


async def test_a_task_that_comes_after_the_grace_is_requeued_and_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report was sent before the stop, and its answer brings a task when the time of the stop is over."""
    held, asked, answered = Held(), threading.Event(), threading.Event()
    with Coordinator() as coordinator, httpx.Client(base_url=coordinator.url, timeout=60) as api:
        assert coordinator.core is not None
        judge, requeue_running = coordinator.core.tasks.judge, Engine.requeue_running

        def judge_after_the_stop(
            tx: Tx, reports: Sequence[Report], wanted: int = 0, check: TaskCheck | None = None
        ) -> list[Outcome]:
            if wanted:
                asked.set()
                assert answered.wait(60)
            return judge(tx, reports, wanted, check)

        async def requeue_first(engine: Engine) -> None:
            requeueing = asyncio.ensure_future(requeue_running(engine))
            await asyncio.sleep(0)
            answered.set()
            await requeueing

        monkeypatch.setattr(coordinator.core.tasks, "judge", judge_after_the_stop)
        monkeypatch.setattr(Engine, "requeue_running", requeue_first)
        await asyncio.to_thread(start, api, 2)
        handler = TaskHandlerAsyncIO(
            workers=[Worker("job", held.job, thread_count=1)],
            configuration=Configuration(coordinator.url),
            event_listeners=[held],
            shutdown_grace_seconds=0,
        )
        await handler.start()
        await held.watch.until(lambda: len(held.entered) == 1)
        held.gates[0].set()
        assert await asyncio.to_thread(asked.wait, 60)
        await handler.stop()
        assert len(held.entered) == 1
        size = await asyncio.to_thread(api.get, "/tasks/queue/size", params={"taskType": "job"})
        assert size.json() == 1
