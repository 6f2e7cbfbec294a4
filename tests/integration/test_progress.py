"""In real time: what a task says every 0.2 s for 10 s is seen growing from outside, in every way to run it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import get_task_context
from conductor.client.http.models import StartWorkflowRequest
from conductor.client.http.models.workflow import Workflow
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator

ROUNDS = 50
ROUND_S = 0.2
PATIENCE_S = 120.0


def say(n: int) -> None:
    context = get_task_context()
    context.add_log(f"round {n}")
    context.progress(n, ROUNDS)


def talk() -> dict[str, int]:
    for n in range(ROUNDS):
        say(n)
        time.sleep(ROUND_S)
    return {"rounds": ROUNDS}


async def talk_async() -> dict[str, int]:
    for n in range(ROUNDS):
        say(n)
        await asyncio.sleep(ROUND_S)
    return {"rounds": ROUNDS}


class Watcher:
    """Reads a task from outside."""

    def __init__(self, configuration: Configuration) -> None:
        self._clients = OrkesClients(configuration)
        step = {"name": "talk", "taskReferenceName": "talk", "type": "SIMPLE"}
        flow = {"name": "flow", "workflowDef": {"name": "flow", "tasks": [step]}}
        request = StartWorkflowRequest.from_dict(flow)
        self._workflow_id = self._clients.get_workflow_client().start_workflow(request)
        #: How many lines, and how much progress, each look has seen.
        self.seen: list[tuple[int, int]] = []

    def workflow(self) -> Workflow:
        return self._clients.get_workflow_client().get_workflow(self._workflow_id)

    def lines(self) -> list[str]:
        task_id = self.workflow().tasks[0].task_id
        return [line.log for line in self._clients.get_task_client().get_task_logs(task_id)]

    def watch(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not (workflow := self.workflow()).is_completed():
            assert time.monotonic() < deadline, "it did not come to its end in time"
            done = workflow.tasks[0].output_data.get("progress", {}).get("done", 0)
            self.seen.append((len(self.lines()), done))
            time.sleep(0.1)


@contextmanager
def coordinator() -> Iterator[Configuration]:
    with Coordinator() as running:
        yield Configuration(running.url)


def check(watcher: Watcher) -> None:
    lines, done = zip(*watcher.seen, strict=True)
    assert list(lines) == sorted(lines)
    assert list(done) == sorted(done)
    assert len(set(lines)) >= 5, "they grew step by step"
    assert len(set(done)) >= 5
    assert watcher.lines() == [f"round {n}" for n in range(ROUNDS)], "each once, in order"
    assert watcher.workflow().output == {"rounds": ROUNDS}, "the progress is gone"


@pytest.mark.slow
@pytest.mark.parametrize("function", [talk, talk_async], ids=["def", "async def"])
def test_a_talking_task_is_seen_from_outside_in_processes(function: object) -> None:
    with coordinator() as configuration:
        watcher = Watcher(configuration)
        worker = Worker("talk", function)  # type: ignore[arg-type]
        with TaskHandler(workers=[worker], configuration=configuration) as handler:
            handler.start_processes()
            watcher.watch()
        check(watcher)


@pytest.mark.slow
@pytest.mark.parametrize("function", [talk, talk_async], ids=["def", "async def"])
async def test_a_talking_task_is_seen_from_outside_on_one_loop(function: object) -> None:
    with coordinator() as configuration:
        watcher = Watcher(configuration)
        async with TaskHandlerAsyncIO(workers=[Worker("talk", function)], configuration=configuration):  # type: ignore[arg-type]
            await asyncio.to_thread(watcher.watch)
        check(watcher)
