"""Copies a database while a coordinator writes to it, verifies the copy, and keeps older copies."""

from __future__ import annotations

import contextlib
import errno
import glob
import logging
import os
import sqlite3
import time
from pathlib import Path

from conductor.common.machine import try_lock
from conductor.coordinator.store.database_file import APPLICATION_ID, StoreRefused, check, refusal, refuse_emptied
from conductor.coordinator.store.statements import END_USE

logger = logging.getLogger(__name__)

#: The suffix of the file with the time of the last backup.
BACKUP_TIME_SUFFIX = "-backup"
#: The suffixes of the files that SQLite and the coordinator create next to a database.
SIDE_FILE_SUFFIXES = ("-wal", "-shm", "-journal", "-step", "-reserve")


def back_up(database: Path, copy: Path, *, replace: bool = False, keep: int | None = None) -> int:
    """Copy all committed data to a new file that only the current user can read.

    The copy is verified before it replaces anything: it must pass SQLite's integrity check, and a coordinator of this
    release must be able to serve it. If the check fails, all older copies stay as they are.

    Args:
        database: The file to copy. A coordinator may be serving it.
        copy: The file to create.
        replace: Replace an existing file.
        keep: Keep this many copies. Older copies are renamed to `<copy>.1`, `<copy>.2` and so on.

    Returns:
        The size of the copy in bytes.

    Raises:
        StoreRefused: There is no usable database, or the copy cannot be written.
    """
    began_s = time.time()
    refuse_emptied(str(database))
    if not database.is_file():
        raise StoreRefused(f"there is no database {database}; name one with --database")
    _check_target(database, copy, replace=replace or keep is not None)
    unfinished = copy.with_name(f"{copy.name}.unfinished-{os.getpid()}")
    lock: int | None = None
    try:
        _remove_unfinished(copy)
        # The handle stays open until SQLite has closed the copy, because closing it would release SQLite's own locks.
        lock = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try_lock(lock)
        _copy(database, unfinished)
        _verify(database, unfinished)
        if keep is not None:
            _shift_copies(copy, keep)
        _remove_side_files(copy)
        unfinished.rename(copy)
        if keep is not None:
            _remove_old(copy, keep)
    except sqlite3.Error as error:
        raise _refusal(database, copy, error) from error
    except OSError as error:
        todo = "create the directory" if error.errno == errno.ENOENT else "make room"
        raise StoreRefused(f"cannot write {copy}: {error.strerror}; {todo} or choose another file") from error
    finally:
        _remove_side_files(unfinished)
        unfinished.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)
    _write_backup_time(database, began_s)
    return copy.stat().st_size


def read_backup_time(database: Path) -> float | None:
    """Return when the last backup of a database began, in seconds since 1970; None if there is no record of one."""
    try:
        return float(Path(f"{database}{BACKUP_TIME_SUFFIX}").read_text())
    except (OSError, ValueError):
        return None


def _write_backup_time(database: Path, at_s: float) -> None:
    """Record the time of a backup beside the database, where a coordinator reads it for its metrics."""
    file = Path(f"{database}{BACKUP_TIME_SUFFIX}")
    unfinished = file.with_name(f"{file.name}.unfinished-{os.getpid()}")
    try:
        unfinished.write_text(f"{at_s:.3f}\n")
        unfinished.replace(file)
    except OSError as error:
        logger.warning(
            "Time of the backup could not be recorded, so alerts do not see it: %s: %s", file, error.strerror
        )


def _verify(database: Path, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(copy)) as db:
        check(db, str(database), completely=True)


def _refusal(database: Path, copy: Path, error: sqlite3.Error) -> StoreRefused:
    """Return an error that says whether the database or the target of the copy is at fault."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return refusal(str(database), error)
    return StoreRefused(f"{database} cannot be copied to {copy}: {error}; make room or choose another file")


def _make_numbered_path(copy: Path, number: int) -> Path:
    return copy.with_name(f"{copy.name}.{number}")


def _shift_copies(copy: Path, keep: int) -> None:
    """Rename each older copy to the next number. Copies are removed only after the new one is in place."""
    if copy.exists():
        for number in range(keep - 1, 0, -1):
            if _make_numbered_path(copy, number).exists():
                _make_numbered_path(copy, number).rename(_make_numbered_path(copy, number + 1))
        copy.rename(_make_numbered_path(copy, 1))


def _remove_old(copy: Path, keep: int) -> None:
    number = keep
    while (old := _make_numbered_path(copy, number)).exists():
        old.unlink()
        number += 1


def _check_target(database: Path, copy: Path, *, replace: bool) -> None:
    if not copy.exists():
        refuse_emptied(str(copy))
        return
    if not copy.is_file():
        raise StoreRefused(f"{copy} is not a file; choose another name")
    if copy.samefile(database):
        raise StoreRefused(f"{copy} is the database itself; choose another name")
    if not replace:
        raise StoreRefused(
            f"{copy} already exists; choose another name, replace it with --force, or keep several with --keep"
        )
    with copy.open("rb") as file:
        if not try_lock(file.fileno()):
            raise StoreRefused(f"{copy} is in use by a coordinator; choose another name")


def _copy(database: Path, copy: Path) -> None:
    with contextlib.closing(_open_source(database)) as source, contextlib.closing(sqlite3.connect(copy)) as target:
        if source.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreRefused(f"{database} is not the database of a coordinator; name one with --database")
        # Copy all pages in one read, which does not block the writer. SQLite restarts a copy in several reads after
        # each commit, so under load it would never end.
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE").fetchall()  # so that the copy needs no -wal file
        target.execute(END_USE.sql)
        target.commit()
    with copy.open("rb") as file:
        os.fsync(file.fileno())


def _open_source(database: Path) -> sqlite3.Connection:
    """Return a connection that only reads. It keeps the -wal file, which the next start after a crash needs."""
    has_log = Path(f"{database}-wal").exists()
    mode = "ro" if has_log else "rw"  # without a -wal file SQLite creates one, which needs write access
    db = sqlite3.connect(f"{database.absolute().as_uri()}?mode={mode}", uri=True, timeout=60)
    db.execute("PRAGMA query_only = 1")
    return db


def _remove_unfinished(copy: Path) -> None:
    """Remove the files of backups that were killed. A running backup holds a lock on its file."""
    for left in copy.parent.glob(f"{glob.escape(copy.name)}.unfinished-*"):
        if left.name.endswith(SIDE_FILE_SUFFIXES):
            continue
        with contextlib.suppress(OSError), left.open("rb") as file:
            if try_lock(file.fileno()):
                _remove_side_files(left)
                left.unlink()


def _remove_side_files(file: Path) -> None:
    for suffix in SIDE_FILE_SUFFIXES:
        Path(f"{file}{suffix}").unlink(missing_ok=True)
