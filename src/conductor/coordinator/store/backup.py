"""A copy of a database, taken while a coordinator writes to it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from conductor.coordinator.store.file import APPLICATION_ID, StoreRefused
from conductor.coordinator.store.sql import STATEMENTS
from conductor.machine import try_lock

#: Files that SQLite and the coordinator keep beside a database.
BESIDE = ("-wal", "-shm", "-journal", "-step")


def back_up(database: Path, copy: Path, *, replace: bool = False) -> int:
    """Copy all that is committed to a new file of our own user's, whole or not at all; its size in bytes.

    Raises:
        StoreRefused: There is no database, or the copy cannot be written there.
    """
    if not database.is_file():
        raise StoreRefused(f"there is no database {database}; name one with --database")
    _check_place(database, copy, replace=replace)
    unfinished = copy.with_name(f"{copy.name}.unfinished-{os.getpid()}")
    try:
        _copy(database, unfinished)
        if replace:
            _remove_beside(copy)
        unfinished.rename(copy)
    except sqlite3.Error as error:
        raise StoreRefused(f"{database} cannot be copied to {copy}: {error}") from error
    except OSError as error:
        raise StoreRefused(f"cannot write {copy}: {error.strerror}; choose another file or make room") from error
    finally:
        _remove_beside(unfinished)
        unfinished.unlink(missing_ok=True)
    return copy.stat().st_size


def _check_place(database: Path, copy: Path, *, replace: bool) -> None:
    if not copy.exists():
        return
    if not copy.is_file():
        raise StoreRefused(f"{copy} is not a file; choose another name")
    if copy.samefile(database):
        raise StoreRefused(f"{copy} is the database itself; choose another name")
    if not replace:
        raise StoreRefused(f"{copy} is there already; choose another name, or replace it with --force")
    with copy.open("rb") as file:
        if not try_lock(file.fileno()):
            raise StoreRefused(f"{copy} is in use by a coordinator; choose another name")


def _copy(database: Path, copy: Path) -> None:
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with contextlib.closing(_source(database)) as source, contextlib.closing(sqlite3.connect(copy)) as target:
        if source.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreRefused(f"{database} is no database of a coordinator; name one with --database")
        # All pages in one read, which does not keep the coordinator from writing. In several it would begin again after
        # each commit, and under load never end.
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, with nothing beside it
        target.execute(STATEMENTS["end use"])
        target.commit()
    with copy.open("rb") as file:
        os.fsync(file.fileno())


def _source(database: Path) -> sqlite3.Connection:
    """The database for reading. A log beside it stays where it is: who was killed finds it at the next start."""
    has_log = Path(f"{database}-wal").exists()
    mode = "ro" if has_log else "rw"  # without a log, SQLite makes one to read; that takes the right to write
    db = sqlite3.connect(f"{database.absolute().as_uri()}?mode={mode}", uri=True, timeout=60)
    db.execute("PRAGMA query_only = 1")
    return db


def _remove_beside(file: Path) -> None:
    for suffix in BESIDE:
        Path(f"{file}{suffix}").unlink(missing_ok=True)
