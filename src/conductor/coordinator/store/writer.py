"""The SQLite file: the one truth. One thread writes; a caller is answered only after its effect is on disk.

Callers hand over a function `fn(tx) -> value`. The writer takes all that are waiting, runs one after the other in one
transaction, commits once for all of them, and only then answers (group commit). If one of them fails half-way, all is
undone and run again, each with a savepoint of its own: what one did wrong is undone for it alone. One that fails there
too is run once more, carefully: then each workflow has a savepoint.

    StoreError ─┬─ StoreRefused   the file is not ours, newer than us, damaged, or in use (file.py)
                └─ StoreClosed    asked after close()
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.server_metrics import GROUP_BOUNDS, TIME_BOUNDS_S, Tally
from conductor.coordinator.store.commit_pacer import CommitPacer, Job
from conductor.coordinator.store.database_file import MEMORY, DatabaseFile, StoreError, StoreRefused, refusal
from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.row_cache import LiveSet
from conductor.coordinator.store.sql import STATEMENTS
from conductor.coordinator.store.transaction import Notes, Tx
from conductor.telemetry import tracing
from conductor.telemetry.exposition import Histogram

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: Reads that run beside the writer at once.
READERS = 4
#: Of these, the long ones: a short one always finds a reader.
LONG_READS = READERS - 1


class StoreClosed(StoreError):
    """The coordinator has been closed."""


def is_fault_of_file(error: Exception) -> bool:
    """Whether the file cannot be written at all, rather than what somebody wanted to write."""
    refused = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
    return isinstance(error, sqlite3.Error) and not isinstance(error, refused)


class Store:
    """The file, its lock and its writer thread."""

    def __init__(self, database: str | os.PathLike[str], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.database = os.fspath(database)
        self._memory = self.database == MEMORY
        self._clock = clock
        self._pacer = CommitPacer()
        #: Callers of each event loop that have come in this turn of it, and are handed over together.
        self._coming: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
        self._gate = threading.Lock()
        self._closed = False
        #: Called on the writer thread before a commit that makes tasks ready: parked polls get them with this commit.
        self.before_commit: Callable[[Tx], None] | None = None
        #: Told of each commit that has something to tell, before its callers are answered: on this event loop, or on
        #: the writer's thread if there is none.
        self.on_commit: Callable[[Notes], None] = lambda _notes: None
        self.told_on: asyncio.AbstractEventLoop | None = None
        self._file = DatabaseFile(self.database)
        self._db = self._file.db
        #: Random bytes that were made with the file.
        self.salt = self._file.secret
        self.ids = Ids(self.salt, self._file.epochs)
        self._live = LiveSet(self._file.step)
        try:
            self._suspect(self._file.interrupted_step())
        except sqlite3.Error as error:
            self._file.close()
            raise refusal(self.database, error) from error
        self._thread = threading.Thread(target=self._write_forever, name="coordinator-writer", daemon=True)
        self._thread.start()
        #: Why the last commit failed; None since one has worked.
        self.failure: str | None = None
        #: Commits since the start, and the callers that shared them.
        self.commits = 0
        self.committed_callers = 0
        self.failed_commits = 0
        #: What was committed, how long that took, and how many callers shared it: for the metrics.
        self.counts = Tally()
        self.commit_times = Histogram(TIME_BOUNDS_S)
        self.group_sizes = Histogram(GROUP_BOUNDS)
        self._readers: concurrent.futures.ThreadPoolExecutor | None = None
        self._reader_dbs: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._long_reads: asyncio.Semaphore | None = None
        #: Reads that are under way, or whose result is not taken yet.
        self._reads: asyncio.Semaphore | None = None

    def _suspect(self, workflow: int | None) -> None:
        """A process died in a step of this workflow: after the second time, no step of it is taken any more."""
        if workflow is not None:
            logger.warning("the last process died in a step of workflow %s", self.ids.workflow(workflow))
            self._db.execute(STATEMENTS["suspect"], (workflow,))
        self._live.suspects = dict(self._db.execute(STATEMENTS["suspects"]).fetchall())

    # -- callers --------------------------------------------------------------------------------------------------

    async def write(self, fn: Callable[[Tx], T], work: int = 1) -> T:
        """Run `fn` in the next transaction; returns after its commit.

        `work` says how much there is to do, in steps of a workflow. With 0 it does not wait for a group that has much
        to do, but goes before it in a commit of its own: so workers work while their last reports are decided on.
        """
        loop = asyncio.get_running_loop()
        job = Job(fn, loop, work)
        with self._gate:
            self._check_open()
            coming = self._coming.setdefault(loop, [])
            coming.append(job)
        if len(coming) == 1:  # whoever else comes in this turn of the loop shares its commit
            loop.call_soon(self._hand_over, loop)
        if tracing.tracer is None or not tracing.tracer.is_recording():
            return await job.future  # type: ignore[no-any-return]
        with tracing.tracer.start_current_span("decide and commit"):
            return await job.future  # type: ignore[no-any-return]

    def call(self, fn: Callable[[Tx], T]) -> T:
        """The same for a caller that may block."""
        job = Job(fn, None)
        with self._gate:
            self._check_open()
            self._pacer.put([job])
        return job.future.result()  # type: ignore[no-any-return]

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run a read beside the writer, on the last commit."""
        self._check_open()
        if self._reads is None:
            self._reads = asyncio.Semaphore(READERS)
        # A result may be large: the next read starts only when the event loop has taken this one's result.
        async with self._reads:
            if self._memory:
                return await self.write(fn)
            if self._readers is None:
                self._readers = concurrent.futures.ThreadPoolExecutor(READERS, "coordinator-reader")
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, fn)

    async def read_long(self, fn: Callable[[Tx], T]) -> T:
        """The same for a read that may take long: however many there are, others do not wait for them."""
        if self._long_reads is None:
            self._long_reads = asyncio.Semaphore(LONG_READS)
        async with self._long_reads:
            return await self.read(fn)

    def close(self) -> None:
        """Finish what was handed over, then close the file. Safe to call twice."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            for coming in self._coming.values():
                self._pacer.put(coming)
            self._coming.clear()
            self._pacer.close()
        self._thread.join()
        if self._readers is not None:
            self._readers.shutdown()
            while not self._reader_dbs.empty():
                self._reader_dbs.get().close()
        self._file.close()

    # -- the writer -----------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the coordinator is closed")

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._gate:
            coming = self._coming.pop(loop, None)
            if coming is not None:
                self._pacer.put(coming)

    def _write_forever(self) -> None:
        while groups := self._pacer.next_groups():
            for group in groups:
                self._commit(group)

    def _commit(self, group: list[Job[Any]]) -> None:
        notes, began = Notes(), time.perf_counter()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            now_ms = self._clock.wall_ms()
            changes = self._db.total_changes
            if not self._together(group, notes, now_ms):
                notes = notes.of_failure()
                self._one_by_one(group, notes, now_ms)
            self._live.settle()
            self._db.execute("COMMIT")
            self.commits += 1
            self.committed_callers += len(group)
            self._count(notes, len(group), time.perf_counter() - began)
            if self.failure is not None and self._db.total_changes > changes:
                self.failure = None
                logger.warning("the database %s is written again", self.database)
        except sqlite3.Error as error:
            if self.failure is None:  # once, until it works again
                logger.critical(
                    "the database %s could not be written: %s; nothing of this group happened", self.database, error
                )
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            self._live.clear()
            self.failed_commits += 1
            self.failure = f"the database could not be written: {error}"
            notes = notes.of_failure()
            for job in group:
                job.error = StoreError(f"the database could not be written: {error}")
                job.error.__cause__ = error
        self._live.trim()
        self._tell(notes, group)

    def _tell(self, notes: Notes, group: list[Job[Any]]) -> None:
        """One wake-up per event loop, however many callers it has in the group."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
        if notes and self.told_on is not None:
            by_loop[self.told_on] = []
        elif notes:
            self.on_commit(notes)
        for job in group:
            if job.loop is None:
                job.resolve()
            else:
                by_loop.setdefault(job.loop, []).append(job)
        for loop, jobs in by_loop.items():
            news = notes if notes and loop is self.told_on else None
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody is listening any more
                loop.call_soon_threadsafe(self._answer, news, jobs)

    def _answer(self, news: Notes | None, jobs: list[Job[Any]]) -> None:
        """On an event loop: what is new, then the answers of those who wait there."""
        try:
            if news is not None:
                self.on_commit(news)
        finally:
            for job in jobs:
                job.resolve()

    def _together(self, group: list[Job[Any]], notes: Notes, now_ms: int) -> bool:
        """Run all, and write what they have changed at once. False: one failed half-way, and nothing has happened.

        Nearly always all goes well, and nobody has to pay for being undone alone. One that is refused before it has
        changed anything has its answer, and the others go on.
        """
        live = self._live
        tx = Tx(self._db, self.ids, now_ms, live, notes, together=True)
        try:
            for job in group:
                live.changed = False
                try:
                    job.value = job.fn(tx)
                except ApiError as error:
                    if live.changed:
                        raise
                    job.error = error
                live.due_at(notes.wake_at_ms)
            if notes.ready and self.before_commit is not None:
                self._grant(self.before_commit, tx)
            live.write(self._db)
        except Exception as error:
            if is_fault_of_file(error):
                raise
            live.discard()
            self._db.execute("ROLLBACK")
            self._db.execute("BEGIN IMMEDIATE")
            for job in group:
                job.value = job.error = None
            return False
        return True

    def _one_by_one(self, group: list[Job[Any]], notes: Notes, now_ms: int) -> None:
        """The same with a savepoint for each: what one of them did wrong is undone for it alone.

        Nobody is granted anything here: parked polls are rung after the commit.
        """
        for job in group:
            self._run(job, notes, now_ms)

    def _count(self, notes: Notes, callers: int, seconds: float) -> None:
        self.commit_times.observe(seconds)
        self.group_sizes.observe(callers)
        if notes.counts:
            self.counts.add_all(notes.counts)

    def _run(self, job: Job[Any], notes: Notes, now_ms: int) -> None:
        tx = self._attempt(job, now_ms)
        if job.error is not None and tx.guarded and not isinstance(job.error, ApiError):
            job.error = None
            tx = self._attempt(job, now_ms, careful=True)
        if isinstance(job.error, sqlite3.Error):
            # What this caller asked for is at fault: the others of the group go on.
            logger.error("a statement was refused", exc_info=job.error)
            job.error = StoreError(f"the database refused a statement: {job.error}")
        if job.error is None:
            notes.merge(tx.notes)

    def _grant(self, grant: Callable[[Tx], None], tx: Tx) -> None:
        """What has become ready is leased to parked polls. If that fails they are rung, and try for themselves."""
        try:
            grant(tx)
        except Exception as error:
            if not is_fault_of_file(error):
                logger.error("parked polls could not be served", exc_info=error)
            raise
        self._live.due_at(tx.notes.wake_at_ms)

    def _attempt(self, job: Job[Any], now_ms: int, *, careful: bool = False) -> Tx:
        tx = Tx(self._db, self.ids, now_ms, self._live, careful=careful)
        try:
            job.value = job.fn(tx)
            tx.finish()
        # Whatever a rule raised is its caller's answer; the writer and the others of the group go on.
        except Exception as error:
            if is_fault_of_file(error):
                raise
            tx.undo()
            job.error = error
        self._live.due_at(tx.notes.wake_at_ms)
        self._live.settle()
        return tx

    # -- the readers ----------------------------------------------------------------------------------------------

    def _read(self, fn: Callable[[Tx], T]) -> T:
        try:
            db = self._reader_dbs.get_nowait()
        except queue.Empty:
            db = self._file.reader()
        try:
            db.execute("BEGIN")
            try:
                return fn(Tx(db, self.ids, self._clock.wall_ms(), LiveSet()))
            finally:
                db.execute("COMMIT")
        finally:
            self._reader_dbs.put(db)


__all__ = ["Store", "StoreClosed", "StoreError", "StoreRefused", "is_fault_of_file"]
