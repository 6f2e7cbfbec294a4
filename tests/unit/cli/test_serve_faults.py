"""`conductor-worker serve` refuses an unusable database with one line and status 2, and does not change the file."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.store import database_file
from conductor.coordinator.store.database_file import StoreRefused
from conductor.coordinator.store.sql import SCHEMA_VERSION
from tests.unit.cli.program import CLI, DEADLINE_S

PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that was closed."""
    path = tmp_path_factory.mktemp("good") / "good.db"
    Coordinator(path).start().stop()
    return path


def refused(database: Path) -> str:
    """Start a coordinator on this file, which it refuses; return the line that says why."""
    with pytest.raises(StoreRefused) as caught:
        Coordinator(database).start()
    said = str(caught.value)
    assert "\n" not in said
    assert str(database) in said
    return said


def refused_by_serve(database: Path) -> str:
    """Run the command as a process. Return its error."""
    ran = subprocess.run(
        [*CLI, "serve", "--port", "0", "--database", str(database)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert str(database) in ran.stderr
    return ran.stderr


def damage(database: Path, page: int) -> None:
    """Overwrite a page, as a bad disk does."""
    with database.open("r+b") as open_file:
        open_file.seek((page - 1) * PAGE_BYTES)
        open_file.write(b"\xa5" * PAGE_BYTES)


def root_page(database: Path, table: str) -> int:
    with contextlib.closing(sqlite3.connect(database)) as db:
        found: int = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    return found


class TestFilesThatCannotBeServed:
    @pytest.mark.parametrize("there", [True, False], ids=["empty", "missing"])
    def test_a_log_without_its_database_is_kept_a12(self, tmp_path: Path, there: bool) -> None:
        database, log = tmp_path / "a.db", tmp_path / "a.db-wal"
        if there:
            database.touch(0o600)
        log.write_bytes(b"\x37\x7f\x06\x82" + bytes(4 << 20))
        before = log.read_bytes()
        said = refused(database) if there else refused_by_serve(database)
        assert f"{database} is empty or missing, but {log} holds {len(before)} bytes of commits" in said
        assert "restore the database from a copy" in said
        assert log.read_bytes() == before
        assert database.exists() == there

    def test_a_database_with_a_damaged_page_is_not_served_a12(self, good: Path, tmp_path: Path) -> None:
        database = Path(shutil.copy(good, tmp_path / "a.db"))
        damage(database, root_page(database, "task"))
        before = database.read_bytes()
        assert "restore it from a copy" in refused(database)
        assert database.read_bytes() == before

    def test_a_truncated_database_is_not_served_a12(self, good: Path, tmp_path: Path) -> None:
        database = Path(shutil.copy(good, tmp_path / "a.db"))
        os.truncate(database, 5 * PAGE_BYTES)
        before = database.read_bytes()
        assert "restore it from a copy" in refused(database)
        assert database.read_bytes() == before

    def test_a_database_without_a_table_is_not_served_a12(self, good: Path, tmp_path: Path) -> None:
        database = Path(shutil.copy(good, tmp_path / "a.db"))
        with contextlib.closing(sqlite3.connect(database)) as db:
            db.executescript("DROP TABLE schedule_run")
        said = refused(database)
        assert "is damaged (it has no schedule_run" in said
        assert "restore it from a copy" in said

    def test_a_file_of_a_newer_release_a12(self, good: Path, tmp_path: Path) -> None:
        database = Path(shutil.copy(good, tmp_path / "a.db"))
        with contextlib.closing(sqlite3.connect(database)) as db:
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        before = database.read_bytes()
        said = refused(database)
        assert "was written by a newer release" in said
        assert "upgrade" in said
        assert database.read_bytes() == before

    def test_a_file_of_another_program_a12(self, tmp_path: Path) -> None:
        database = tmp_path / "a.db"
        database.touch(0o600)
        database.write_text("this is not a database, but a letter to a friend\n" * 100)
        before = database.read_bytes()
        assert "not a usable database" in refused(database)
        assert database.read_bytes() == before

    def test_a_directory_is_not_served_a12(self, tmp_path: Path) -> None:
        assert "is a directory" in refused_by_serve(tmp_path)

    def test_a_directory_that_does_not_exist_a12(self, tmp_path: Path) -> None:
        said = refused(tmp_path / "nowhere" / "a.db")
        assert "No such file or directory; create the directory or choose another file" in said

    @pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
    def test_a_file_that_cannot_be_read_a12(self, good: Path, tmp_path: Path) -> None:
        database = Path(shutil.copy(good, tmp_path / "a.db"))
        database.chmod(0)
        assert "Permission denied; choose a file that can be written" in refused(database)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root can write to every directory")
    def test_a_directory_that_cannot_be_written_a12(self, good: Path, tmp_path: Path) -> None:
        database = Path(shutil.copy(good, tmp_path / "a.db"))
        tmp_path.chmod(0o500)
        try:
            assert "choose a directory that can be written" in refused(database)
        finally:
            tmp_path.chmod(0o700)


class TestLargeFiles:
    """A large file is not read at start, so damage is met later: while the coordinator starts."""

    @pytest.mark.parametrize("table", ["meta", "suspect", "secret"])
    def test_damage_that_is_met_while_starting_a12(
        self, good: Path, tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database_file, "CHECKED_AT_START_BYTES", 0)
        database = Path(shutil.copy(good, tmp_path / "a.db"))
        damage(database, root_page(database, table))
        with pytest.raises(StoreRefused, match=r"a\.db is damaged .*; restore it from a copy or choose another file"):
            Coordinator(database).start()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = os.geteuid() == 0 and shutil.which("mount") is not None
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if not mounted or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user cannot mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path, pages_left: int) -> None:
    free = os.statvfs(disk)
    (disk / "fill").write_bytes(bytes((free.f_bavail - pages_left) * free.f_frsize))


class TestDisksWithoutRoom:
    @pytest.mark.parametrize("pages_left", [0, 1, 9])
    def test_a_full_disk_beside_a_database_a12(self, good: Path, small_disk: Path, pages_left: int) -> None:
        database = Path(shutil.copy(good, small_disk / "a.db"))
        fill(small_disk, pages_left)
        before = database.read_bytes()
        assert "room" in (refused_by_serve(database) if pages_left == 9 else refused(database))
        assert database.read_bytes() == before

    @pytest.mark.parametrize("pages_left", [0, 1, 20])
    def test_a_full_disk_for_a_new_database_a12(self, small_disk: Path, pages_left: int) -> None:
        fill(small_disk, pages_left)
        assert "room" in refused(small_disk / "a.db")

    def test_a_read_only_file_system_a12(self, good: Path, small_disk: Path) -> None:
        database = Path(shutil.copy(good, small_disk / "a.db"))
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        assert "Read-only file system; choose a file that can be written" in refused(database)

    @pytest.mark.parametrize("pages", range(1, 60, 10))
    def test_a_database_that_may_not_grow_a12(
        self, tmp_path: Path, pages: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A full disk without a mount: SQLite itself reports it after a number of pages."""
        connect: Any = sqlite3.connect

        def connect_to_full_disk(*arguments: Any, **options: Any) -> sqlite3.Connection:
            db: sqlite3.Connection = connect(*arguments, **options)
            db.execute(f"PRAGMA max_page_count = {pages}")
            return db

        # The file alone, not the schema that `check` makes in memory.
        monkeypatch.setattr(database_file, "_schema_names", frozenset)
        monkeypatch.setattr(sqlite3, "connect", connect_to_full_disk)
        try:
            Coordinator(tmp_path / "a.db").start().stop()
        except StoreRefused as error:
            assert str(error).endswith("make room on its disk")
            assert "a.db cannot be written (database or disk is full)" in str(error)
        else:
            assert pages > 30


def test_every_fault_of_sqlite_is_a_sentence_with_the_file_and_what_to_do_a12() -> None:
    for name in ("FULL", "IOERR", "READONLY", "CANTOPEN", "BUSY", "CORRUPT", "NOTADB", "ERROR"):
        error = sqlite3.OperationalError("as SQLite says")
        error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{name}") | (3 << 8)
        said = str(database_file.refusal("a.db", error))
        assert said.startswith("a.db ")
        assert "(as SQLite says); " in said
