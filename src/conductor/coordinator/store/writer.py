"""The writer thread of the SQLite file. A caller is answered only after its effect is on disk.

Callers submit a function `fn(tx) -> value`. The writer runs all queued functions one after the other in one
transaction, commits once, and then answers all callers (group commit). There are two ways to run a transaction:

- *Together*, without savepoints. This is the usual and cheap way.
- *Carefully*, if a function failed after it had changed something. The transaction is rolled back, and each function
  runs again in a savepoint, and each workflow step in a nested one. A failure undoes only its own savepoint.

    StoreError ─┬─ StoreRefused   the file is from another program or a newer release, damaged, or in use
                └─ StoreClosed    called after close()
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
from conductor.coordinator.store.clock_jumps import ClockJumps
from conductor.coordinator.store.commit_pacer import CommitPacer, Job
from conductor.coordinator.store.crash_marks import CrashMarks
from conductor.coordinator.store.database_file import (
    MEMORY,
    DatabaseFile,
    StoreError,
    StoreRefused,
    refusal,
    truncate_log,
)
from conductor.coordinator.store.disk_space import DiskSpace
from conductor.coordinator.store.epoch_fence import EpochFence
from conductor.coordinator.store.ids import Ids
from conductor.coordinator.store.row_cache import LookupCache, RowCache
from conductor.coordinator.store.statements import ADD_SUSPECT, SUSPECTS, Suspect
from conductor.coordinator.store.transaction import Notes, Tx
from conductor.coordinator.store.wal_gap import WalGap
from conductor.telemetry import tracing
from conductor.telemetry.exposition import Histogram

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: The maximum number of concurrent reads. They run in parallel with the writer.
READERS = 4
#: The maximum number of concurrent long reads. One reader always stays free for short reads.
LONG_READS = READERS - 1


class StoreClosed(StoreError):
    """The coordinator has been closed."""


def is_fault_of_file(error: Exception) -> bool:
    """Return whether SQLite could not use the file. False if it only rejected a statement."""
    rejected = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
    return isinstance(error, sqlite3.Error) and not isinstance(error, rejected)


class Store:
    """The database file, its lock and its writer thread."""

    def __init__(
        self, database: str | os.PathLike[str], *, clock: Clock = SYSTEM_CLOCK, disk_reserve_bytes: int | None = None
    ) -> None:
        self.database = os.fspath(database)
        self._memory = self.database == MEMORY
        self._clock = clock
        self._pacer = CommitPacer()
        #: The jobs that were submitted in the current iteration of each event loop. They are queued together.
        self._submitted: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
        self._gate = threading.Lock()
        self._closed = False
        #: Called on the writer thread before a commit that makes tasks ready, to lease these tasks to parked polls.
        self.before_commit: Callable[[Tx], None] | None = None
        #: Called on the writer thread after a jump of the wall clock, before the other changes of the next transaction.
        self.on_clock_jump: Callable[[Tx, int], None] = lambda _tx, _jump_ms: None
        self._clock_jumps = ClockJumps(clock)
        #: Called with the notes of each commit before its callers are answered: on the event loop `notify_loop`, or on
        #: the writer thread if `notify_loop` is None.
        self.on_commit: Callable[[Notes], None] = lambda _notes: None
        self.notify_loop: asyncio.AbstractEventLoop | None = None
        self._file = DatabaseFile(self.database)
        self._db = self._file.db
        #: Random bytes that were generated when the file was created.
        self.salt = self._file.secret
        self.ids = Ids(self.salt, self._file.epochs)
        self._cache = RowCache()
        self._lookups = LookupCache()
        self.fence = EpochFence(self.salt, self._file.epochs[-1].number, clock.wall_ms())
        self.disk = DiskSpace(self.database, disk_reserve_bytes)
        #: The callers that wait for the next vacuum of the file.
        self._vacuums: list[concurrent.futures.Future[None]] = []
        self._crash_marks = CrashMarks(self._file.step)
        #: Set while Litestream copies the database.
        self._wal_gap: WalGap | None = None
        try:
            self._count_crash()
        except sqlite3.Error as error:
            self._file.close()
            raise refusal(self.database, error) from error
        self._thread = threading.Thread(target=self._write_forever, name="coordinator-writer", daemon=True)
        self._thread.start()
        #: Why the last commit failed; None after a successful write.
        self.failure: str | None = None
        #: The number of commits since the start, and of the callers that shared them.
        self.commits = 0
        self.committed_callers = 0
        self.failed_commits = 0
        #: The metric counters of committed transactions.
        self.counts = Tally()
        #: The time that the writer thread has worked.
        self.busy_s = 0.0
        self.commit_times = Histogram(TIME_BOUNDS_S)
        self.group_sizes = Histogram(GROUP_BOUNDS)
        self._readers: concurrent.futures.ThreadPoolExecutor | None = None
        self._reader_dbs: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._long_reads: asyncio.Semaphore | None = None
        #: Limits the number of concurrent reads.
        self._reads: asyncio.Semaphore | None = None

    def _count_crash(self) -> None:
        """If the last process died in a step of a workflow, count this death for the workflow."""
        workflow = self._crash_marks.take_interrupted()
        if workflow is not None:
            logger.warning("The last process died in a step of a workflow: workflow_id=%s", self.ids.workflow(workflow))
            self._db.execute(ADD_SUSPECT.sql, (workflow,))
        self._load_suspects()

    def _load_suspects(self) -> None:
        """Read the crash counts from their rows. After a rollback this also undoes changes of the counts in memory."""
        suspects = [Suspect(*row) for row in self._db.execute(SUSPECTS.sql)]
        self._crash_marks.suspects = {suspect.workflow: suspect.deaths for suspect in suspects}

    # -- callers --------------------------------------------------------------------------------------------------

    async def write(self, fn: Callable[[Tx], T], work: int = 1) -> T:
        """Run `fn` in the next transaction. Return its value after the commit.

        Args:
            fn: Reads and changes rows. The writer may run it twice, so that other effects, such as a log line, may
                happen twice.
            work: Estimated cost in workflow steps. 0 marks a latency-sensitive job such as a poll, which is committed
                before costly jobs instead of together with them.
        """
        loop = asyncio.get_running_loop()
        job = Job(fn, loop, work)
        with self._gate:
            self._check_open()
            submitted = self._submitted.setdefault(loop, [])
            submitted.append(job)
        if len(submitted) == 1:  # queue it after this iteration of the loop, with the jobs that are added until then
            loop.call_soon(self._queue_submitted, loop)
        if tracing.tracer is None or not tracing.tracer.is_recording():
            return await job.future  # type: ignore[no-any-return]
        with tracing.tracer.start_request_span("decide and commit"):
            return await job.future  # type: ignore[no-any-return]

    def call(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in the next transaction, for a caller that may block. Return its value after the commit."""
        job = Job(fn, None)
        with self._gate:
            self._check_open()
            self._pacer.put([job])
        return job.future.result()  # type: ignore[no-any-return]

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` on the state of the last commit, in parallel with the writer. Return its value."""
        self._check_open()
        if self._reads is None:
            self._reads = asyncio.Semaphore(READERS)
        # A result may be large, so the read counts as running until the event loop has taken its result.
        async with self._reads:
            if self._memory:
                return await self.write(fn)
            if self._readers is None:
                self._readers = concurrent.futures.ThreadPoolExecutor(READERS, "coordinator-reader")
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, fn)

    async def read_long(self, fn: Callable[[Tx], T]) -> T:
        """Run a read that may take long, and return its value. Short reads do not wait for long reads."""
        if self._long_reads is None:
            self._long_reads = asyncio.Semaphore(LONG_READS)
        async with self._long_reads:
            return await self.read(fn)

    async def vacuum(self) -> None:
        """Rewrite the file without its free pages. The writer does nothing else in this time.

        Raises:
            StoreError: There is no room for a second copy of the data.
        """
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._gate:
            self._vacuums.append(done)
        await self.write(lambda _: None)  # the writer looks for requested vacuums after each commit
        await asyncio.wrap_future(done)

    def _run_vacuum(self) -> None:
        with self._gate:
            waiting, self._vacuums = self._vacuums, []
        waiting = [done for done in waiting if done.set_running_or_notify_cancel()]  # without cancelled callers
        if not waiting:
            return
        failure: StoreError | None = None
        try:
            self._db.execute("PRAGMA temp_store = FILE")  # VACUUM copies all data, which may not fit in memory
            self._db.execute("VACUUM")
            truncate_log(self._db)
        except sqlite3.Error as error:
            failure = StoreError(f"the file could not be made smaller: {error}")
            failure.__cause__ = error
        finally:
            self._db.execute("PRAGMA temp_store = MEMORY")
        for done in waiting:
            if failure is None:
                done.set_result(None)
            else:
                done.set_exception(failure)

    def make_room_for_litestream(self, ask_for_sync: Callable[[], None]) -> None:
        """From now on, wait after a commit while Litestream resets a long write-ahead log."""
        self._wal_gap = WalGap(self.database, ask_for_sync)

    def close(self) -> None:
        """Finish the queued jobs, then close the file. A second call does nothing."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            for submitted in self._submitted.values():
                self._pacer.put(submitted)
            self._submitted.clear()
            self._pacer.close()
        self._thread.join()
        if self._readers is not None:
            self._readers.shutdown()
            while not self._reader_dbs.empty():
                self._reader_dbs.get().close()
        self._file.close()
        if self._wal_gap is not None:
            self._wal_gap.close()

    # -- the writer -----------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the coordinator is closed")

    def _queue_submitted(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._gate:
            submitted = self._submitted.pop(loop, None)
            if submitted is not None:
                self._pacer.put(submitted)

    def _write_forever(self) -> None:
        while groups := self._pacer.next_groups():
            for group in groups:
                began = time.perf_counter()
                self._commit(group)
                if self._wal_gap is not None:
                    self._wal_gap.wait_for_reset()
                if self._vacuums:
                    self._run_vacuum()
                self.busy_s += time.perf_counter() - began

    def _commit(self, group: list[Job[Any]]) -> None:
        notes, began = Notes(), time.perf_counter()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            now_ms = self._clock.wall_ms()
            changes = self._db.total_changes
            jump_ms = self._clock_jumps.measure(now_ms)
            correction = Job(lambda tx: self.on_clock_jump(tx, jump_ms), None)
            if jump_ms:
                group = [correction, *group]
            if not self._run_together(group, notes, now_ms):
                notes = notes.without_effects()
                for job in group:
                    self._run_carefully(job, notes, now_ms)
            self._cache.end_transaction()
            self._db.execute("COMMIT")
            if jump_ms:
                self._clock_jumps.accept(jump_ms, correction.error)
            self.commits += 1
            self.committed_callers += len(group)
            self.commit_times.observe(time.perf_counter() - began)
            self.group_sizes.observe(len(group))
            self.counts.add_all(notes.counts)
            if self.failure is not None and self._db.total_changes > changes:
                self.failure = None
                logger.warning("Database is writable again: %s", self.database)
        except sqlite3.Error as error:
            if self.failure is None:  # log only the first of several failures in a row
                logger.critical(
                    "Database could not be written, so no change of this commit took effect: %s: %s",
                    self.database,
                    error,
                )
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
                self._load_suspects()
            self._cache.clear()
            self._lookups.clear()
            self.failed_commits += 1
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                self.disk.remove_reserve_file()
            self.failure = f"the database could not be written: {error}"
            notes = notes.without_effects()
            for job in group:
                job.error = StoreError(self.failure)
                job.error.__cause__ = error
        self._cache.trim()
        self._answer(notes, group)

    def _run_together(self, group: list[Job[Any]], notes: Notes, now_ms: int) -> bool:
        """Run all jobs without savepoints.

        If a job raises an `ApiError` before it has changed anything, only this job fails.

        Returns:
            False after any other error. The transaction has then been rolled back and begun again.
        """
        tx = self._new_tx(now_ms)
        tx.notes = notes
        try:
            for job in group:
                self._cache.has_changes = False
                try:
                    job.value = job.fn(tx)
                except ApiError as error:
                    if self._cache.has_changes:
                        raise
                    job.error = error
                self._cache.note_wake(notes.wake_at_ms)
            if notes.ready and self.before_commit is not None:
                self._grant_to_parked_polls(self.before_commit, tx)
            tx.flush()
        except Exception as error:
            if is_fault_of_file(error):
                raise
            logger.debug("Transaction failed and runs again with savepoints", exc_info=error)
            self._cache.discard()
            self._lookups.clear()
            self._db.execute("ROLLBACK")
            self._load_suspects()
            self._db.execute("BEGIN IMMEDIATE")
            for job in group:
                job.value = job.error = None
            return False
        return True

    def _grant_to_parked_polls(self, grant: Callable[[Tx], None], tx: Tx) -> None:
        try:
            grant(tx)
        except Exception as error:
            if not is_fault_of_file(error):
                logger.error("Parked polls could not be served", exc_info=error)
            raise
        self._cache.note_wake(tx.notes.wake_at_ms)

    def _run_carefully(self, job: Job[Any], notes: Notes, now_ms: int) -> None:
        """Run one job with its own savepoint. Lease nothing to parked polls; they are woken after the commit."""
        tx = self._new_tx(now_ms, is_careful=True)
        try:
            with tx.savepoint():
                job.value = job.fn(tx)
        except Exception as error:
            if is_fault_of_file(error):
                raise
            self._load_suspects()
            job.error = error
            if isinstance(error, sqlite3.Error):
                logger.error("SQLite rejected a statement", exc_info=error)
                job.error = StoreError(f"the database rejected a statement: {error}")
        else:
            notes.merge(tx.notes)
            self._cache.note_wake(notes.wake_at_ms)

    def _new_tx(self, now_ms: int, *, is_careful: bool = False) -> Tx:
        return Tx(self._db, self.ids, now_ms, self._cache, self._lookups, self._crash_marks, is_careful=is_careful)

    def _answer(self, notes: Notes, group: list[Job[Any]]) -> None:
        """Pass the notes to `on_commit` and answer the callers, with one wake-up per event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
        if notes and self.notify_loop is not None:
            by_loop[self.notify_loop] = []
        elif notes:
            self.on_commit(notes)
        for job in group:
            if job.loop is None:
                job.resolve()
            else:
                by_loop.setdefault(job.loop, []).append(job)
        for loop, jobs in by_loop.items():
            news = notes if notes and loop is self.notify_loop else None
            with contextlib.suppress(RuntimeError):  # the loop is closed, so none of its callers is waiting
                loop.call_soon_threadsafe(self._answer_on_loop, news, jobs)

    def _answer_on_loop(self, notes: Notes | None, jobs: list[Job[Any]]) -> None:
        try:
            if notes is not None:
                self.on_commit(notes)
        finally:
            for job in jobs:
                job.resolve()

    # -- the readers ----------------------------------------------------------------------------------------------

    def _read(self, fn: Callable[[Tx], T]) -> T:
        try:
            db = self._reader_dbs.get_nowait()
        except queue.Empty:
            db = self._file.reader()
        try:
            db.execute("BEGIN")
            try:
                return fn(Tx(db, self.ids, self._clock.wall_ms(), RowCache(), LookupCache(), CrashMarks()))
            finally:
                db.execute("COMMIT")
        finally:
            self._reader_dbs.put(db)


__all__ = ["Store", "StoreClosed", "StoreError", "StoreRefused", "is_fault_of_file"]
