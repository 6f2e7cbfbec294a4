"""Litestream as a child of the coordinator, with the real program."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from conductor.common.clock import SYSTEM_CLOCK
from conductor.common.machine import try_lock
from conductor.coordinator import Coordinator
from conductor.coordinator.core import Core
from conductor.coordinator.replication import replicator
from conductor.coordinator.replication.litestream import find_program
from conductor.coordinator.replication.restore import restore
from conductor.coordinator.store.database_file import StoreRefused
from conductor.coordinator.store.writer import Store
from conductor.protocol.views import ReplicationState
from tests.unit.cli.program import CLI, Program, url_in
from tests.unit.coordinator.replication.replica_fixture import (
    PATIENCE_S,
    call,
    define,
    needs_litestream,
    places,
    replication,
    start,
    until,
    until_replicated,
)
from tests.unit.recipes.recipes import DEPLOY

pytestmark = pytest.mark.xdist_group("replication")


def litestream_of(pid: int) -> psutil.Process:
    def found() -> list[psutil.Process]:
        children = psutil.Process(pid).children(recursive=True)
        return [child for child in children if child.name() == "litestream"]

    until(lambda: bool(found()))
    return found()[0]


def serve(place: Path, *options: str) -> Program:
    return Program([*CLI, "serve", "--port", "0", "--database", "a.db", "--replicate", "replica", *options], place)


@needs_litestream
def test_the_state_of_the_replica_is_in_health_metrics_and_the_server_view(tmp_path: Path) -> None:
    database, replica = tmp_path / "a.db", tmp_path / "replica"
    with Coordinator(database, replicate=str(replica)) as coordinator:
        define(coordinator.url)
        start(coordinator.url)
        until_replicated(database)
        state = replication(coordinator.url)
        assert state["running"]
        assert state["lastError"] is None
        assert state["bytes"] > 0
        assert "url" not in state, "health needs no token"
        assert call(coordinator.url, "GET", "/view/server")["replication"]["url"] == f"file://{replica}/000001"
        metrics = call(coordinator.url.removesuffix("/api"), "GET", "/metrics")
        assert "coordinator_replication_running 1.0" in metrics
        assert "coordinator_replication_lag_seconds" in metrics
    configuration = tmp_path / "a.db-replication" / "litestream.yml"
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o600
    assert json.loads(configuration.read_text())["dbs"][0]["path"] == str(database)


@needs_litestream
def test_each_start_gets_a_place_of_its_own(tmp_path: Path) -> None:
    replica = tmp_path / "replica"
    for number in (1, 2):
        with Coordinator(tmp_path / "a.db", replicate=str(replica)):
            assert places(replica) == ["000001", "000002"][:number]
    # A copy of the file knows the number of the last place, and does not use a place that is taken.
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    with (
        Coordinator(tmp_path / "a.db", replicate=str(replica)) as one,
        Coordinator(tmp_path / "b.db", replicate=str(replica)) as two,
    ):
        urls = [call(server.url, "GET", "/view/server")["replication"]["url"] for server in (one, two)]
    assert urls == [f"file://{replica}/000003", f"file://{replica}/000004"]


@needs_litestream
def test_a_place_without_a_copy_is_used_again_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an object store. Otherwise a coordinator that ends again and again would leave a gap for `restore`."""
    used: set[str] = set()
    monkeypatch.setattr(replicator, "has_files", lambda _program, place: place.url in used)

    def place_of(database: str) -> str:
        with Coordinator(tmp_path / database, replicate="s3://bucket/x?endpoint=127.0.0.1:1") as coordinator:
            until((tmp_path / f"{database}-replication" / "litestream.yml").exists)
            url = call(coordinator.url, "GET", "/view/server")["replication"]["url"]
        with (tmp_path / f"{database}-replication" / "lock").open() as lock:
            until(lambda: try_lock(lock.fileno()))  # the shell that stops Litestream ends after it
        return str(url).partition("?")[0].rpartition("/")[2]

    assert [place_of("a.db"), place_of("a.db")] == ["000001", "000001"]
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    assert place_of("b.db") == "000002", "the coordinator of the other machine may be running"
    used.add("s3://bucket/x/000001?endpoint=127.0.0.1:1")
    assert place_of("a.db") == "000002"


@needs_litestream
def test_an_old_coordinator_that_starts_after_a_takeover_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, url = tmp_path / "first.db", tmp_path / "second.db", str(tmp_path / "replica")
    with Coordinator(first, replicate=url):
        until_replicated(first)
    restore(url, second)
    with Coordinator(second, replicate=url):
        until_replicated(second)
    assert "Another coordinator" not in caplog.text
    with Coordinator(first, replicate=url):
        until_replicated(first)
    assert "Another coordinator of this database has made a replica" in caplog.text
    assert f"{url}/000002" in caplog.text


@needs_litestream
def test_two_databases_cannot_share_a_url(tmp_path: Path) -> None:
    replica = str(tmp_path / "replica")
    with Coordinator(tmp_path / "a.db", replicate=replica):
        pass
    with pytest.raises(StoreRefused, match="already has replicas of another database"):
        Coordinator(tmp_path / "b.db", replicate=replica).start()
    (tmp_path / "replica" / "000001").rename(tmp_path / "replica" / "000002")  # the first replica was deleted
    with pytest.raises(StoreRefused, match="already has replicas of another database"):
        Coordinator(tmp_path / "b.db", replicate=replica).start()
    assert places(tmp_path / "replica") == ["000002"]


@needs_litestream
def test_litestream_is_started_again_and_ends_with_the_coordinator(tmp_path: Path) -> None:
    with serve(tmp_path) as program:
        url = url_in(program.line_with("Coordinator at"))
        assert program.line_with("Replica: ").endswith("/replica/000001")
        first = litestream_of(program.pid)
        first.kill()
        until(lambda: replication(url)["lastError"] is not None)
        until(lambda: litestream_of(program.pid).pid != first.pid)
        until_replicated(tmp_path / "a.db")
        until(lambda: replication(url)["lastError"] is None)
        assert replication(url)["restarts"] == 1, "the error is dropped, the count is not"
        second = litestream_of(program.pid)
        program.send(signal.SIGKILL)
        program.wait()
        second.wait(60)
    with serve(tmp_path) as program:
        url = url_in(program.line_with("Coordinator at"))
        until_replicated(tmp_path / "a.db")
        child = litestream_of(program.pid)
        program.send(signal.SIGTERM)
        assert program.wait() == 0
        child.wait(60)
    assert places(tmp_path / "replica") == ["000001", "000002"]


def count_log_pages(database: Path) -> int:
    """Return the number of valid pages in the write-ahead log."""
    return int.from_bytes(Path(f"{database}-shm").read_bytes()[16:20], sys.byteorder)


@needs_litestream
def test_changes_during_a_pause_of_litestream_are_in_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite may begin its log again in the pause. Litestream then misses pages if it continues its replica."""
    go_on, lock_directory = threading.Event(), replicator.Replicator._lock_directory

    def lock_later(self: replicator.Replicator) -> int | None:
        go_on.wait(PATIENCE_S)
        return lock_directory(self)

    database, replica = tmp_path / "a.db", tmp_path / "replica"
    with Coordinator(database, replicate=str(replica)) as coordinator:
        define(coordinator.url)
        while count_log_pages(database) < 500:
            start(coordinator.url)
        until_replicated(database)
        monkeypatch.setattr(replicator.Replicator, "_lock_directory", lock_later)
        litestream_of(os.getpid()).kill()
        while count_log_pages(database) >= 500:
            start(coordinator.url)
        go_on.set()
        until(lambda: replication(coordinator.url)["restarts"] == 1)
        until_replicated(database)
        started = call(coordinator.url, "GET", "/workflow/search?size=0")["totalHits"]
    restored = restore(str(replica), tmp_path / "restored.db")
    assert restored.state.running_workflows == started


def test_a_litestream_that_ends_at_once_uses_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicator, "FIRST_BACKOFF_S", 0.01)
    program = tmp_path / "litestream"
    program.write_text("#!/bin/sh\necho v0.5.17\n")
    program.chmod(0o700)
    monkeypatch.setenv("CONDUCTOR_LITESTREAM", str(program))
    with Coordinator(tmp_path / "a.db", replicate=str(tmp_path / "replica")) as coordinator:
        until(lambda: replication(coordinator.url)["restarts"] >= 3)
    assert places(tmp_path / "replica") == ["000001"]


@needs_litestream
def test_the_directory_of_a_replica_may_have_spaces(tmp_path: Path) -> None:
    database, replica = tmp_path / "a.db", tmp_path / "my replica"
    with Coordinator(database, replicate=str(replica)):
        until_replicated(database)
    assert (replica / "000001" / "ltx").is_dir()
    restore(f"file://{replica}", tmp_path / "b.db")


@needs_litestream
def test_the_unit_of_a_litestream_of_its_own_begins_a_new_replica_at_each_start(tmp_path: Path) -> None:
    recipe, configuration = DEPLOY / "litestream", tmp_path / "litestream.yml"
    # The paths are relative, because the commands of the unit do not quote spaces in absolute ones.
    (tmp_path / "litestream").symlink_to(find_program())
    moved = {
        "/var/lib/conductor": ".",
        "/etc/litestream.yml": configuration.name,
        "/usr/bin/litestream": "./litestream",
        "url: s3://my-bucket/conductor": "type: file\n      path: ./replica",
        "%%": "%",
    }

    def move(text: str) -> str:
        return functools.reduce(lambda moving, names: moving.replace(*names), moved.items(), text)

    configuration.write_text(move((recipe / "litestream.yml").read_text()))
    unit = move((recipe / "conductor-litestream.service").read_text())
    prepare, run = (shlex.split(re.findall(rf"^{name}=(.*)$", unit, re.M)[0]) for name in ("ExecStartPre", "ExecStart"))
    with Coordinator(tmp_path / "coordinator.db") as coordinator:
        define(coordinator.url)
        for count in (1, 2):
            started = start(coordinator.url)
            subprocess.run(prepare, check=True, cwd=tmp_path)
            with subprocess.Popen(run, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as program:
                try:
                    until(lambda: len(list(tmp_path.glob("replica/*/ltx/0/*.ltx"))) >= count)  # noqa: B023 - called here
                finally:
                    program.kill()
            newest = max((tmp_path / "replica").iterdir())
            restored = restore(str(newest), tmp_path / f"{count}.db")
            assert restored.state.running_workflows == count, started
            until(lambda: str(int(time.time())) != newest.name)  # noqa: B023 - called here
    assert len(places(tmp_path / "replica")) == 2


@needs_litestream
def test_a_stop_right_after_the_start_of_litestream_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The pipe that tells Litestream to end is closed before the coordinator reads its messages."""
    start_process = subprocess.Popen

    def start_and_stop(*args: Any, **options: Any) -> Any:
        process: Any = start_process(*args, **options)
        if "stdin" in options:
            process.stdin.close()
        return process

    monkeypatch.setattr(replicator, "FIRST_BACKOFF_S", 0.01)
    monkeypatch.setattr(subprocess, "Popen", start_and_stop)
    with Coordinator(tmp_path / "a.db", replicate=str(tmp_path / "replica")) as coordinator:
        until(lambda: replication(coordinator.url)["restarts"] >= 2)
    assert "Litestream ended with status" in caplog.text
    assert "Traceback" not in caplog.text


async def test_concurrent_callers_share_one_reading_of_the_state(tmp_path: Path) -> None:
    """A Litestream that hangs must not hold a thread for each request to `/health`."""
    go_on, readings = threading.Event(), []

    def read_state() -> ReplicationState:
        readings.append(threading.current_thread())
        assert go_on.wait(60)
        return state

    state = ReplicationState(url="u", running=True, lag_s=0.0, last_sync_ms=None, last_error=None, bytes=0, restarts=0)
    with contextlib.closing(Store(tmp_path / "a.db")) as store:
        core = Core(store, SYSTEM_CLOCK, replicator=mock.Mock(read_state=read_state))
        callers = [asyncio.create_task(core.read_replication()) for _ in range(50)]
        await asyncio.sleep(0)
        callers[0].cancel()
        go_on.set()
        assert await asyncio.gather(*callers[1:]) == [state] * 49
        assert len(readings) == 1
        assert await core.read_replication() is state
        assert len(readings) == 2, "a later caller gets a new one"


@needs_litestream
def test_a_replica_whose_directory_has_disappeared_is_an_error(tmp_path: Path) -> None:
    with serve(tmp_path) as program:
        url = url_in(program.line_with("Coordinator at"))
        until_replicated(tmp_path / "a.db")
        assert replication(url)["lastError"] is None
        (tmp_path / "replica").rename(tmp_path / "elsewhere")
        define(url)  # Litestream copies only what is new, into a new directory
        assert "have disappeared" in replication(url)["lastError"]
        shutil.rmtree(tmp_path / "replica", ignore_errors=True)
        (tmp_path / "elsewhere").rename(tmp_path / "replica")
        until(lambda: replication(url)["lastError"] is None)


@needs_litestream
def test_a_password_of_the_url_is_not_in_the_process_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_REPLICATE", "sftp://me:topsecret@127.0.0.1:1/replica")
    command = [*CLI, "serve", "--port", "0", "--database", "a.db"]
    with Program(command, tmp_path) as program:
        url = url_in(program.line_with("Coordinator at"))
        until(lambda: replication(url)["lastError"] is not None)
        lines = [" ".join(child.cmdline()) for child in psutil.Process(program.pid).children(recursive=True)]
        assert call(url, "GET", "/view/server")["replication"]["url"] == "sftp://me:***@127.0.0.1:1/replica"
        shown = json.dumps([replication(url), lines])
        define(url)
        start(url)  # the coordinator works without its replica
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert "Replication failed" in program.output
    assert "Replica: sftp://me:***@127.0.0.1:1/replica" in program.output
    assert "topsecret" not in shown + program.output


def test_a_missing_program_is_an_error_that_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_LITESTREAM", str(tmp_path / "nothing"))
    with pytest.raises(StoreRefused, match=r"is not a program, .*install Litestream"):
        find_program()
    monkeypatch.delenv("CONDUCTOR_LITESTREAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(StoreRefused, match="litestream is not installed"):
        Coordinator(tmp_path / "a.db", replicate="r").start()
    assert not (tmp_path / "a.db").exists()


def test_an_old_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "litestream"
    old.write_text("#!/bin/sh\necho v0.3.13\n")
    old.chmod(0o700)
    monkeypatch.setenv("CONDUCTOR_LITESTREAM", str(old))
    with pytest.raises(StoreRefused, match=r"is version 0\.3, which is too old"):
        find_program()


@needs_litestream
def test_a_replica_that_cannot_be_written_is_reported_until_it_can_be(tmp_path: Path) -> None:
    replica = tmp_path / "replica"
    with Coordinator(tmp_path / "a.db", replicate=str(replica)) as coordinator:
        define(coordinator.url)
        until_replicated(tmp_path / "a.db")
        place, away = replica / "000001", replica / "away"
        place.rename(away)
        place.write_bytes(b"not a directory")
        start(coordinator.url)
        until(lambda: replication(coordinator.url)["lastError"] is not None)
        assert call(coordinator.url, "GET", "/health")["healthy"], "the coordinator works without its replica"
        lagging = replication(coordinator.url)["lagS"]
        until(lambda: replication(coordinator.url)["lagS"] > lagging)
        place.unlink()
        away.rename(place)
        start(coordinator.url)
        until(lambda: replication(coordinator.url)["lastError"] is None)
        until_replicated(tmp_path / "a.db")


@needs_litestream
@pytest.mark.parametrize("url", ["/proc/nothing/replica", "/dev/null/replica"])
def test_a_directory_that_cannot_be_written_stops_the_start(tmp_path: Path, url: str) -> None:
    with pytest.raises(StoreRefused, match="choose a directory that can be written"):
        Coordinator(tmp_path / "a.db", replicate=url).start()


@needs_litestream
def test_a_full_disk_of_the_replica_does_not_stop_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch, full = Path.touch, threading.Event()

    def touch_on_full_disk(path: Path, *args: Any, **options: Any) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        touch(path, *args, **options)

    full.set()
    monkeypatch.setattr(Path, "touch", touch_on_full_disk)
    with Coordinator(tmp_path / "a.db", replicate=str(tmp_path / "replica")) as coordinator:
        define(coordinator.url)
        assert "No space left" in replication(coordinator.url)["lastError"]
        full.clear()
        until(lambda: replication(coordinator.url)["lastError"] is None)
        until_replicated(tmp_path / "a.db")
    assert places(tmp_path / "replica") == ["000001"]


def test_a_start_does_not_wait_for_a_reader_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that a reader such as Litestream prevents would otherwise wait for the busy timeout."""
    with Coordinator(tmp_path / "a.db") as coordinator:
        define(coordinator.url)
    statements: list[str] = []
    connect = sqlite3.connect

    def connect_and_watch(*args: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*args, **options)
        db.set_trace_callback(statements.append)
        return db

    with contextlib.closing(connect(tmp_path / "a.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchone()
        monkeypatch.setattr(sqlite3, "connect", connect_and_watch)
        with Coordinator(tmp_path / "a.db") as coordinator:
            start(coordinator.url)
    checkpoint = statements.index("PRAGMA wal_checkpoint(TRUNCATE)")
    assert statements[checkpoint - 1] == "PRAGMA busy_timeout = 0"
    assert statements[checkpoint + 1] == "PRAGMA busy_timeout = 5000"


def test_memory_cannot_be_replicated() -> None:
    with pytest.raises(StoreRefused, match=r"in memory|not installed"):
        Coordinator(":memory:", replicate="replica").start()
