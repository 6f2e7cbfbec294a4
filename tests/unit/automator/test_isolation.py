"""A task that may have killed a process runs alone, and the others wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conductor.client.automator.execution_marks import read_marks
from conductor.client.automator.isolation import ALONE_WAIT_S, Isolation
from conductor.client.automator.journal import Journal
from conductor.client.automator.polled_tasks import Grant
from conductor.client.automator.process_deaths import DeathRecord, DeathRecords
from conductor.client.automator.running_task import RunningTask, Stop
from conductor.client.context.task_context import TaskContext
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker.outcome import TaskOutcome
from conductor.client.worker.worker_config import resolve_worker_config
from conductor.testing import FakeClock

CONFIG = resolve_worker_config("job", {"worker_id": "w"}, env={})


class Process:
    """An isolation, and functions that return when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.journal = Journal(directory, "http://server/api", max_bytes=1 << 20)
        self.journal.open()
        self.records = DeathRecords.of(self.journal)
        self.isolation = Isolation(self.journal, self.clock)
        self.executing: dict[str, asyncio.Event] = {}
        self._going: dict[str, asyncio.Task[object]] = {}

    def suspect(
        self, name: str, *, ran_s: float = 1.0, suspicions: int = 1, by_itself: bool = False, executing: int = 1
    ) -> None:
        """Remember that a process died while it executed this task."""
        self.records.save(
            DeathRecord(
                workflow_instance_id="w",
                reference_name=name,
                task_type="job",
                task_id=name,
                poll_count=1,
                suspicions=suspicions,
                ran_s=ran_s,
                executing=executing,
                may_be_from_outside=not by_itself,
            )
        )

    def is_remembered(self, name: str) -> bool:
        return self.records.find("w", name) is not None

    async def start(self, name: str, timeout_s: int = 0) -> RunningTask:
        """A poll has brought the task, for the second time."""
        task = Task(task_id=name, workflow_instance_id="w", task_type="job", reference_task_name=name, poll_count=2)
        task.task_definition = TaskDef(name="job", timeout_seconds=timeout_s)
        running = RunningTask(Grant(task, 0.0), TaskContext(task, "w", None), CONFIG, 0.0, _cancel)
        running.processing = self._going[name] = asyncio.create_task(self.isolation.run(self._execute, running))
        await self.settle()
        return running

    async def finish(self, name: str) -> None:
        self.executing[name].set()
        await self._going[name]
        await self.settle()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.settle()

    async def _execute(self, running: RunningTask) -> TaskOutcome | None:
        name = running.task.task_id
        self.executing[name] = asyncio.Event()
        try:
            await self.executing[name].wait()
        finally:
            del self.executing[name]
        return None

    @property
    def on_probation(self) -> str:
        assert self.journal.marks is not None
        found = read_marks(self.journal.marks.path)
        assert found is not None
        return found.on_probation.decode()


def _cancel(running: RunningTask) -> None:
    """Cancel the wait of a stopped task, as the engine does."""
    if running.processing is not None:
        running.processing.cancel()


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    made = Process(tmp_path)
    yield made
    for task in made._going.values():
        task.cancel()
    await asyncio.gather(*made._going.values(), return_exceptions=True)
    made.journal.close()


async def test_a_suspect_waits_for_the_others_and_the_others_wait_for_it_a14(process: Process) -> None:
    process.suspect("deadly")
    await process.start("a")
    await process.start("deadly")
    await process.start("b")
    assert list(process.executing) == ["a"]
    assert process.isolation.closed
    await process.finish("a")
    assert list(process.executing) == ["deadly"]
    assert process.on_probation == "deadly"
    await process.finish("deadly")
    assert list(process.executing) == ["b"]
    assert (process.on_probation, process.is_remembered("deadly")) == ("", False)


async def test_a_task_that_waits_too_long_to_begin_is_returned_a14(process: Process) -> None:
    """The task would run into its timeout without having run."""
    process.suspect("deadly", ran_s=60)
    await process.start("deadly")
    waiting = await process.start("a", timeout_s=12)
    await process.advance(3.9)
    assert not process._going["a"].done()
    await process.advance(0.2)
    outcome = await process._going["a"]
    assert isinstance(outcome, TaskOutcome)
    assert (outcome.result.status, outcome.result.never_started) == ("IN_PROGRESS", True)
    assert waiting.stopped is None


async def test_suspects_run_one_after_the_other_a14(process: Process) -> None:
    for name in "abc":
        process.suspect(name)
        await process.start(name)
    for name in "abc":
        assert (list(process.executing), process.on_probation) == ([name], name)
        await process.finish(name)
    assert not process.isolation.closed


async def test_a_suspect_that_outlives_its_last_run_makes_room_for_others_a14(process: Process) -> None:
    process.suspect("long", ran_s=4.0)
    opened: list[bool] = []
    process.isolation.on_open.append(lambda: opened.append(True))
    await process.start("long")
    await process.start("a")
    await process.advance(8.9)
    assert list(process.executing) == ["long"]
    await process.advance(0.2)
    assert list(process.executing) == ["long", "a"]
    assert (process.on_probation, opened) == ("", [True])
    assert process.is_remembered("long"), "it has not returned yet"
    await process.finish("long")
    assert not process.is_remembered("long")


@pytest.mark.parametrize(
    ("suspicions", "ran_s", "executing", "by_itself", "probation_s"),
    [
        (1, 3600.0, 1, False, 30),
        (1, 3600.0, 10, False, 3),
        (1, 3600.0, 100, False, 1),
        (5, 3600.0, 10, False, 30),
        (1, 0.0, 100, True, 30),
        (2, 1.0, 1, False, 12),
        (3, 0.0, 1, True, 480),
    ],
)
async def test_a_probation_has_a_length_a14(
    process: Process, suspicions: int, ran_s: float, executing: int, by_itself: bool, probation_s: float
) -> None:
    process.suspect("long", ran_s=ran_s, suspicions=suspicions, by_itself=by_itself, executing=executing)
    await process.start("long")
    await process.start("a")
    await process.advance(probation_s - 0.1)
    assert list(process.executing) == ["long"]
    await process.advance(0.2)
    assert list(process.executing) == ["long", "a"]


async def test_a_suspect_does_not_wait_for_ever_for_long_tasks_a14(process: Process) -> None:
    process.suspect("deadly")
    await process.start("long")
    await process.start("deadly")
    await process.advance(ALONE_WAIT_S + 0.1)
    assert list(process.executing) == ["long", "deadly"]
    assert process.on_probation == "deadly"


async def test_tasks_that_are_stopped_while_they_wait_a14(process: Process) -> None:
    process.suspect("deadly")
    process.suspect("second")
    await process.start("deadly")
    for name in ["second", "healthy"]:
        running = await process.start(name)
        running.stop(Stop.SHUTDOWN, "worker shutting down")
        await process.settle()
        assert process._going[name].done()
        assert process._going[name].result() is None
    assert process.is_remembered("second")
    await process.finish("deadly")
    assert not process.isolation.closed
    await process.start("another")
    assert list(process.executing) == ["another"]
