"""A disk that becomes full: starts stop first, reports and purge go on, health says why."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from conductor.cli.checks_server import disk_share
from conductor.coordinator import Coordinator
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store import writer
from conductor.coordinator.store.disk_space import MAX_FILE_BYTES, MAX_RESERVE_BYTES, DiskSpace
from conductor.coordinator.store.statements import ADD_LOG
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store

MB = 1 << 20


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A disk of 1 GB. `free` is its free space."""
    state = SimpleNamespace(free=900 * MB)

    def statvfs(_: Any) -> Any:
        return SimpleNamespace(f_blocks=1000 * MB, f_frsize=1, f_bavail=state.free)

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr("conductor.coordinator.store.disk_space.READ_AGAIN_S", 0.0)
    yield state


def test_starts_stop_before_reports_and_purge_do_o03(tmp_path: Path, disk: SimpleNamespace) -> None:
    with (
        Coordinator(tmp_path / "a.db", disk_reserve_bytes=100 * MB) as coordinator,
        httpx.Client(base_url=coordinator.url) as api,
    ):
        api.post("/metadata/workflow", json={"name": "w", "tasks": [{"name": "t", "taskReferenceName": "t"}]})
        workflow = api.post("/workflow/w", json={}).text
        disk.free = 99 * MB
        for path, body in (("/workflow/w", {}), ("/workflow", {"name": "w"}), ("/workflow/start/bulk", [])):
            refused = api.post(path, json=body)
            assert refused.status_code == 503, path
            assert "99 MB" in refused.json()["message"]
            assert refused.headers["retry-after"]
        assert api.get("/health").status_code == 200
        task = api.get("/tasks/poll/t").json()
        report = {"taskId": task["taskId"], "workflowInstanceId": workflow, "status": "COMPLETED"}
        assert api.post("/tasks", json=report).status_code == 200
        (finding,) = disk_share(api.get("/view/server").json())
        assert finding.fault == "starts-refused"
        disk.free = 10 * MB
        health = api.get("/health")
        assert health.status_code == 503
        assert "the disk is full" in health.json()["healthResults"][0]["message"]
        assert api.get("/ready").status_code == 503
        assert api.delete(f"/workflow/{workflow}/remove").status_code == 200, "purge works"
        disk.free = 900 * MB
        assert api.get("/health").status_code == 200
        assert api.post("/workflow/w", json={}).status_code == 200


def test_a_nearly_full_disk_is_logged_once(
    tmp_path: Path, disk: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    space = DiskSpace(str(tmp_path / "a.db"))
    assert space.reserve_bytes == 20 * MB < MAX_RESERVE_BYTES
    disk.free = 150 * MB
    with caplog.at_level(logging.WARNING):
        space.read()
        space.read()
    assert [record.getMessage() for record in caplog.records if "nearly full" in record.getMessage()] != []
    assert len(caplog.records) == 1
    assert "used=85%" in caplog.text
    (finding,) = disk_share({"diskTotalBytes": 1000 * MB, "diskFreeBytes": disk.free, "diskReserveBytes": 20 * MB})
    assert finding.fault == "disk-nearly-full"
    assert not [*disk_share({"diskTotalBytes": 1000 * MB, "diskFreeBytes": 900 * MB, "diskReserveBytes": 1})]


def test_a_file_is_given_up_when_the_disk_is_full_o03(tmp_path: Path, disk: SimpleNamespace) -> None:
    space, file = DiskSpace(str(tmp_path / "a.db")), tmp_path / "a.db-reserve"
    assert not file.exists(), "an empty disk needs no reserve"
    disk.free = 150 * MB
    space.read()
    assert 0 < file.stat().st_size <= MAX_FILE_BYTES
    disk.free = 0
    space.remove_reserve_file()
    assert not file.exists()
    space.read()
    assert not file.exists(), "it is created again only when there is room"


def test_a_database_in_memory_has_no_disk() -> None:
    space = DiskSpace(":memory:")
    space.check_start()
    assert space.find_problem() is None


async def test_all_callers_that_make_the_file_smaller_are_answered(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.db")
    async with asyncio.timeout(60):
        await asyncio.gather(store.vacuum(), store.vacuum(), store.vacuum())
    await asyncio.to_thread(store.close)


async def test_a_caller_that_gives_up_does_not_stop_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()

    def truncate_slowly(_db: object) -> None:
        begun.set()
        go.wait(60)

    monkeypatch.setattr(writer, "truncate_log", truncate_slowly)
    store = Store(tmp_path / "a.db")
    async with asyncio.timeout(120):
        gone = asyncio.ensure_future(store.vacuum())
        await asyncio.to_thread(begun.wait, 60)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        go.set()
        assert await store.write(lambda _tx: "answered") == "answered"
    await asyncio.to_thread(store.close)


async def test_a_vacuum_in_a_repeated_transaction_is_answered_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.db")

    def fail_after_a_change(tx: Tx) -> None:
        tx.run(ADD_LOG, "task", 0, "line")
        raise ApiError(409, "no")

    async with asyncio.timeout(60):
        found = await asyncio.gather(store.vacuum(), store.write(fail_after_a_change), return_exceptions=True)
        assert [type(one) for one in found] == [type(None), ApiError]
        await store.vacuum()
    await asyncio.to_thread(store.close)
