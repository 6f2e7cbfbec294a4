"""A worker never holds more tasks than it has slots, unless `prefetch` says so."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conductor.client.automator import worker_group
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import (
    TaskExecutionStarted,
    TaskLeaseExtended,
    TaskRunnerEventsListener,
    TaskUpdateCompleted,
)
from conductor.client.worker.worker import Worker
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.coordinator import Coordinator
from conductor.coordinator.core import Core
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.workflows.effects import Start
from conductor.testing import ConductorStub, FakeClock, Status
from conductor.testing.wait_until import Watch
from tests.integration.chaos.proxy import CALM, Proxy

PATIENCE_S = 60.0
JOB = {"name": "job", "taskReferenceName": "job", "type": "SIMPLE"}


class Watched:
    """A coordinator whose open leases are counted inside every transaction that polls or reports."""

    def __init__(self, coordinator: Coordinator) -> None:
        assert coordinator.core is not None
        self.url = coordinator.url
        self.core: Core = coordinator.core
        self.most_leases = 0
        self._count_after("judge")
        self._count_after("poll_now")

    def _count_after(self, name: str) -> None:
        method: Callable[..., Any] = getattr(self.core.tasks, name)

        def counted(tx: Tx, *args: Any, **more: Any) -> Any:
            answer = method(tx, *args, **more)
            [(held,)] = tx.select("SELECT count(*) FROM task WHERE lease_until_ms IS NOT NULL", ())
            self.most_leases = max(self.most_leases, held)
            return answer

        setattr(self.core.tasks, name, counted)

    def start(self, count: int, **task_def: Any) -> None:
        """Start workflows of one task each."""
        definition = {"name": "job", "responseTimeoutSeconds": 600, "timeoutSeconds": 0, "retryCount": 0, **task_def}
        flow = {"name": "flow", "tasks": [{**JOB, "taskDefinition": definition}], "timeoutSeconds": 0}

        def start(tx: Tx) -> None:
            for _ in range(count):
                self.core.workflows.executions.start(tx, Start(name="flow", workflow_def=flow))

        self.core.store.call(start)

    def tasks(self) -> list[tuple[str, int]]:
        """The status and the poll count of every task."""
        return self.core.store.call(lambda tx: tx.select("SELECT status, poll_count FROM task ORDER BY pk", ()))

    def statuses(self) -> Counter[str]:
        return Counter(status for status, _ in self.tasks())


class Hands(TaskRunnerEventsListener):
    """Reads from the worker's events how many tasks were running and which of them sent heartbeats."""

    def __init__(self) -> None:
        self.in_hand: set[str] = set()
        self.most_in_hand = 0
        self.done = 0
        self.extended: set[str] = set()
        self._watch = Watch(lambda: f"{self.done} reports, {len(self.in_hand)} in hand")

    def on_task_execution_started(self, event: TaskExecutionStarted) -> None:
        self.in_hand.add(event.task_id)
        self.most_in_hand = max(self.most_in_hand, len(self.in_hand))

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        if event.task_id in self.in_hand:
            self.in_hand.discard(event.task_id)
            self.done += 1
        self._watch.notify()

    def on_task_lease_extended(self, event: TaskLeaseExtended) -> None:
        self.extended.add(event.task_id)

    async def until_done(self, count: int) -> None:
        await self._watch.until(lambda: self.done >= count, PATIENCE_S)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def server() -> Iterator[Watched]:
    with Coordinator() as coordinator:
        yield Watched(coordinator)


@pytest.fixture
def timed(clock: FakeClock) -> Iterator[Watched]:
    with Coordinator(clock=clock) as coordinator:
        yield Watched(coordinator)


@asynccontextmanager
async def working(
    server: Watched,
    function: Callable[[], Any],
    hands: Hands,
    clock: Clock = SYSTEM_CLOCK,
    *,
    grace_s: float = 30,
    **options: Any,
) -> AsyncIterator[TaskHandlerAsyncIO]:
    worker = Worker("job", function, **options)
    handler = TaskHandlerAsyncIO(
        workers=[worker],
        configuration=Configuration(server.url),
        event_listeners=[hands],
        clock=clock,
        shutdown_grace_seconds=grace_s,
    )
    await handler.start()
    try:
        yield handler
    finally:
        await handler.stop()


class Job:
    """A function whose every tenth call is slow, as a `def` and as an `async def`."""

    def __init__(self, pace: str) -> None:
        self._pace = pace
        self._calls = 0

    def pause_s(self) -> float:
        self._calls += 1
        slow = self._pace == "slow" or (self._pace == "mixed" and self._calls % 10 == 0)
        return 0.01 if slow else 0.0

    def function(self, kind: str) -> Callable[[], Any]:
        def job() -> dict[str, int]:
            threading.Event().wait(self.pause_s())
            return {}

        async def job_async() -> dict[str, int]:
            await asyncio.sleep(self.pause_s())
            return {}

        return job if kind == "def" else job_async


@pytest.mark.parametrize("pace", ["quick", "slow", "mixed"])
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("slots", [1, 5, 50])
async def test_tasks_in_hand_never_exceed_the_slots_c01_c02(server: Watched, slots: int, kind: str, pace: str) -> None:
    count = 60 if slots == 1 else 200
    server.start(count)
    hands = Hands()
    async with working(server, Job(pace).function(kind), hands, thread_count=slots):
        await hands.until_done(count)
    assert server.most_leases <= slots, "seen by the server"
    assert hands.most_in_hand <= slots, "seen by the worker's events"
    assert set(server.tasks()) == {("COMPLETED", 1)}, "every task was delivered once"


def nothing() -> dict[str, int]:
    return {}


class Slow:
    """A function that waits at its n-th call until the test lets it go."""

    def __init__(self, at: int) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()
        self._at = at
        self.calls = 0

    def __call__(self) -> dict[str, int]:
        self.calls += 1
        if self.calls == self._at:
            self.entered.set()
            assert self.leave.wait(PATIENCE_S)
        return {}


@pytest.mark.parametrize("prefetch", [0, 100])
async def test_only_the_task_that_ran_too_long_times_out_c03_c05(
    timed: Watched, clock: FakeClock, prefetch: int
) -> None:
    timeout_s = 20 if prefetch else 2
    timed.start(300, timeoutSeconds=timeout_s, timeoutPolicy="RETRY")
    slow, hands = Slow(at=150), Hands()
    async with working(timed, slow, hands, clock, thread_count=1, prefetch=prefetch):
        await asyncio.to_thread(slow.entered.wait, PATIENCE_S)
        await asyncio.sleep(0)
        for _ in range(timeout_s + 1):
            await clock.until_sleeping(1)
            clock.advance(1.0)
            await asyncio.sleep(0.01)
        slow.leave.set()
        await _until(lambda: timed.statuses()["TIMED_OUT"] + timed.statuses()["COMPLETED"] == 300, clock)
    assert timed.statuses() == {"COMPLETED": 299, "TIMED_OUT": 1}
    assert {polls for _, polls in timed.tasks()} == {1}, "poll_count counts executions"


async def _until(reached: Callable[[], bool], clock: FakeClock) -> None:
    """Wait for the end, letting time pass for polls that wait their turn."""
    async with asyncio.timeout(PATIENCE_S):
        while not reached():
            clock.advance(0.05)
            await asyncio.sleep(0.01)


async def test_only_tasks_that_execute_send_heartbeats_c04(timed: Watched, clock: FakeClock) -> None:
    timed.start(60, responseTimeoutSeconds=30)
    slow, hands = Slow(at=20), Hands()
    async with working(timed, slow, hands, clock, thread_count=1, prefetch=100):
        await asyncio.to_thread(slow.entered.wait, PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            while not hands.extended:
                clock.advance(1.0)
                await asyncio.sleep(0.01)
        assert len(hands.extended) == 1
        slow.leave.set()
        await _until(lambda: timed.statuses()["COMPLETED"] == 60, clock)


class TestPrefetch:
    async def test_the_worker_holds_more_tasks_than_it_has_slots_and_runs_no_more(self, server: Watched) -> None:
        server.start(400)
        hands, running, most = Hands(), [0], [0]

        async def job() -> dict[str, int]:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0)
            running[0] -= 1
            return {}

        async with working(server, job, hands, thread_count=2, prefetch=50):
            await hands.until_done(400)
        assert most[0] <= 2
        assert 2 < server.most_leases <= 52
        assert set(server.tasks()) == {("COMPLETED", 1)}

    async def test_waiting_tasks_are_requeued_although_the_event_loop_is_blocked_c06(self, server: Watched) -> None:
        """The blocked function ends when another worker has done everything else."""
        server.start(100)
        entered, leave, calls = threading.Event(), threading.Event(), [0]

        async def blocks() -> dict[str, int]:
            calls[0] += 1
            if calls[0] == 30:
                entered.set()
                assert leave.wait(PATIENCE_S)  # blocks the event loop on purpose
            return {}

        blocked = threading.Thread(target=_run_alone, args=(server, blocks, leave), daemon=True)
        blocked.start()
        await asyncio.to_thread(entered.wait, PATIENCE_S)
        hands = Hands()
        async with working(server, nothing, hands, thread_count=5):
            async with asyncio.timeout(PATIENCE_S):
                while server.statuses()["COMPLETED"] < 100 - calls[0]:  # the blocked worker has called the others
                    await asyncio.sleep(0.02)
        leave.set()
        await asyncio.to_thread(blocked.join, PATIENCE_S)
        assert server.statuses() == {"COMPLETED": 100}

    @pytest.mark.parametrize("timeouts", [{"timeoutSeconds": 9}, {"responseTimeoutSeconds": 9}])
    async def test_a_type_with_a_short_timeout_is_never_prefetched(
        self, server: Watched, timeouts: dict[str, int]
    ) -> None:
        server.start(100, **timeouts)
        hands = Hands()
        async with working(server, nothing, hands, thread_count=2, prefetch=50):
            await hands.until_done(100)
        assert server.most_leases <= 2

    async def test_a_stop_requeues_the_waiting_tasks_and_finishes_the_running(self, server: Watched) -> None:
        server.start(100)
        slow, hands = Slow(at=30), Hands()
        async with working(server, slow, hands, thread_count=1, prefetch=50):
            await asyncio.to_thread(slow.entered.wait, PATIENCE_S)
            stopping = threading.Timer(0.2, slow.leave.set)
            stopping.start()
        stopping.join()
        statuses = server.statuses()
        assert statuses["IN_PROGRESS"] == 0, "no task is stranded with a worker that has stopped"
        assert statuses["COMPLETED"] == slow.calls
        assert {polls for status, polls in server.tasks() if status == "SCHEDULED"} == {0}

    async def test_a_pause_requeues_the_waiting_tasks(self, server: Watched) -> None:
        server.start(100)
        slow, hands = Slow(at=30), Hands()
        async with working(server, slow, hands, thread_count=1, prefetch=50) as handler:
            await asyncio.to_thread(slow.entered.wait, PATIENCE_S)
            handler.pause("job")
            async with asyncio.timeout(PATIENCE_S):
                while server.statuses()["IN_PROGRESS"] > 1 + 29:
                    await asyncio.sleep(0.01)
            slow.leave.set()
            async with asyncio.timeout(PATIENCE_S):
                while server.statuses()["IN_PROGRESS"]:
                    await asyncio.sleep(0.01)
            assert server.statuses() == {"COMPLETED": slow.calls, "SCHEDULED": 100 - slow.calls}
            handler.resume("job")
            await hands.until_done(100)

    @pytest.mark.slow
    async def test_a_stop_without_a_coordinator_does_not_count_waiting_tasks_as_executed_c05(
        self, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The journal says that they were never started, and the next worker requeues them as such."""
        monkeypatch.setattr(worker_group, "REQUEUE_S", 0.1)
        slow, database = Slow(at=30), tmp_path / "a.db"
        with Proxy(CALM) as proxy:
            url = f"http://127.0.0.1:{proxy.port}/api"
            async with AsyncExitStack() as workers:
                with Coordinator(database, clock=clock) as coordinator:
                    server, proxy.upstream_port = Watched(coordinator), coordinator.port
                    server.url = url
                    server.start(100)
                    worker = working(server, slow, Hands(), clock, grace_s=0, thread_count=1, prefetch=50)
                    await workers.enter_async_context(worker)
                    async with asyncio.timeout(PATIENCE_S):  # until nothing is in flight
                        while server.statuses() != {"COMPLETED": 29, "IN_PROGRESS": 1 + 29, "SCHEDULED": 41}:
                            await asyncio.sleep(0.01)
                slow.leave.set()
            with Coordinator(database, clock=clock) as coordinator:
                server, proxy.upstream_port = Watched(coordinator), coordinator.port
                server.url = url
                async with working(server, nothing, Hands(), clock, thread_count=5):
                    await _until(lambda: server.statuses() == {"COMPLETED": 100}, clock)
                counts = Counter(polls for _, polls in server.tasks())
                assert counts[2] <= 1, "only the task that was executing may have been delivered twice"

    async def test_tasks_that_cannot_be_requeued_any_more_do_not_keep_the_worker_from_polling(
        self, clock: FakeClock
    ) -> None:
        """A Conductor server took the coordinator's place: it knows neither arrays of reports nor the tasks."""
        slow, hands = Slow(at=30), Hands()
        with Proxy(CALM) as proxy, ConductorStub() as conductor:
            conductor.script("reports", Status(404), repeat=True)
            async with AsyncExitStack() as workers:
                with Coordinator(clock=clock) as coordinator:
                    server, proxy.upstream_port = Watched(coordinator), coordinator.port
                    server.url = f"http://127.0.0.1:{proxy.port}/api"
                    server.start(100)
                    await workers.enter_async_context(working(server, slow, hands, clock, thread_count=1, prefetch=50))
                    await asyncio.to_thread(slow.entered.wait, PATIENCE_S)
                    assert server.statuses()["IN_PROGRESS"] > 1, "tasks wait for the slot"
                proxy.upstream_port = conductor.port
                async with asyncio.timeout(PATIENCE_S):
                    while not conductor.requests_of("reports"):
                        clock.advance(0.5)
                        await asyncio.sleep(0.01)
                task = conductor.add_task("job")
                slow.leave.set()
                await _until(lambda: bool(conductor.results_for(task)), clock)


def _run_alone(server: Watched, function: Callable[[], Any], leave: threading.Event) -> None:
    """Run a worker with an event loop of its own until the test says so."""

    async def run() -> None:
        hands = Hands()
        async with working(server, function, hands, thread_count=1, prefetch=50):
            await asyncio.to_thread(leave.wait, PATIENCE_S)
            async with asyncio.timeout(PATIENCE_S):
                while hands.in_hand:
                    await asyncio.sleep(0.01)

    asyncio.run(run())
