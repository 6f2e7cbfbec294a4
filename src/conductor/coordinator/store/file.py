"""The database file: taken for this process alone, checked before it is touched, brought to the newest schema.

Beside it lies a file of eight bytes, `<database>-step`: the workflow that is being decided on at this moment. It is no
part of the truth. But when the process dies in the middle of a step, the next one finds there which workflow that was.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import secrets
import sqlite3
import stat
from collections.abc import MutableSequence
from pathlib import Path

from conductor.coordinator.store.sql import MIGRATIONS, SCHEMA, SCHEMA_VERSION, STATEMENTS
from conductor.machine import try_lock

logger = logging.getLogger(__name__)

#: "cndw": how SQLite and `file` recognise our databases.
APPLICATION_ID = 0x636E6477
#: A larger file is not read through at start; SQLite still notices damage where it meets it.
CHECKED_AT_START_BYTES = 64 * 1024 * 1024
MEMORY = ":memory:"
_NO_STEP = bytes(8)


class StoreError(Exception):
    """The database could not do what was asked."""


class StoreRefused(StoreError):
    """This file cannot be used; the message says why and what to do."""


class DatabaseFile:
    """One database, opened for writing."""

    def __init__(self, database: str) -> None:
        if not database:
            raise StoreRefused("the database has no name; give a file, or ':memory:' to keep nothing")
        self.database = database
        #: The workflow of the step under way, as eight bytes; see `begin_step`.
        self.step: MutableSequence[int] | mmap.mmap = bytearray(8)
        self._lock: int | None = None
        try:
            if database != MEMORY:
                # SQLite's own locks end when any handle of the file is closed: this one stays open as long as the file.
                self._lock = _take(database)
                self.step = _step_file(database)
            has_log = Path(f"{database}-wal").exists()
            self.db = _open(database)
            self.secret = _secret(self.db)
            _begin_use(self.db, database, has_log=has_log)
        except BaseException:
            self._release()
            raise

    def interrupted_step(self) -> int | None:
        """The workflow that was being decided on when the last process died, if it died in a step. Asked once."""
        pk = int.from_bytes(bytes(self.step[:8]), "little")
        self.step[:8] = _NO_STEP
        return pk or None

    def reader(self) -> sqlite3.Connection:
        """One more connection, which cannot write."""
        db = sqlite3.connect(self.database, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA query_only = 1")
        return db

    def close(self) -> None:
        """Close the file, and let others have it."""
        with contextlib.suppress(sqlite3.Error):  # a full disk, for instance
            self.db.execute(STATEMENTS["end use"])
        self.db.close()
        self._release()

    def _release(self) -> None:
        if isinstance(self.step, mmap.mmap):
            self.step.close()
            self.step = bytearray(8)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take(database: str) -> int:
    """Make the file if it is not there, for our own user alone, and take it for this process."""
    try:
        file = os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        why = f"cannot open {database}: {error.strerror}; choose a file that can be written"
        raise StoreRefused(why) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise StoreRefused(f"{database} is not a file; choose another name")
    # The lock is on the file itself: another name for it, a link of either kind, is no way around.
    if not try_lock(file):
        os.close(file)
        raise StoreRefused(f"{database} is in use by another coordinator; stop that one first or choose another file")
    if os.fstat(file).st_mode & 0o077:
        logger.warning(
            "%s can be read by other users; its inputs, outputs and secrets are theirs too (chmod 600)", database
        )
    return file


def _begin_use(db: sqlite3.Connection, database: str, *, has_log: bool) -> None:
    """Note in the file itself that it is in use. A plain copy of it says so too, and lacks what is in the -wal file."""
    if db.execute(STATEMENTS["in use"]).fetchone() is not None and not has_log:
        logger.warning(
            "%s was copied while it was in use, without its -wal file: what was written last is missing; "
            "copy with 'conductor-worker backup'",
            database,
        )
    db.execute(STATEMENTS["begin use"])
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


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
        raise StoreRefused(f"cannot write {path}: {error.strerror}; choose a directory that can be written") from error


def _open(database: str) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(database, isolation_level=None, check_same_thread=False, cached_statements=256)
    except sqlite3.Error as error:
        raise StoreRefused(f"cannot open {database}: {error}") from error
    try:
        _check(db, database)
        _prepare(db)
    except sqlite3.OperationalError as error:
        db.close()
        raise StoreRefused(f"{database} cannot be written ({error}); choose another file or make room") from error
    except sqlite3.DatabaseError as error:
        db.close()
        raise StoreRefused(
            f"{database} is not a usable database ({error}); restore it from a copy or choose another file"
        ) from error
    except BaseException:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection, database: str) -> None:
    """Refuse what is not ours before changing a byte of it."""
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION_ID and (tables or application or version):
        raise StoreRefused(f"{database} is a database of another program; choose another file")
    if version > SCHEMA_VERSION:
        raise StoreRefused(
            f"{database} was written by a newer release (schema {version}, this one knows {SCHEMA_VERSION}); upgrade"
        )
    if tables and db.execute("PRAGMA page_count").fetchone()[0] * 4096 <= CHECKED_AT_START_BYTES:
        found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreRefused(f"{database} is damaged ({found}); restore it from a copy or choose another file")


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA temp_store = MEMORY")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    script = SCHEMA if version == 0 else "".join(MIGRATIONS[n] for n in range(version, SCHEMA_VERSION))
    if not script:
        return
    # One transaction: a crash in the middle leaves the old version, not half of the new one.
    db.executescript(
        f"BEGIN IMMEDIATE; {script} PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT"
    )


def _secret(db: sqlite3.Connection) -> bytes:
    """What seals this file's ids; made with the file."""
    db.execute(STATEMENTS["keep secret"], (secrets.token_bytes(16),))
    return bytes(db.execute(STATEMENTS["secret"]).fetchone()[0])
