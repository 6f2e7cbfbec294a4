"""A copy of the coordinator's database, while it runs."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from conductor.coordinator import Coordinator


def start(url: str) -> str:
    request = Request(f"{url}/workflow/w", b"{}", {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def define(url: str) -> None:
    definition = {"name": "w", "tasks": [{"name": "t", "taskReferenceName": "t", "type": "SIMPLE"}]}
    request = Request(f"{url}/metadata/workflow", json.dumps(definition).encode(), {"Content-Type": "application/json"})
    urlopen(request, timeout=60).close()


def has(url: str, workflow_id: str) -> bool:
    with urlopen(f"{url}/workflow/{workflow_id}", timeout=60) as answer:
        return bool(answer.status == 200)


def test_n13_a_backup_under_load_has_all_that_was_answered_before_it(
    cli: Any, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = threading.Event()
    started: list[str] = []

    def load(url: str) -> None:
        while not done.is_set():
            started.append(start(url))

    with Coordinator(place / "live.db") as live:
        define(live.url)
        before = [start(live.url) for _ in range(30)]
        beside = threading.Thread(target=load, args=(live.url,))
        beside.start()
        try:
            ran = cli("backup", "copy.db", "--database", "live.db")
            before_the_second = [*started]
            again = cli("backup", "copy.db", "--database", "live.db", "--force")
        finally:
            done.set()
            beside.join()
        assert start(live.url), "the coordinator goes on"
    assert (ran.status, again.status) == (0, 0), ran.err + again.err
    copy = place / "copy.db"
    assert f"Copied live.db to {copy}: {copy.stat().st_size} bytes" in again.out
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(path.name for path in place.glob("copy.db*")) == ["copy.db"], "one file, and nothing beside it"
    with caplog.at_level(logging.WARNING), Coordinator(copy) as restored:
        assert all(has(restored.url, one) for one in [*before, *before_the_second])
    assert "copied while it was in use" not in caplog.text


def test_n13_a_plain_copy_is_warned_about_and_a_backup_is_not(
    cli: Any, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Coordinator(place / "live.db") as live:
        define(live.url)
        shutil.copy(place / "live.db", place / "plain.db")
        assert cli("backup", "copy.db", "--database", "live.db").status == 0
    with caplog.at_level(logging.WARNING):
        with Coordinator(place / "copy.db"):
            assert "copied" not in caplog.text
        with Coordinator(place / "plain.db"):
            assert "conductor-worker backup" in caplog.text


def test_a_file_that_nobody_serves_can_be_copied_and_is_left_as_it_was(cli: Any, place: Path) -> None:
    with Coordinator(place / "closed.db") as live:
        define(live.url)
        workflow = start(live.url)
    before = (place / "closed.db").read_bytes()
    assert cli("backup", "copy.db", "--database", "closed.db").status == 0
    assert (place / "closed.db").read_bytes() == before
    with Coordinator(place / "copy.db") as restored:
        assert has(restored.url, workflow)


def test_the_log_of_one_that_was_killed_stays_with_it(cli: Any, place: Path) -> None:
    with Coordinator(place / "live.db") as live:
        define(live.url)
        workflow = start(live.url)
        for suffix in ("", "-wal", "-shm"):  # as `kill -9` leaves it
            shutil.copy(place / f"live.db{suffix}", place / f"killed.db{suffix}")
    assert cli("backup", "copy.db", "--database", "killed.db").status == 0
    assert (place / "killed.db-wal").stat().st_size > 0
    for name in ("copy.db", "killed.db"):
        with Coordinator(place / name) as restored:
            assert has(restored.url, workflow)


def test_what_cannot_be_copied_or_written_is_one_line(cli: Any, place: Path) -> None:
    Coordinator(place / "a.db").start().stop()
    sqlite3.connect(place / "other.db").execute("CREATE TABLE t (x)").connection.close()
    (place / "taken.db").write_text("mine")
    for arguments, said in (
        (("copy.db", "--database", "nobody.db"), "there is no database nobody.db; name one with --database"),
        (("copy.db",), "there is no database"),
        (
            ("taken.db", "--database", "a.db"),
            "taken.db is there already; choose another name, or replace it with --force",
        ),
        (("a.db", "--database", "a.db", "--force"), "a.db is the database itself"),
        ((".", "--database", "a.db"), "is not a file"),
        (("nowhere/copy.db", "--database", "a.db"), "cannot write nowhere/copy.db: No such file or directory"),
        (("copy.db", "--database", "other.db"), "other.db is no database of a coordinator"),
        (("copy.db", "--database", "taken.db"), "taken.db cannot be copied to copy.db: file is not a database"),
    ):
        ran = cli("backup", *arguments)
        assert ran.status == 2, arguments
        assert said in ran.err
    assert (place / "taken.db").read_text() == "mine"
    assert not list(place.glob("*unfinished*")) + list(place.glob("copy.db*"))


def test_a_file_that_is_served_is_not_replaced(cli: Any, place: Path) -> None:
    Coordinator(place / "a.db").start().stop()
    with Coordinator(place / "live.db"):
        ran = cli("backup", "live.db", "--database", "a.db", "--force")
    assert ran.status == 2
    assert "live.db is in use by a coordinator" in ran.err
