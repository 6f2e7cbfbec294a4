"""The machine is lost under load, and the work goes on from a replica or a copy. `make chaos` runs more of it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import httpx
import pytest

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.worker.worker import Worker
from conductor.coordinator import Coordinator
from conductor.coordinator.replication.restore import restore
from conductor.coordinator.store.online_backup import back_up
from conductor.testing.wait_until import Watch
from tests.integration.chaos.disasters import BACKUP_MAX_LOSS_S, MAX_LOSS_S, run
from tests.integration.chaos.proxy import CALM, Proxy
from tests.unit.coordinator.replication.replica_fixture import needs_litestream

PATIENCE_S = 60.0


@needs_litestream
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_the_machine_is_lost_and_a_replica_takes_over(tmp_path: Path, seed: int) -> None:
    found = run(tmp_path, random.Random(seed), replicate=True, max_loss_s=MAX_LOSS_S)
    print(found)
    assert not found.problems
    assert found.answers > 100


@pytest.mark.slow
def test_the_machine_is_lost_and_a_copy_takes_over(tmp_path: Path) -> None:
    found = run(tmp_path, random.Random(1), replicate=False, max_loss_s=BACKUP_MAX_LOSS_S)
    print(found)
    assert not found.problems


@pytest.mark.slow
async def test_of_two_coordinators_only_the_newer_one_goes_on(tmp_path: Path) -> None:
    """The address changes to the restored coordinator and, by mistake, back to the old one."""
    done: list[int] = []
    watch = Watch(lambda: f"done: {done}")

    async def work(key: int) -> dict[str, int]:
        done.append(key)
        watch.notify()
        return {"key": key}

    with (
        Coordinator(tmp_path / "old.db") as old,
        httpx.Client(base_url=old.url) as api,
        Proxy(CALM, random.Random(1)) as proxy,
    ):
        task = {"name": "work", "taskReferenceName": "work", "inputParameters": {"key": "${workflow.input.key}"}}
        api.post("/metadata/workflow", json={"name": "flow", "tasks": [task]}).raise_for_status()
        back_up(tmp_path / "old.db", tmp_path / "copy.db")
        restore(str(tmp_path / "copy.db"), tmp_path / "new.db")
        with Coordinator(tmp_path / "new.db") as new, httpx.Client(base_url=new.url) as new_api:
            proxy.upstream_port = new.port
            handler = TaskHandlerAsyncIO(
                workers=[Worker("work", work, thread_count=5)],
                configuration=Configuration(f"http://127.0.0.1:{proxy.port}/api"),
                journal_dir=str(tmp_path / "journal"),
            )
            async with handler:
                new_api.post("/workflow/flow", json={"key": 1})
                await watch.until(lambda: 1 in done, PATIENCE_S)
                left_behind = api.post("/workflow/flow", json={"key": 2}).text
                proxy.upstream_port = old.port
                while (await asyncio.to_thread(api.get, "/health")).status_code == 200:
                    await asyncio.sleep(0.02)  # until the worker has polled the old one
                proxy.upstream_port = new.port
                new_api.post("/workflow/flow", json={"key": 3})
                await watch.until(lambda: 3 in done, PATIENCE_S)
            assert 2 not in done, "the old coordinator granted nothing"
            assert api.get(f"/workflow/{left_behind}").json()["status"] == "RUNNING"
            assert new_api.get(f"/workflow/{left_behind}").status_code == 404
            assert new_api.get("/health").status_code == 200
