"""The server's policy decides how a task past its `timeoutSeconds` ends, whether worker or server notices first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import TaskLeaseExtended, TaskRunnerEventsListener
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator
from conductor.testing import FakeClock

TIMEOUT_S = 100


class Seen(TaskRunnerEventsListener):
    def __init__(self) -> None:
        self.extended = asyncio.Event()

    def on_task_lease_extended(self, event: TaskLeaseExtended) -> None:
        self.extended.set()


@pytest.mark.parametrize("first", ["worker", "server"])
@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        ("TIME_OUT_WF", ("TIMED_OUT", ["TIMED_OUT"])),
        ("RETRY", ("COMPLETED", ["TIMED_OUT", "COMPLETED"])),
        ("ALERT_ONLY", ("COMPLETED", ["COMPLETED"])),
    ],
)
async def test_a_timeout_has_the_same_end_whoever_notices_first(
    policy: str, ends: tuple[str, list[str]], first: str, tmp_path: Path
) -> None:
    """Each side has a clock of its own, and only one of them comes to the time."""
    clocks = {"server": FakeClock(), "worker": FakeClock()}
    release, seen = asyncio.Event(), Seen()
    runs: list[int] = []

    async def job() -> str:
        runs.append(1)
        if len(runs) == 1:
            await release.wait()
        return "done"

    with Coordinator(database=tmp_path / "coordinator.db", clock=clocks["server"]) as coordinator:
        clients = OrkesClients(Configuration(coordinator.url))
        _define(clients, timeoutPolicy=policy)
        workflow_id = clients.get_workflow_client().start_workflow_by_name("flow", {})

        def now() -> Workflow:
            return clients.get_workflow_client().get_workflow(workflow_id, include_tasks=True)

        handler = TaskHandlerAsyncIO(
            # Two slots: the second attempt must not wait for a worker whose clock stands still to let go of the first.
            workers=[Worker("job", job, thread_count=2, poll_timeout=0, idle_poll_timeout=0, poll_interval_millis=1)],
            configuration=Configuration(coordinator.url),
            event_listeners=[seen],
            clock=clocks["worker"],
            shutdown_grace_seconds=0,
        )
        async with handler:
            async with asyncio.timeout(120):
                while not runs:
                    clocks["worker"].advance(0.001)
                    await asyncio.sleep(0.01)
            for clock in clocks.values():  # half of the time for both, and a heartbeat
                clock.advance(TIMEOUT_S / 2)
            async with asyncio.timeout(120):
                await seen.extended.wait()
            clocks[first].advance(TIMEOUT_S / 2)
            if policy == "ALERT_ONLY":
                release.set()
            async with asyncio.timeout(120):
                while not now().is_completed():
                    clocks["worker"].advance(0.01)  # it polls again
                    await asyncio.sleep(0.02)
            release.set()
        assert (now().status, [task.status for task in now().tasks]) == ends


def _define(clients: OrkesClients, **definition: Any) -> None:
    metadata = clients.get_metadata_client()
    limits = {
        "retryCount": 1,
        "retryDelaySeconds": 0,
        "timeoutSeconds": TIMEOUT_S,
        "responseTimeoutSeconds": 99,
    }
    metadata.register_task_def(TaskDef.from_dict({"name": "job", **limits, **definition}))
    task = {"name": "job", "taskReferenceName": "job", "type": "SIMPLE"}
    workflow = {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": [task]}
    metadata.register_workflow_def(WorkflowDef.from_dict(workflow), overwrite=True)
