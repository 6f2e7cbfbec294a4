"""Runs the statements of one caller in a transaction, and collects notes for other parts of the coordinator.

Changed rows of tasks and workflows are written together, at the end of the transaction or before the next statement
that could read them; see `row_cache.py`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from conductor.coordinator.store.statements import Command, KeySecret, Query

if TYPE_CHECKING:
    from conductor.coordinator.store.crash_marks import CrashMarks
    from conductor.coordinator.store.ids import Ids
    from conductor.coordinator.store.row_cache import LookupCache, RowCache

Row = TypeVar("Row")


class EndedWorkflow(NamedTuple):
    """A workflow that has ended, for the log."""

    workflow_id: str
    name: str
    status: str
    reason: str | None
    traceparent: str | None = None


class PolledQueue(NamedTuple):
    """A queue that was polled, and the worker that polled it."""

    task_type: str
    domain: str
    worker_id: str | None


class Notes:
    """Effects of a transaction that other parts of the coordinator must learn of after the commit."""

    def __init__(self) -> None:
        #: The number of tasks that became pollable, by (task type, domain).
        self.ready: dict[tuple[str, str], int] = {}
        #: The earliest new deadline.
        self.wake_at_ms: int | None = None
        #: Workflows that changed. Callers that wait for one of them check it again.
        self.changed_workflows: set[int] = set()
        #: Sub-workflows that were marked for termination. This transaction terminates as many as its budget allows, and
        #: later transactions terminate the rest.
        self.terminations: list[int] = []
        #: Whether a workflow has ended, so that retention checks for workflows to remove.
        self.has_ended = False
        self.ended: list[EndedWorkflow] = []
        #: Parked polls, and the tasks that were leased for each.
        self.grants: list[tuple[Any, list[dict[str, Any]]]] = []
        #: Queues that were polled by a request that also carried reports.
        self.polled: list[PolledQueue] = []
        #: Rounds of loops at which `workflows/fast_loops.py` measures the pace of the loop.
        self.loop_rounds: list[Any] = []
        #: Increments of metric counters, by (name, label values...).
        self.counts: dict[tuple[str, ...], int] = {}
        #: All keys of the API, if this transaction has changed them.
        self.keys: list[KeySecret] | None = None
        #: The secrets that this transaction has set, by name; None for a deleted secret.
        self.secrets: dict[str, str | None] = {}

    def __bool__(self) -> bool:
        notes = (
            self.ready
            or self.changed_workflows
            or self.has_ended
            or self.grants
            or self.polled
            or self.keys is not None
            or self.secrets
        )
        return bool(notes) or self.wake_at_ms is not None

    def add_ready(self, task_type: str, domain: str, count: int = 1) -> None:
        """Note that tasks of a queue can be polled."""
        self.ready[task_type, domain] = self.ready.get((task_type, domain), 0) + count

    def add_wake(self, at_ms: int | None) -> None:
        """Note a new deadline."""
        if at_ms is not None and (self.wake_at_ms is None or at_ms < self.wake_at_ms):
            self.wake_at_ms = at_ms

    def count(self, key: tuple[str, ...], times: int = 1) -> None:
        """Increment a metric counter, which takes effect if the transaction is committed."""
        self.counts[key] = self.counts.get(key, 0) + times

    def merge(self, other: Notes) -> None:
        """Add the notes of a savepoint or of another caller in the same transaction."""
        for (task_type, domain), count in other.ready.items():
            self.add_ready(task_type, domain, count)
        for key, times in other.counts.items():
            self.count(key, times)
        self.changed_workflows |= other.changed_workflows
        self.terminations += other.terminations
        self.add_wake(other.wake_at_ms)
        self.has_ended |= other.has_ended
        self.ended += other.ended
        self.grants += other.grants
        self.polled += other.polled
        self.loop_rounds += other.loop_rounds
        self.keys = self.keys if other.keys is None else other.keys
        self.secrets.update(other.secrets)

    def without_effects(self) -> Notes:
        """Return the notes that remain after a failed transaction: they answer claimed parked polls without tasks."""
        failed = Notes()
        failed.grants = [(poll, []) for poll, _ in self.grants]
        return failed


class Tx:
    """The running transaction, as one caller uses it."""

    __slots__ = ("_db", "cache", "crash_marks", "ids", "is_careful", "lookups", "notes", "now_ms")

    def __init__(
        self,
        db: sqlite3.Connection,
        ids: Ids,
        now_ms: int,
        cache: RowCache,
        lookups: LookupCache,
        crash_marks: CrashMarks,
        *,
        is_careful: bool = False,
    ) -> None:
        self._db = db
        self.ids = ids
        self.now_ms = now_ms
        self.cache = cache
        self.lookups = lookups
        self.crash_marks = crash_marks
        self.notes = Notes()
        #: Whether each workflow step has its own savepoint, so that a failed step ends only its own workflow.
        self.is_careful = is_careful

    # -- reading

    def rows(self, query: Query[Row], *args: Any, **named: Any) -> list[Row]:
        """Return all rows. Parameters are given by position or by name."""
        return [query.read(*columns) for columns in self._execute(query.sql, named or args)]

    def each(self, query: Query[Row], *args: Any) -> Iterator[Row]:
        """Yield all rows. Only one row is in memory at a time. Change no row that the query reads meanwhile."""
        for columns in self._execute(query.sql, args):
            yield query.read(*columns)

    def first(self, query: Query[Row], *args: Any, **named: Any) -> Row | None:
        """Return the first row, or None."""
        columns = self._execute(query.sql, named or args).fetchone()
        return None if columns is None else query.read(*columns)

    def cached_first(self, query: Query[Row], *args: Any) -> Row | None:
        """Return the first row of a query about definitions or queues, cached until one of them changes."""
        return self.lookups.get((query.name, args), lambda: self.first(query, *args))

    def select(self, statement: str, args: Sequence[Any]) -> list[Any]:
        """Return the rows of a SELECT that was composed at run time. Pass values as parameters, never in the text."""
        return self._execute(statement, args).fetchall()

    # -- writing

    def run(self, command: Command, *args: Any, **named: Any) -> int:
        """Execute a command. Return how many rows changed."""
        self.cache.has_changes = True
        return self._execute(command.sql, named or args).rowcount

    def run_many(self, command: Command, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a command once per row of parameters."""
        self.cache.has_changes = True
        self.flush()
        self._db.executemany(command.sql, rows)

    def define(self, command: Command, *args: Any) -> int:
        """Change definitions or queues, and drop the cached lookups. Return how many rows changed."""
        self.lookups.clear()
        return self.run(command, *args)

    def flush(self) -> None:
        """Write the rows that were changed in the cache."""
        if self.cache.is_dirty:
            self.cache.write(self._db)

    def _execute(self, statement: str, args: Sequence[Any] | dict[str, Any]) -> sqlite3.Cursor:
        self.flush()
        return self._db.execute(statement, args)

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo all changes of the block if it raises an error. Savepoints can be nested."""
        self.flush()
        outer, self.notes = self.notes, Notes()
        self._db.execute("SAVEPOINT part")
        try:
            yield
            self.flush()
            self._db.execute("RELEASE part")
            outer.merge(self.notes)
        except BaseException as error:
            self.cache.discard()
            self.lookups.clear()
            # If the disk is full, SQLite has already rolled back the transaction and its savepoints. Suppress the error
            # about the missing savepoint, because the first error says what went wrong.
            with contextlib.suppress(sqlite3.Error) if isinstance(error, sqlite3.Error) else contextlib.nullcontext():
                self._db.execute("ROLLBACK TO part")
                self._db.execute("RELEASE part")
            raise
        finally:
            self.notes = outer
