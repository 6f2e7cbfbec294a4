"""One caller's part of a transaction: what it reads, what it changes, and what others must know once it is committed.

Rows of tasks and workflows that were changed are written together, at the end of the part or before the next statement
that could look at them; see `live.py`. A part that fails leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from conductor.coordinator.store.sql import STATEMENTS

if TYPE_CHECKING:
    from conductor.coordinator.store.ids import Ids
    from conductor.coordinator.store.row_cache import LiveSet


class Notes:
    """What a transaction wants known once it is committed."""

    __slots__ = ("counts", "ended", "ends", "granted", "moved", "polled", "ready", "terminations", "wake_at_ms")

    def __init__(self) -> None:
        #: (task type, domain) → how many tasks became pollable
        self.ready: dict[tuple[str, str], int] = {}
        #: the nearest new deadline
        self.wake_at_ms: int | None = None
        #: workflows that moved: callers waiting for one look again
        self.moved: set[int] = set()
        #: sub-workflows that were marked for termination, to be terminated in this transaction if there is time
        self.terminations: list[int] = []
        #: whether a workflow has ended: retention looks again
        self.ended = False
        #: workflows that have ended, for the log: (id, name, status, reason)
        self.ends: list[tuple[str, str, str, str | None]] = []
        #: parked polls, and the tasks that were leased for them
        self.granted: list[tuple[Any, list[Any]]] = []
        #: queues that were polled with a report: (task type, domain, worker id)
        self.polled: list[tuple[str, str, str | None]] = []
        #: what has happened, for the metrics: (name, label values...) → how often
        self.counts: dict[tuple[str, ...], int] = {}

    def __bool__(self) -> bool:
        facts = self.ready or self.moved or self.ended or self.granted or self.polled
        return bool(facts) or self.wake_at_ms is not None

    def add_ready(self, task_type: str, domain: str, count: int = 1) -> None:
        """Tasks of this queue can be polled now."""
        self.ready[task_type, domain] = self.ready.get((task_type, domain), 0) + count

    def add_wake(self, at_ms: int | None) -> None:
        """Something is due at this time."""
        if at_ms is not None and (self.wake_at_ms is None or at_ms < self.wake_at_ms):
            self.wake_at_ms = at_ms

    def count(self, key: tuple[str, ...], times: int = 1) -> None:
        """Something happened that is counted once it is committed: name of the metric, label values."""
        self.counts[key] = self.counts.get(key, 0) + times

    def merge(self, other: Notes) -> None:
        """Take over another's notes."""
        for queue, count in other.ready.items():
            self.ready[queue] = self.ready.get(queue, 0) + count
        for key, times in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + times
        self.moved |= other.moved
        self.terminations += other.terminations
        if other.wake_at_ms is not None:
            self.add_wake(other.wake_at_ms)
        if other.ended:
            self.ended = True
            self.ends += other.ends
        self.granted += other.granted
        self.polled += other.polled

    def of_failure(self) -> Notes:
        """What remains to be told when the transaction has failed: nobody was granted anything."""
        failed = Notes()
        failed.granted = [(waiter, []) for waiter, _ in self.granted]
        return failed


class Tx:
    """One caller's view of the running transaction."""

    __slots__ = ("_db", "_saved", "_together", "careful", "guarded", "ids", "live", "notes", "now_ms")

    def __init__(
        self,
        db: sqlite3.Connection,
        ids: Ids,
        now_ms: int,
        live: LiveSet,
        notes: Notes | None = None,
        *,
        careful: bool = False,
        together: bool = False,
    ) -> None:
        self._db = db
        self.ids = ids
        self.now_ms = now_ms
        #: What the writer keeps in memory, and what of it is still to be written.
        self.live = live
        self.notes = Notes() if notes is None else notes
        #: Whether each workflow is guarded by a savepoint of its own. That costs; most often nothing goes wrong.
        self.careful = careful
        #: Whether something ran unguarded that a careful caller would have guarded.
        self.guarded = False
        #: Whether it is undone only together with all others of its transaction.
        self._together = together
        self._saved = False

    # -- reading: what was changed is written first, so that every statement sees it

    def rows(self, name: str, *args: Any) -> list[Any]:
        """All rows of a named statement."""
        return self._read(STATEMENTS[name], args).fetchall()

    def row(self, name: str, *args: Any) -> Any | None:
        """The first row of a named statement, or None."""
        return self._read(STATEMENTS[name], args).fetchone()

    def value(self, name: str, *args: Any) -> Any | None:
        """The first column of the first row, or None."""
        row = self._read(STATEMENTS[name], args).fetchone()
        return None if row is None else row[0]

    def matching(self, statement: str, values: dict[str, Any]) -> list[Any]:
        """All rows of a statement with `:named` parameters."""
        return self._read(STATEMENTS[statement], values).fetchall()

    def select(self, statement: str, args: Sequence[Any]) -> list[Any]:
        """Rows of a statement composed at run time (searches only; values are always bound)."""
        return self._read(statement, args).fetchall()

    def _read(self, statement: str, args: Sequence[Any] | dict[str, Any]) -> sqlite3.Cursor:
        if self.live.dirty or self.live.loose:
            self.write_changes()
        return self._db.execute(statement, args)

    def fact(self, name: str, *args: Any) -> Any | None:
        """The first row of a statement about definitions and queues, remembered until one of them changes."""
        key = name, args
        facts = self.live.facts
        return facts[key] if key in facts else self.live.fact(key, lambda: self.row(name, *args))

    # -- writing

    def run(self, name: str, *args: Any) -> int:
        """Execute; how many rows changed."""
        return self._write(name, args).rowcount

    def run_many(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a named statement once for each row of parameters."""
        self.live.changed = True
        self.write_changes()
        self._db.executemany(STATEMENTS[name], rows)

    def define(self, name: str, *args: Any) -> int:
        """Execute a change to definitions or queues; what was remembered of them is read again. The rows changed."""
        self.live.forget_facts()
        return self.run(name, *args)

    def change(self, statement: str, values: dict[str, Any]) -> int:
        """Execute with `:named` parameters; how many rows changed."""
        self.live.changed = True
        self.write_changes()
        return self._db.execute(STATEMENTS[statement], values).rowcount

    def _write(self, name: str, args: Sequence[Any]) -> sqlite3.Cursor:
        self.live.changed = True
        self.write_changes()
        return self._db.execute(STATEMENTS[name], args)

    def write_changes(self) -> None:
        """Write the rows that were changed in memory."""
        if not (self._saved or self._together):
            self._db.execute("SAVEPOINT caller")
            self._saved = True
        self.live.write(self._db)

    # -- parts

    def finish(self) -> None:
        """The caller is done: what it changed belongs to the transaction."""
        if self.live.dirty or self.live.loose:
            self.write_changes()
        if self._saved:
            self._db.execute("RELEASE caller")
            self._saved = False

    def undo(self) -> None:
        """The caller has failed: nothing that it did has happened."""
        self.live.discard()
        self.notes = Notes()
        if self._saved:
            self._saved = False
            self._db.execute("ROLLBACK TO caller")
            self._db.execute("RELEASE caller")

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """What happens inside happens whole or not at all."""
        self.write_changes()
        before, self.notes = self.notes, Notes()
        self._db.execute("SAVEPOINT part")
        try:
            yield
            self.write_changes()
            self._db.execute("RELEASE part")
            before.merge(self.notes)
        except BaseException as error:
            self.live.discard()
            # After a full disk there is nothing left to go back to, and the reason must not be hidden by that.
            with contextlib.suppress(sqlite3.Error) if isinstance(error, sqlite3.Error) else contextlib.nullcontext():
                self._db.execute("ROLLBACK TO part")
                self._db.execute("RELEASE part")
            raise
        finally:
            self.notes = before
