"""A copy is restored while workers hold leases and results of the time after it, with real processes."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import TaskRunnerEventsListener, TaskUpdateCompleted
from conductor.client.worker.worker import Worker
from conductor.coordinator.store.online_backup import back_up
from conductor.testing.wait_until import Watch
from tests.integration.chaos.processes import CoordinatorProcess
from tests.integration.chaos.proxy import CALM, Proxy
from tests.integration.chaos.server import Server

PATIENCE_S = 60.0
BEFORE, LOST, AFTER = range(5), range(100, 110), range(200, 210)


class Life(TaskRunnerEventsListener):
    """Holds every task until the test lets it go, and counts the verdicts."""

    def __init__(self) -> None:
        self.entered: set[int] = set()
        self.verdicts: Counter[str] = Counter()
        self.gate = asyncio.Event()
        self._watch = Watch(lambda: f"entered {self.entered}, verdicts {self.verdicts}")

    async def hold(self, key: int) -> dict[str, int]:
        self.entered.add(key)
        self._watch.notify()
        await self.gate.wait()
        return {"key": key}

    def on_task_update_completed(self, event: TaskUpdateCompleted) -> None:
        self.verdicts[event.verdict] += 1
        self._watch.notify()

    async def until_entered(self, keys: range) -> None:
        await self._watch.until(lambda: self.entered >= set(keys), PATIENCE_S)

    async def until_verdicts(self, count: int) -> None:
        await self._watch.until(lambda: self.verdicts.total() >= count, PATIENCE_S)


def start(server: Server, keys: range) -> dict[int, str]:
    return {key: server.post("/workflow", {"name": "held", "input": {"key": key}}) for key in keys}


def define(server: Server) -> None:
    parameters = {"key": "${workflow.input.key}"}
    task = {"name": "hold", "taskReferenceName": "hold", "type": "SIMPLE", "inputParameters": parameters}
    server.post("/metadata/taskdefs", [{"name": "hold", "responseTimeoutSeconds": 600, "timeoutSeconds": 0}])
    server.post("/metadata/workflow", {"name": "held", "version": 1, "schemaVersion": 2, "tasks": [task]})


async def test_a_copy_is_restored_while_workers_hold_later_leases_a13(tmp_path: Path) -> None:
    database, copy, life = tmp_path / "a.db", tmp_path / "copy.db", Life()
    with (
        Proxy(CALM, random.Random(1)) as proxy,
        CoordinatorProcess(
            database, tmp_path / "log", on_port=lambda port: setattr(proxy, "upstream_port", port)
        ) as coordinator,
        Server(coordinator) as server,
    ):
        define(server)
        handler = TaskHandlerAsyncIO(
            workers=[Worker("hold", life.hold, thread_count=100)],
            configuration=Configuration(f"http://127.0.0.1:{proxy.port}/api"),
            event_listeners=[life],
            journal_dir=str(tmp_path / "journal"),
        )
        async with handler:
            known = await asyncio.to_thread(start, server, BEFORE)
            await life.until_entered(BEFORE)
            await asyncio.to_thread(back_up, database, copy)
            lost = await asyncio.to_thread(start, server, LOST)
            await life.until_entered(LOST)
            await asyncio.to_thread(coordinator.kill)
            for beside in tmp_path.glob("a.db*"):
                beside.unlink()
            shutil.copy(copy, database)
            await asyncio.to_thread(coordinator.start)
            new = await asyncio.to_thread(start, server, AFTER)
            assert not set(lost.values()) & set(new.values()), "no id is given out twice"
            await life.until_entered(AFTER)
            life.gate.set()
            await life.until_verdicts(len(BEFORE) + len(LOST) + len(AFTER))
        found: dict[str, Any] = {
            workflow: server.get(f"/workflow/{workflow}") for workflow in [*known.values(), *new.values()]
        }
    assert life.verdicts["COMMITTED"] == len(BEFORE) + len(AFTER)
    assert life.verdicts["CANCELLED"] + life.verdicts["REJECTED"] == len(LOST), "every late report has a final verdict"
    for key, workflow in {**known, **new}.items():
        assert found[workflow]["status"] == "COMPLETED"
        assert found[workflow]["output"] == {"key": key}, "no result counts for another task"
