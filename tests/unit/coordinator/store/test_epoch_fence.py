"""A coordinator stops when it hears of a newer one of its own database, and of nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.coordinator import Coordinator
from conductor.coordinator.replication.restore import restore
from conductor.coordinator.store.epoch_fence import EpochFence
from conductor.coordinator.store.online_backup import back_up
from conductor.protocol.epoch_token import MAX_TOKEN_CHARS, choose_newer_token
from conductor.protocol.wire import EPOCH_HEADER

SECRET, OTHER = b"s" * 16, b"o" * 16


def fence(number: int = 5, started_ms: int = 1000, secret: bytes = SECRET) -> EpochFence:
    return EpochFence(secret, number, started_ms)


@pytest.mark.parametrize(("number", "started_ms"), [(6, 0), (1005, 0), (5, 1001)])
def test_a_newer_token_of_the_same_database_fences(number: int, started_ms: int) -> None:
    own = fence()
    own.check_token(fence(number, started_ms).token)
    assert own.reason is not None
    assert f"epoch {number}, this one has 5" in own.reason


@pytest.mark.parametrize(
    "token",
    [
        fence().token,
        fence(4, 9000).token,
        fence(5, 999).token,
        fence(9, secret=OTHER).token,
        fence(9).token[:-1] + b"0" if fence(9).token[-1:] != b"0" else fence(9).token[:-1] + b"1",
        fence(5).token.replace(b"00000005", b"00000009"),
        fence(9).token + b"0",
        fence(9).token.upper(),
        b"",
        b"x" * (MAX_TOKEN_CHARS + 1),
        b"\xff\xfe",
    ],
)
def test_other_tokens_do_not_fence(token: bytes) -> None:
    own = fence()
    own.check_token(token)
    assert own.reason is None


def test_a_worker_remembers_the_newest_token_of_a_database() -> None:
    old, new, other = fence(5).token.decode(), fence(6).token.decode(), fence(1, secret=OTHER).token.decode()
    assert choose_newer_token(None, old) == old
    assert choose_newer_token(old, new) == new
    assert choose_newer_token(new, old) == new
    assert choose_newer_token(new, other) == other, "a worker may be pointed to another database"
    for bad in ("x" * (MAX_TOKEN_CHARS + 1), "a\nb", "ä"):
        assert choose_newer_token(old, bad) == old


def define(api: httpx.Client) -> None:
    api.post("/metadata/workflow", json={"name": "w", "tasks": [{"name": "t", "taskReferenceName": "t"}]})


async def poll_with(configuration: Configuration, api: httpx.Client) -> Any:
    configuration.host = str(api.base_url).rstrip("/")
    client = AsyncApiClient(configuration)
    try:
        return await AsyncTaskResourceApi(client).poll_for_worker(
            "t", worker_id="w", domain=None, count=1, timeout_ms=0
        )
    finally:
        await client.close()


async def test_a_worker_that_saw_the_restored_coordinator_stops_the_old_one(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "old.db") as old, httpx.Client(base_url=old.url) as old_api:
        define(old_api)
        old_api.post("/workflow/w", json={})
        back_up(tmp_path / "old.db", tmp_path / "copy.db")
        restore(str(tmp_path / "copy.db"), tmp_path / "new.db")
        with Coordinator(tmp_path / "new.db") as new, httpx.Client(base_url=new.url) as new_api:
            worker = Configuration(new.url)
            (task,) = (await poll_with(worker, new_api)).tasks
            seen = worker.seen_epoch
            assert seen is not None
            # Reports of this worker carry the token too.
            refused = old_api.post("/tasks", json={"taskId": "x"}, headers={EPOCH_HEADER: seen})
            assert refused.status_code == 503
            assert "a newer coordinator" in refused.json()["message"]
            assert old_api.get("/tasks/poll/t").status_code == 503, "it grants nothing, to no worker"
            assert old_api.post("/workflow/w", json={}).status_code == 503
            assert old_api.get("/workflow/search").status_code == 200, "it can still be read"
            health = old_api.get("/health")
            assert health.status_code == 503
            assert "a newer coordinator" in health.json()["healthResults"][0]["message"]
            # The newer one is not stopped by what workers know of the older one.
            worker_of_old = {EPOCH_HEADER: old.core.store.fence.token.decode()} if old.core else {}
            report = {"taskId": task.task_id, "workflowInstanceId": task.workflow_instance_id, "status": "COMPLETED"}
            assert new_api.post("/tasks", json=report, headers=worker_of_old).status_code == 200


async def test_of_two_plain_copies_the_one_that_started_last_wins(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "a.db"):
        pass
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    with (
        Coordinator(tmp_path / "a.db") as one,
        Coordinator(tmp_path / "b.db") as two,
        httpx.Client(base_url=one.url) as first,
        httpx.Client(base_url=two.url) as second,
    ):
        assert one.core is not None
        assert two.core is not None
        two.core.store.fence = EpochFence(two.core.store.salt, 2, 2**41)  # far later, whatever the clock did
        token = two.core.store.fence.token.decode()
        first.get("/tasks/poll/t", headers={EPOCH_HEADER: token})
        second.get("/tasks/poll/t", headers={EPOCH_HEADER: one.core.store.fence.token.decode()})
        assert first.get("/health").status_code == 503
        assert second.get("/health").status_code == 200
