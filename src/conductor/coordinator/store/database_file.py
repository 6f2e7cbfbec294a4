"""Opens the database file: locks it for this process, checks it before changing it, and migrates its schema.

A file of eight bytes beside the database, `<database>-step`, holds the mark of `crash_marks.py`. It is not part of the
stored state.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import mmap
import os
import secrets
import sqlite3
import stat
from collections.abc import MutableSequence
from functools import cache
from pathlib import Path

from conductor.common.machine import try_lock
from conductor.coordinator.store.sql import MIGRATIONS, SCHEMA, SCHEMA_VERSION
from conductor.coordinator.store.statements import (
    ADD_EPOCH,
    ADD_RESTORED_EPOCH,
    BEGIN_USE,
    END_USE,
    EPOCHS,
    IN_USE,
    KEEP_SECRET,
    KEY_SECRETS,
    LAST_KEYS,
    SECRET,
    Command,
    Epoch,
)

logger = logging.getLogger(__name__)

#: The ASCII codes of "cndw". SQLite stores this number in the file, and the command `file` shows it.
APPLICATION_ID = 0x636E6477
#: A larger file is not checked completely at start. SQLite still reports damage in the pages that it reads.
CHECKED_AT_START_BYTES = 64 * 1024 * 1024
MEMORY = ":memory:"
#: The values of `errno` for a full disk and for an exceeded quota.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_STEP = bytes(8)


class StoreError(Exception):
    """The database cannot be used, or a read or write failed."""


class StoreRefused(StoreError):
    """The file cannot be used. The message says why and what to do."""


class DatabaseFile:
    """A database, opened for writing."""

    def __init__(self, database: str) -> None:
        if not database:
            raise StoreRefused("the database has no name; name a file, or use ':memory:' to store nothing on disk")
        self.database = database
        #: The eight bytes in which `crash_marks.CrashMarks` marks the workflow whose step is running.
        self.step: MutableSequence[int] | mmap.mmap = bytearray(8)
        self._lock: int | None = None
        try:
            if database != MEMORY:
                # This handle stays open, because closing any handle of the file would release SQLite's own locks.
                self._lock = _create_and_lock(database)
                self.step = _step_file(database)
            has_log = Path(f"{database}-wal").exists()
            self.db = _open(database)
            self.secret = _secret(self.db)
            #: The epochs of this file: one for each start of a coordinator, the present one last. See `ids.py`.
            self.epochs = _begin_epoch(self.db)
            _begin_use(self.db, database, has_log=has_log)
        except sqlite3.Error as error:
            self.db.close()
            self._release()
            raise refusal(database, error) from error
        except BaseException:
            self._release()
            raise

    def reader(self) -> sqlite3.Connection:
        """Return a new read-only connection."""
        db = sqlite3.connect(self.database, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA query_only = 1")
        return db

    def close(self) -> None:
        """Close the file and release its lock."""
        with contextlib.suppress(sqlite3.Error):  # for example, if the disk is full
            self.db.execute(END_USE.sql)
        self.db.close()
        self._release()

    def _release(self) -> None:
        if isinstance(self.step, mmap.mmap):
            self.step.close()
            self.step = bytearray(8)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _create_and_lock(database: str) -> int:
    """Create the file if it is missing, readable only by its owner, and lock it. Return the handle with the lock."""
    refuse_emptied(database)
    try:
        file = os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        todo = "make room" if error.errno in NO_ROOM else "choose a file that can be written"
        if error.errno == errno.ENOENT:
            todo = "create the directory or choose another file"
        raise StoreRefused(f"cannot open {database}: {error.strerror}; {todo}") from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise StoreRefused(f"{database} is not a file; choose another name")
    # The lock is on the file itself, so it also holds if the file is opened through a hard or symbolic link.
    if not try_lock(file):
        os.close(file)
        raise StoreRefused(f"{database} is in use by another coordinator; stop that one first or choose another file")
    if os.fstat(file).st_mode & 0o077:
        logger.warning(
            "Database, with its inputs, outputs and secrets, is readable by other users; run chmod 600: %s", database
        )
    return file


def refuse_emptied(database: str) -> None:
    """Reject an empty or missing database with a -wal file, which SQLite would delete on opening.

    Raises:
        StoreRefused: The -wal file holds commits, but the database that they belong to is gone.
    """
    log = Path(f"{database}-wal")
    with contextlib.suppress(OSError):  # there is no -wal file
        size = log.stat().st_size
        if size and (not Path(database).exists() or Path(database).stat().st_size == 0):
            raise StoreRefused(
                f"{database} is empty or missing, but {log} holds {size} bytes of commits: "
                "restore the database from a copy, or move the -wal file away to start with an empty database"
            )


def has_keys(database: str) -> bool:
    """Return whether an existing file has keys for the API. Used before the file is opened for writing."""
    if database == MEMORY or not Path(database).is_file():
        return False
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(database).absolute().as_uri()}?mode=ro", uri=True)) as db:
            return db.execute(KEY_SECRETS.sql).fetchone() is not None
    except sqlite3.Error:  # a file without this table has no keys, and `DatabaseFile` reports a file that is unusable
        return False


def refusal(database: str, error: sqlite3.Error) -> StoreRefused:
    """Return the error for a file that SQLite cannot open, read or write, with a remedy."""
    # The low byte is SQLite's primary error code. Errors of Python's sqlite3 module itself have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreRefused(f"{database} cannot be written ({error}); make room on its disk")
    if code == sqlite3.SQLITE_IOERR:
        return StoreRefused(f"{database} cannot be written ({error}); check that its disk has room and works")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreRefused(f"{database} cannot be written ({error}); choose a file and directory that can be written")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreRefused(f"{database} is in use by another program ({error}); stop that one first")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreRefused(f"{database} is damaged ({error}); restore it from a copy or choose another file")
    return StoreRefused(f"{database} is not a usable database ({error}); restore it from a copy or choose another file")


def _begin_use(db: sqlite3.Connection, database: str, *, has_log: bool) -> None:
    """Mark the file as in use. If it is already marked but has no -wal file, warn that it is an incomplete copy."""
    if db.execute(IN_USE.sql).fetchone() is not None and not has_log:
        logger.warning(
            "Database was copied while it was in use, without its -wal file, so the last changes are missing; "
            "copy with 'conductor-worker backup': %s",
            database,
        )
    db.execute(BEGIN_USE.sql)
    truncate_log(db)


def truncate_log(db: sqlite3.Connection) -> None:
    """Empty the -wal file. This does nothing while another process, such as Litestream, reads it."""
    (timeout_ms,) = db.execute("PRAGMA busy_timeout").fetchone()
    db.execute("PRAGMA busy_timeout = 0")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.execute(f"PRAGMA busy_timeout = {timeout_ms}")


def _step_file(database: str) -> mmap.mmap:
    path = f"{database}-step"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size != len(_NO_STEP):
                os.ftruncate(file, 0)
                os.write(file, _NO_STEP)
            return mmap.mmap(file, len(_NO_STEP))
        finally:
            os.close(file)
    except OSError as error:
        todo = "make room" if error.errno in NO_ROOM else "choose a directory that can be written"
        raise StoreRefused(f"cannot write {path}: {error.strerror}; {todo}") from error


def _open(database: str) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(database, isolation_level=None, check_same_thread=False, cached_statements=256)
    except sqlite3.Error as error:
        raise refusal(database, error) from error
    try:
        check(db, database)
        _prepare(db)
    except sqlite3.Error as error:
        db.close()
        raise refusal(database, error) from error
    except BaseException:
        db.close()
        raise
    return db


def check(db: sqlite3.Connection, database: str, *, completely: bool = False) -> None:
    """Reject a file that a coordinator cannot serve, without changing it.

    Args:
        db: A connection to the file.
        database: The name of the file, for messages.
        completely: Read the whole file, and compare its indexes with its tables. Otherwise a file larger than
            `CHECKED_AT_START_BYTES` is not read.

    Raises:
        StoreRefused: Another program or a newer release wrote the file, or it is damaged.
    """
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
    if application != APPLICATION_ID and (tables or application or version):
        raise StoreRefused(f"{database} is a database of another program; choose another file")
    if version > SCHEMA_VERSION:
        raise StoreRefused(
            f"{database} was written by a newer release (schema {version}, this release supports {SCHEMA_VERSION}); "
            "upgrade"
        )
    found = "ok"
    if completely:
        found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    elif tables and db.execute("PRAGMA page_count").fetchone()[0] * 4096 <= CHECKED_AT_START_BYTES:
        found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found == "ok" and version == SCHEMA_VERSION and (missing := _schema_names() - tables):
        found = f"it has no {', '.join(sorted(missing))}"
    if found != "ok":
        where = " ".join(found.split())
        raise StoreRefused(f"{database} is damaged ({where}); restore it from a copy or choose another file")


@cache
def _schema_names() -> frozenset[str]:
    """Return the names of all tables and indexes of the current schema."""
    with contextlib.closing(sqlite3.connect(MEMORY)) as db:
        db.executescript(SCHEMA)
        return frozenset(name for (name,) in db.execute("SELECT name FROM sqlite_schema"))


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA temp_store = MEMORY")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    script = SCHEMA if version == 0 else "".join(MIGRATIONS[n] for n in range(version, SCHEMA_VERSION))
    if not script:
        return
    # A single transaction, so that a crash leaves the old schema and never a half-migrated one.
    db.executescript(
        f"BEGIN IMMEDIATE; {script} PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT"
    )


def _secret(db: sqlite3.Connection) -> bytes:
    """Return the secret from which the ids of this file are derived. A new file gets a random one."""
    db.execute(KEEP_SECRET.sql, (secrets.token_bytes(16),))
    return bytes(db.execute(SECRET.sql).fetchone()[0])


def begin_restored_epoch(database: str) -> None:
    """Migrate a restored file, and begin an epoch that is higher than those of the coordinator it came from."""
    with contextlib.closing(_open(database)) as db:
        _add_epoch(db, ADD_RESTORED_EPOCH)
        db.execute(END_USE.sql)
        db.execute("PRAGMA journal_mode = DELETE").fetchall()  # so that the file needs no -wal file


def _begin_epoch(db: sqlite3.Connection) -> list[Epoch]:
    """Record this start as a new epoch, before any id is created, and return all epochs of the file."""
    _add_epoch(db, ADD_EPOCH)
    return [Epoch(*row) for row in db.execute(EPOCHS.sql)]


def _add_epoch(db: sqlite3.Connection, command: Command) -> None:
    last_keys = dict(db.execute(LAST_KEYS.sql).fetchall())
    first_keys = [last_keys.get(table, 0) + 1 for table in ("workflow", "task", "schedule_run")]
    db.execute(command.sql, (*first_keys, secrets.token_bytes(16)))
