"""A copy of the coordinator's database, while it runs."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import signal
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.store.sql import SCHEMA_VERSION
from tests.unit.cli.program import CLI, Program


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


def test_a_backup_under_load_has_all_that_was_answered_before_it(
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


def test_a_plain_copy_is_warned_about_and_a_backup_is_not(
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


def test_a_backup_that_cannot_be_read_or_written_is_one_line(cli: Any, place: Path) -> None:
    Coordinator(place / "a.db").start().stop()
    sqlite3.connect(place / "other.db").execute("CREATE TABLE t (x)").connection.close()
    (place / "taken.db").write_text("mine")
    for arguments, said in (
        (("copy.db", "--database", "nobody.db"), "there is no database nobody.db; name one with --database"),
        (("copy.db",), "there is no database"),
        (
            ("taken.db", "--database", "a.db"),
            "taken.db already exists; choose another name, replace it with --force, or keep several with --keep",
        ),
        (("a.db", "--database", "a.db", "--force"), "a.db is the database itself"),
        ((".", "--database", "a.db"), "is not a file"),
        (
            ("nowhere/copy.db", "--database", "a.db"),
            "cannot write nowhere/copy.db: No such file or directory; create the directory or choose another file",
        ),
        (("copy.db", "--database", "other.db"), "other.db is not the database of a coordinator"),
        (("copy.db", "--database", "taken.db"), "taken.db is not a usable database (file is not a database)"),
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


def damage(database: Path, table: str) -> None:
    """Overwrite the first page of a table or index, as a bad disk does."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    with database.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xa5" * 4096)


class TestGoodCopiesStay:
    """A copy is verified before it replaces anything, and older ones are kept."""

    @pytest.mark.parametrize("table", ["task", "workflow_data", "task_ready", "meta"])
    @pytest.mark.parametrize("option", [("--force",), ("--keep", "3")], ids=["force", "keep"])
    def test_a_damaged_database_replaces_no_copy_a15(
        self, cli: Any, place: Path, table: str, option: tuple[str, ...]
    ) -> None:
        Coordinator(place / "a.db").start().stop()
        assert cli("backup", "copy.db", "--database", "a.db").status == 0
        good = (place / "copy.db").read_bytes()
        damage(place / "a.db", table)
        ran = cli("backup", "copy.db", "--database", "a.db", *option)
        assert ran.status == 2
        assert ran.err.count("\n") == 1
        assert "a.db is damaged (" in ran.err
        assert "restore it from a copy" in ran.err
        assert {path.name: path.read_bytes() for path in place.glob("copy.db*")} == {"copy.db": good}

    def test_an_index_that_differs_from_its_table_is_damage_a15(self, cli: Any, place: Path) -> None:
        """Each page alone is in order: only the comparison of the whole file finds it."""
        with Coordinator(place / "a.db") as live:
            define(live.url)
            start(live.url)
        with contextlib.closing(sqlite3.connect(place / "a.db")) as db:
            db.executescript(
                """
                PRAGMA writable_schema = 1;
                CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'workflow_correlated';
                DELETE FROM sqlite_schema WHERE name = 'workflow_correlated';
                """
            )
        with contextlib.closing(sqlite3.connect(place / "a.db")) as db:
            db.executescript(
                """
                UPDATE workflow SET correlation_id = 'changed';
                PRAGMA writable_schema = 1;
                INSERT INTO sqlite_schema SELECT * FROM kept;
                """
            )
        ran = cli("backup", "copy.db", "--database", "a.db")
        assert ran.status == 2
        assert "a.db is damaged (" in ran.err
        assert "workflow_correlated" in ran.err
        assert not (place / "copy.db").exists()

    def test_a_database_without_a_table_is_not_copied_a15(self, cli: Any, place: Path) -> None:
        Coordinator(place / "a.db").start().stop()
        with contextlib.closing(sqlite3.connect(place / "a.db")) as db:
            db.executescript("DROP TABLE schedule_run")
        ran = cli("backup", "copy.db", "--database", "a.db")
        assert ran.status == 2
        assert "a.db is damaged (it has no schedule_run" in ran.err
        assert not (place / "copy.db").exists()

    def test_an_empty_database_beside_a_log_is_not_copied_a15(self, cli: Any, place: Path) -> None:
        (place / "a.db").touch()
        (place / "a.db-wal").write_bytes(bytes(4 << 20))
        ran = cli("backup", "copy.db", "--database", "a.db")
        assert ran.status == 2
        assert "a.db is empty or missing, but a.db-wal holds 4194304 bytes of commits" in ran.err
        assert (place / "a.db-wal").stat().st_size == 4 << 20

    def test_a_copy_is_not_put_beside_the_log_of_a_database_that_is_gone_a15(self, cli: Any, place: Path) -> None:
        Coordinator(place / "a.db").start().stop()
        (place / "copy.db-wal").write_bytes(bytes(4096))
        ran = cli("backup", "copy.db", "--database", "a.db")
        assert ran.status == 2
        assert "copy.db-wal holds 4096 bytes of commits" in ran.err
        assert (place / "copy.db-wal").stat().st_size == 4096

    def test_backup_with_keep_leaves_the_newest_copies_a15(self, cli: Any, place: Path) -> None:
        started: list[str] = []
        with Coordinator(place / "live.db") as live:
            define(live.url)
            for _ in range(5):
                started.append(start(live.url))
                assert cli("backup", "copy.db", "--database", "live.db", "--keep", "3").status == 0
        names = ["copy.db", "copy.db.1", "copy.db.2"]
        assert sorted(path.name for path in place.glob("copy.db*")) == names
        for name, newest in zip(names, (5, 4, 3), strict=True):
            with contextlib.closing(sqlite3.connect(place / name)) as db:
                assert db.execute("SELECT count(*) FROM workflow").fetchone()[0] == newest
        assert cli("backup", "copy.db", "--database", "live.db", "--keep", "1").status == 0
        assert [path.name for path in place.glob("copy.db*")] == ["copy.db"]

    def test_an_older_copy_can_be_served_a15(self, cli: Any, place: Path) -> None:
        with Coordinator(place / "live.db") as live:
            define(live.url)
            workflow = start(live.url)
            for _ in range(2):
                assert cli("backup", "copy.db", "--database", "live.db", "--keep", "2").status == 0
        with Coordinator(place / "copy.db.1") as restored:
            assert has(restored.url, workflow)

    def test_a_file_of_an_older_schema_is_copied_as_it_is_a15(self, cli: Any, place: Path) -> None:
        Coordinator(place / "a.db").start().stop()
        with contextlib.closing(sqlite3.connect(place / "a.db")) as db:
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
        assert cli("backup", "copy.db", "--database", "a.db").status == 0
        with contextlib.closing(sqlite3.connect(place / "copy.db")) as db:
            assert db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION - 1

    @pytest.mark.parametrize("number", ["0", "-1", "many"])
    def test_a_number_of_copies_that_cannot_be_meant_is_one_line_a15(self, cli: Any, number: str) -> None:
        ran = cli("backup", "copy.db", "--keep", number)
        assert ran.status == 2
        assert "--keep" in ran.err


def test_backups_are_repeated_until_the_program_is_stopped(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "live.db") as live:
        define(live.url)
        command = [*CLI, "backup", "--every", "1s", "--keep", "2", "--to", "copies", "--database", "live.db"]
        with Program(command, tmp_path) as program:
            for _ in range(3):
                program.line_with("Copied")
            (tmp_path / "copies" / "live.db").unlink()
            (tmp_path / "copies" / "live.db").mkdir()
            program.line_with("is not a file")
            (tmp_path / "copies" / "live.db").rmdir()
            program.line_with("Copied")
            program.send(signal.SIGTERM)
            assert program.wait() == 0
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == ["live.db", "live.db.1"]


def test_a_backup_has_one_target(cli: Any) -> None:
    assert "either a FILE" in cli("backup").err
    assert "either a FILE" in cli("backup", "a.db", "--to", "copies").err
    assert "is not a duration" in cli("backup", "--to", "copies", "--every", "often").err


def test_a_backup_copies_the_file_of_the_server_that_it_talks_to_or_refuses_u1_10(
    cli: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    default = place / "state" / "conductor-worker" / "coordinator.db"
    default.parent.mkdir(parents=True)
    with Coordinator(default) as other:
        define(other.url)
    with Coordinator("shop.db") as live:  # a relative path, as in `serve --database shop.db`
        monkeypatch.setenv("CONDUCTOR_SERVER_URL", live.url)
        define(live.url)
        started = start(live.url)
        ran = cli("backup", "copy.db")
        named = cli("backup", "other.db", "--database", str(default))
    assert ran.status == named.status == 0
    assert f"Copied {place / 'shop.db'} to {place / 'copy.db'}" in ran.out
    with Coordinator(place / "copy.db") as restored:
        assert has(restored.url, started)
    with Coordinator() as memory:
        refused = cli("backup", "memory.db", "--url", memory.url)
    assert refused.status == 2
    assert "name the file to copy with --database" in refused.err
    assert not (place / "memory.db").exists()
    gone = cli("backup", "default.db", "--url", "http://127.0.0.1:1/api")
    assert gone.status == 0, "without a server, the default file is copied"
    assert f"Copied {default} to" in gone.out
