"""The SQLite file: the one truth. One thread writes; a caller is answered only after its effect is on disk.

Callers hand over a function `fn(tx) -> value`. The writer takes all that are waiting, runs each in a savepoint of one
transaction, commits once for all of them, and only then answers (group commit).

    StoreError ─┬─ StoreRefused   the file is not ours, newer than us, damaged, or in use
                └─ StoreClosed    asked after close()
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import fcntl
import logging
import os
import queue
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from conductor.clock import SYSTEM_CLOCK, Clock
from conductor.coordinator.ids import Ids
from conductor.coordinator.sql import SCHEMA, STATEMENTS

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: "cndw": how SQLite and `file` recognise our databases.
APPLICATION_ID = 0x636E6477
SCHEMA_VERSION = 1
#: What takes a file from version n to n + 1. Released steps are never edited.
MIGRATIONS: dict[int, str] = {}
#: A larger file is not read through at start; SQLite still notices damage where it meets it.
CHECKED_AT_START_BYTES = 64 * 1024 * 1024
#: At most this many callers share one commit, so that the first never waits long for the last.
MAX_GROUP = 500


class StoreError(Exception):
    """The database could not do what was asked."""


class StoreRefused(StoreError):
    """This file cannot be used; the message says why and what to do."""


class StoreClosed(StoreError):
    """The coordinator has been closed."""


def is_fault_of_file(error: Exception) -> bool:
    """Whether the file cannot be written at all, rather than what somebody wanted to write."""
    refused = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
    return isinstance(error, sqlite3.Error) and not isinstance(error, refused)


class Notes:
    """What a transaction wants known once it is committed."""

    __slots__ = ("ended", "ready", "wake_ms")

    def __init__(self) -> None:
        #: (task type, domain) → how many tasks became pollable
        self.ready: dict[tuple[str, str], int] = {}
        #: the nearest new deadline
        self.wake_ms: int | None = None
        #: workflows that moved: callers waiting for one look again
        self.ended: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.ready or self.ended) or self.wake_ms is not None

    def add_ready(self, task_type: str, domain: str, count: int = 1) -> None:
        """Tasks of this queue can be polled now."""
        self.ready[task_type, domain] = self.ready.get((task_type, domain), 0) + count

    def add_wake(self, at_ms: int | None) -> None:
        """Something is due at this time."""
        if at_ms is not None and (self.wake_ms is None or at_ms < self.wake_ms):
            self.wake_ms = at_ms

    def merge(self, other: Notes) -> None:
        """Take over another's notes."""
        for (task_type, domain), count in other.ready.items():
            self.add_ready(task_type, domain, count)
        self.add_wake(other.wake_ms)
        self.ended |= other.ended


class Tx:
    """One caller's view of the running transaction."""

    __slots__ = ("_db", "_last_task", "ids", "notes", "now_ms")

    def __init__(self, db: sqlite3.Connection, ids: Ids, now_ms: int) -> None:
        self._db = db
        self.ids = ids
        self.now_ms = now_ms
        self.notes = Notes()
        self._last_task: int | None = None

    def new_task_pk(self) -> int:
        """The key of a task that is going to be added: its id may be needed before its row."""
        last = self.value("last task key") or 0 if self._last_task is None else self._last_task
        self._last_task = int(last) + 1
        return self._last_task

    def rows(self, name: str, *args: Any) -> list[Any]:
        """All rows of a named statement."""
        return self._db.execute(STATEMENTS[name], args).fetchall()

    def each(self, name: str, *args: Any) -> Iterator[Any]:
        """The rows of a named statement one by one, for who may stop early."""
        return iter(self._db.execute(STATEMENTS[name], args))

    def row(self, name: str, *args: Any) -> Any | None:
        """The first row of a named statement, or None."""
        return self._db.execute(STATEMENTS[name], args).fetchone()

    def value(self, name: str, *args: Any) -> Any | None:
        """The first column of the first row, or None."""
        row = self._db.execute(STATEMENTS[name], args).fetchone()
        return None if row is None else row[0]

    def run(self, name: str, *args: Any) -> int:
        """Execute; how many rows changed."""
        return self._db.execute(STATEMENTS[name], args).rowcount

    def run_named(self, name: str, values: dict[str, Any]) -> int:
        """Execute with `:named` parameters; how many rows changed."""
        return self._db.execute(STATEMENTS[name], values).rowcount

    def insert(self, name: str, *args: Any) -> int:
        """Execute an INSERT; the new key."""
        return int(self._db.execute(STATEMENTS[name], args).lastrowid or 0)

    def run_many(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row."""
        self._db.executemany(STATEMENTS[name], rows)

    def select(self, statement: str, args: Sequence[Any]) -> list[Any]:
        """Rows of a statement composed at run time (searches only; values are always bound)."""
        return self._db.execute(statement, args).fetchall()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """What happens inside happens whole or not at all."""
        before, self.notes = self.notes, Notes()
        self._db.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK TO part")
            self.notes = Notes()
            raise
        finally:
            self._db.execute("RELEASE part")
            before.merge(self.notes)
            self.notes = before


class _Job(Generic[T]):
    """One caller: what to run, and where its answer goes."""

    __slots__ = ("error", "fn", "future", "loop", "value")

    def __init__(self, fn: Callable[[Tx], T], loop: asyncio.AbstractEventLoop | None) -> None:
        self.fn = fn
        self.loop = loop
        self.future: Any = loop.create_future() if loop else concurrent.futures.Future()
        self.value: Any = None
        self.error: BaseException | None = None

    def resolve(self) -> None:
        """Tell the caller. Its event loop's thread, or any thread for a blocking caller."""
        if self.future.cancelled() or self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


class Store:
    """The file, its lock and its writer thread."""

    def __init__(self, database: str | os.PathLike[str], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.database = os.fspath(database)
        if not self.database:
            raise StoreRefused("the database has no name; give a file, or ':memory:' to keep nothing")
        self._memory = self.database == ":memory:"
        self._clock = clock
        self._lock: IO[bytes] | None = None
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        #: Called on the writer thread after each commit that has something to tell.
        self.on_commit: Callable[[Notes], None] = lambda _notes: None
        try:
            self._lock = None if self._memory else _take_lock(self.database)
            self._db = _open(self.database)
            self.ids = Ids(_secret(self._db))
        except BaseException:
            self._release_lock()
            raise
        self._thread = threading.Thread(target=self._write_forever, name="coordinator-writer", daemon=True)
        self._thread.start()
        self._readers: concurrent.futures.ThreadPoolExecutor | None = None
        self._reader_db: sqlite3.Connection | None = None

    # -- callers --------------------------------------------------------------------------------------------------

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in the next transaction; returns after its commit."""
        job = _Job(fn, asyncio.get_running_loop())
        self._put(job)
        return await job.future  # type: ignore[no-any-return]

    def call(self, fn: Callable[[Tx], T]) -> T:
        """The same for a caller that may block."""
        job = _Job(fn, None)
        self._put(job)
        return job.future.result()  # type: ignore[no-any-return]

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run a long read beside the writer, on the last commit."""
        if self._memory:
            return await self.write(fn)
        if self._closed:
            raise StoreClosed("the coordinator is closed")
        if self._readers is None:
            self._readers = concurrent.futures.ThreadPoolExecutor(1, "coordinator-reader")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, fn)

    def close(self) -> None:
        """Finish what was handed over, then close the file. Safe to call twice."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()
        if self._readers is not None:
            self._readers.submit(self._close_reader)
            self._readers.shutdown()
        self._db.close()
        self._release_lock()

    # -- the writer -----------------------------------------------------------------------------------------------

    def _put(self, job: _Job[Any]) -> None:
        with self._gate:
            if self._closed:
                raise StoreClosed("the coordinator is closed")
            self._jobs.put(job)

    def _write_forever(self) -> None:
        going = True
        while going:
            first = self._jobs.get()
            if first is None:
                return
            group = [first]
            while len(group) < MAX_GROUP:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    going = False
                    break
                group.append(job)
            self._commit(group)

    def _commit(self, group: list[_Job[Any]]) -> None:
        notes = Notes()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for job in group:
                self._run(job, notes)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            logger.critical(
                "the database %s could not be written: %s; nothing of this group happened", self.database, error
            )
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            notes = Notes()
            for job in group:
                job.error = StoreError(f"the database could not be written: {error}")
        if notes:
            self.on_commit(notes)
        _answer(group)

    def _run(self, job: _Job[Any], notes: Notes) -> None:
        tx = Tx(self._db, self.ids, self._clock.wall_ms())
        try:
            with tx.savepoint():
                job.value = job.fn(tx)
        except sqlite3.Error as error:
            if is_fault_of_file(error):
                raise
            # What this caller asked for is at fault: the others of the group go on.
            logger.exception("a statement was refused")
            job.error = StoreError(f"the database refused a statement: {error}")
        # Whatever a rule raised is its caller's answer; the writer and the others of the group go on.
        except Exception as error:
            job.error = error
        else:
            notes.merge(tx.notes)

    # -- the reader -----------------------------------------------------------------------------------------------

    def _read(self, fn: Callable[[Tx], T]) -> T:
        if self._reader_db is None:
            self._reader_db = sqlite3.connect(self.database, isolation_level=None, check_same_thread=False)
            self._reader_db.execute("PRAGMA query_only = 1")
        self._reader_db.execute("BEGIN")
        try:
            return fn(Tx(self._reader_db, self.ids, self._clock.wall_ms()))
        finally:
            self._reader_db.execute("COMMIT")

    def _close_reader(self) -> None:
        if self._reader_db is not None:
            self._reader_db.close()

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _answer(group: list[_Job[Any]]) -> None:
    """One wake-up per event loop, however many callers it has in the group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job[Any]]] = {}
    for job in group:
        if job.loop is None:
            job.resolve()
        else:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody is listening any more
            loop.call_soon_threadsafe(_resolve_all, jobs)


def _resolve_all(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        job.resolve()


# -- opening a file -----------------------------------------------------------------------------------------------


def _take_lock(database: str) -> IO[bytes]:
    path = Path(database + ".lock")
    try:
        lock = path.open("ab")
    except OSError as error:
        raise StoreRefused(f"cannot create {path}: {error.strerror}; choose a directory that can be written") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StoreRefused(
            f"{database} is in use by another coordinator; stop that one first or choose another file"
        ) from error
    return lock


def _open(database: str) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(database, isolation_level=None, check_same_thread=False, cached_statements=256)
    except sqlite3.Error as error:
        raise StoreRefused(f"cannot open {database}: {error}") from error
    try:
        _check(db, database)
        _prepare(db)
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
