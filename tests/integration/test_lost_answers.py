"""A report arrives but its answer is lost: the state of the coordinator counts, not the view of the worker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import (
    TaskLeaseLost,
    TaskRunnerEventsListener,
    TaskUpdateCompleted,
    TaskUpdateFailure,
)
from conductor.client.http.models import StartWorkflowRequest
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator
from conductor.protocol.wire import Verdict
from conductor.testing import FakeClock
from tests.integration.chaos.http_stream import Message
from tests.integration.chaos.proxy import Proxy

#: Time is turned by hand: no lease ends because a machine is busy.
LEASE_S = 3600
#: How patient a test is, in real seconds.
TIMEOUT_S = 60


class Script:
    """Cuts the answers to reports, and to heartbeats, until told not to."""

    def __init__(self) -> None:
        self.cut_reports = True
        self.cut_beats = False
        self.cuts = 0

    def draw(self, rng: random.Random, request: Message) -> str:
        beat = b"extendLease" in request.body
        if not request.body or not (self.cut_beats if beat else self.cut_reports):
            return "none"
        self.cuts += not beat
        return "cut_answer"


class Told(TaskRunnerEventsListener):
    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []
        self.lost: list[str] = []
        self.journaled: list[bool] = []

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.verdicts.append(event.verdict)

    def on_task_lease_lost(self, event: TaskLeaseLost) -> None:
        self.lost.append(event.reason)

    def on_task_update_failure(self, event: TaskUpdateFailure) -> None:
        self.journaled.append(event.journaled)


class LossyNetwork:
    """A coordinator, a network that loses answers, and one workflow of one task."""

    def __init__(self, proxy: Proxy, coordinator: Coordinator, script: Script, clock: FakeClock) -> None:
        self.proxy = proxy
        self.script = script
        self.clock = clock
        self.told = Told()
        self._workflows = OrkesClients(Configuration(coordinator.url)).get_workflow_client()

    def start(self) -> str:
        task = {
            "name": "job",
            "taskReferenceName": "job",
            "type": "SIMPLE",
            "taskDefinition": {"name": "job", "retryCount": 0, "responseTimeoutSeconds": LEASE_S},
        }
        definition = {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": [task]}
        return self._workflows.start_workflow(
            StartWorkflowRequest.from_dict({"name": "flow", "workflowDef": definition})
        )

    def status(self, workflow_id: str) -> str:
        return str(self._workflows.get_workflow(workflow_id).status)

    def terminate(self, workflow_id: str) -> None:
        self._workflows.terminate_workflow(workflow_id, "enough")

    async def pass_time_until(self, condition: Callable[[], object], step_s: float) -> None:
        """Let time pass step by step until it has happened; after each step the machine may take its time."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self.clock.advance(step_s)
                for _ in range(50):
                    if condition():
                        break
                    await asyncio.sleep(0.01)

    def workers(self, **options: Any) -> TaskHandlerAsyncIO:
        async def job() -> str:
            return "done"

        return TaskHandlerAsyncIO(
            workers=[Worker("job", job, **options)],
            configuration=Configuration(f"http://127.0.0.1:{self.proxy.port}/api"),
            event_listeners=[self.told],
            shutdown_grace_seconds=0,
            clock=self.clock,
        )


@pytest.fixture
def network(tmp_path: Path) -> Iterator[LossyNetwork]:
    script, clock = Script(), FakeClock()
    with Coordinator(database=tmp_path / "coordinator.db", clock=clock) as coordinator, Proxy(script) as proxy:
        proxy.upstream_port = coordinator.port
        yield LossyNetwork(proxy, coordinator, script, clock)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


async def test_a_heartbeat_does_not_take_a_committed_result_for_lost(network: LossyNetwork) -> None:
    """Heartbeats go on while the report is repeated; the lease that the report has consumed is not a lost one."""
    async with network.workers(update_retry_delay_seconds=1, update_attempts=100):
        workflow_id = await asyncio.to_thread(network.start)
        await until(lambda: network.status(workflow_id) == "COMPLETED")
        for beats in (1, 2, 3, 4):
            network.clock.advance(LEASE_S / 3)
            await until(lambda n=beats: network.proxy.requests["beat"] >= n)  # type: ignore[misc]
        network.script.cut_reports = False
        await network.pass_time_until(lambda: network.told.verdicts, 100)
    assert network.told.verdicts == [Verdict.COMMITTED]
    assert network.told.lost == []


async def test_the_clock_does_not_take_a_committed_result_for_lost(network: LossyNetwork) -> None:
    """No answer for longer than the response timeout: the report is repeated until the server says what it did."""
    network.script.cut_beats = True
    async with network.workers(update_retry_delay_seconds=1, update_attempts=100):
        workflow_id = await asyncio.to_thread(network.start)
        await until(lambda: network.status(workflow_id) == "COMPLETED")
        network.clock.advance(2 * LEASE_S)
        await network.pass_time_until(lambda: network.script.cuts >= 4, 10)
        network.script.cut_reports = False
        await network.pass_time_until(lambda: network.told.verdicts, 100)
    assert network.told.verdicts == [Verdict.COMMITTED]
    assert network.told.lost == []


async def test_the_journal_publishes_the_verdict_it_gets(network: LossyNetwork) -> None:
    async with network.workers(update_attempts=1):
        workflow_id = await asyncio.to_thread(network.start)
        await until(lambda: network.told.journaled == [True])
        network.script.cut_reports = False
        await network.pass_time_until(lambda: network.told.verdicts, 1)
    assert network.status(workflow_id) == "COMPLETED"
    assert network.told.verdicts == [Verdict.COMMITTED]
