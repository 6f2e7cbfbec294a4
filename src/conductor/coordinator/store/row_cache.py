"""What the writer keeps in memory of workflows that run, so that it need not read back what it has just written.

The rows are the truth. Whatever is here can be thrown away at any moment and is read again from them; a part of a
transaction that fails throws away all that it has touched. Only the writer's thread comes here.
"""

from __future__ import annotations

import mmap
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, MutableSequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import astuple, replace

from conductor.coordinator.store.rows import (
    DATA_WIDTH,
    TASK_WIDTH,
    WORKFLOW_WIDTH,
    TaskData,
    TaskRow,
    WorkflowData,
    WorkflowRow,
    insert_of,
    update_of,
)
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES

if TYPE_CHECKING:
    from conductor.coordinator.store.transaction import Tx

#: Workflows kept at most, and the bytes of their payloads. Beyond that, the least recently used are read again.
MAX_WORKFLOWS = 5_000
MAX_BYTES = 24 * 1024 * 1024
#: Finished tasks kept with a running workflow; of a longer one they are read again when they are asked for.
MAX_FINISHED_TASKS = 1_000
#: Facts about definitions and queues kept, and the bytes of their payloads.
MAX_FACTS = 10_000
MAX_FACT_BYTES = 24 * 1024 * 1024

#: Statements, and what each is run with.
_Values: TypeAlias = dict[str, list[Any]]
#: Columns that have changed since a row was written, and their values; None: nobody has said which.
_Moved: TypeAlias = dict[str, Any] | None


class _Table:
    """How the rows of one table are written: a new one, or what has changed of another."""

    def __init__(self, name: str, row: type[Struct]) -> None:
        self._name = name
        self._columns = row.__struct_fields__
        self._keyless = "pk" not in self._columns
        self._insert = insert_of(name, (*(("pk",) if self._keyless else ()), *self._columns))
        self._inserts: dict[tuple[str, ...], str] = {}
        self._updates: dict[tuple[str, ...], str] = {}

    def collect(self, values: _Values, pk: int, row: Struct, written: Struct | None, moved: _Moved) -> None:
        """Add the statement that makes the row what it is now.

        `written`: as it is in the file; None: it is not. `moved`: what of it has changed; None: look for it. Of a new
        one, that is what differs from the defaults of the schema, its key included; None: all is written.
        """
        if moved is None:
            whole = astuple(row)
            if written is None:
                values.setdefault(self._insert, []).append((pk, *whole) if self._keyless else whole)
                return
            pairs = zip(self._columns, whole, astuple(written), strict=True)
            moved = {column: now for column, now, before in pairs if now != before}
        columns = tuple(moved)
        if written is None:
            statement = self._inserts.get(columns)
            if statement is None:
                statement = self._inserts[columns] = insert_of(self._name, columns)
            values.setdefault(statement, []).append(tuple(moved.values()))
        elif columns:
            statement = self._updates.get(columns)
            if statement is None:
                statement = self._updates[columns] = update_of(self._name, columns)
            values.setdefault(statement, []).append((*moved.values(), pk))


_WORKFLOW = _Table("workflow", WorkflowRow)
_WORKFLOW_DATA = _Table("workflow_data", WorkflowData)
_TASK = _Table("task", TaskRow)
_TASK_DATA = _Table("task_data", TaskData)
#: A task of a workflow that is not at hand is written whole.
_LOOSE_TASK = update_of("task", TaskRow.__struct_fields__[1:])


class LiveTask:
    """One attempt at a task: its row, its payload, and what of them is in the file."""

    __slots__ = ("data", "lease_id", "moved", "moved_data", "name", "row", "state", "written_data", "written_row")

    def __init__(self, row: TaskRow, data: TaskData, name: str, *, is_new: bool = False) -> None:
        self.row = row
        self.data = data
        #: The name of its task type.
        self.name = name
        #: As they are in the file; None: not yet. And what has changed since then.
        self.written_row = None if is_new else row
        self.written_data = None if is_new else data
        self.moved: _Moved = None
        self.moved_data: _Moved = None
        #: The id of its last lease, if that was granted while the task was at hand.
        self.lease_id: str | None = None
        #: As the decider reads it, made when it is first asked for.
        self.state: Any = None


class LiveWorkflow:
    """One workflow: its row and payload, its open tasks, and those finished ones that were asked for."""

    __slots__ = (
        "_absent",
        "_by_ref",
        "_changed",
        "_tasks",
        "data",
        "decoded",
        "moved",
        "moved_data",
        "moving",
        "queued",
        "row",
        "size",
        "whole",
        "written_data",
        "written_row",
    )

    def __init__(self, row: WorkflowRow, data: WorkflowData, *, is_new: bool = False) -> None:
        self.row = row
        self.data = data
        #: As they are in the file; None: not yet. And what has changed since then.
        self.written_row = None if is_new else row
        self.written_data = None if is_new else data
        self.moved: _Moved = None
        self.moved_data: _Moved = None
        #: Whether every task of the workflow is here: then nothing has to be looked up.
        self.whole = is_new
        #: Tasks whose consequences are not drawn yet: those that workers or sub-workflows are to end, and the others.
        self.queued: dict[int, LiveTask] = {}
        self.moving: dict[int, LiveTask] = {}
        self._tasks: dict[int, LiveTask] = {}
        self._by_ref: dict[str, LiveTask] = {}
        self._absent: set[str] = set()
        self._changed: dict[int, LiveTask] = {}
        #: The payload as the decider reads it, made when it is first asked for.
        self.decoded: Any = None
        self.size = _size_of(data)

    # -- finding tasks

    def task(self, tx: Tx, pk: int) -> LiveTask | None:
        """The task with this key, if it belongs to the workflow."""
        found = self._tasks.get(pk)
        if found is not None or self.whole:
            return found
        row = tx.row("whole task", pk)
        return self.read(row) if row is not None and row[1] == self.row.pk else None

    def latest(self, tx: Tx, ref: str) -> LiveTask | None:
        """The newest attempt under exactly this reference name."""
        found = self._by_ref.get(ref)
        if found is not None or self.whole or ref in self._absent:
            return found
        row = tx.row("latest task", self.row.pk, ref)
        if row is None:
            self._absent.add(ref)
            return None
        return self.read(row)

    def pending(self) -> list[LiveTask]:
        """All whose consequences are not drawn yet, in their order."""
        return sorted([*self.moving.values(), *self.queued.values()], key=lambda task: task.row.pk)

    def all(self, tx: Tx) -> list[LiveTask]:
        """Every attempt, in order."""
        if not self.whole:
            for row in tx.rows("tasks of workflow", self.row.pk):
                self.read(row)
            self.whole = True
        return sorted(self._tasks.values(), key=lambda task: (task.row.seq, task.row.pk))

    def read(self, found: Any) -> LiveTask:
        """A task as a statement found it, with its payload and the name of its type."""
        pk = found[0]
        known = self._tasks.get(pk)
        if known is not None:
            return known
        row = TaskRow(*found[:TASK_WIDTH])
        task = LiveTask(row, TaskData(*found[TASK_WIDTH : TASK_WIDTH + DATA_WIDTH]), found[TASK_WIDTH + DATA_WIDTH])
        self._keep(task)
        return task

    def notice_whole(self) -> None:
        """Tasks are numbered from 1: as many open ones as the last one's number are all there are."""
        last = self._tasks.get(self.row.last_task or 0)
        self.whole = self.row.last_task is None or (last is not None and len(self._tasks) == last.row.seq)

    def _keep(self, task: LiveTask) -> None:
        row = task.row
        self._tasks[row.pk] = task
        self.size += _size_of(task.data)
        known = self._by_ref.get(row.ref)
        if known is None or known.row.pk <= row.pk:
            self._by_ref[row.ref] = task
        self._sort(task)

    def _sort(self, task: LiveTask) -> None:
        row = task.row
        pk = row.pk
        if row.executed:
            self.queued.pop(pk, None)
            self.moving.pop(pk, None)
        elif not _waits_for_others(row):
            self.queued.pop(pk, None)
            self.moving.pop(pk, None)  # the one that has changed last comes last
            self.moving[pk] = task
        elif pk not in self.queued:
            self.moving.pop(pk, None)
            self.queued[pk] = task

    # -- changing

    def add(self, tx: Tx, task: LiveTask) -> None:
        """A new task."""
        self._absent.discard(task.row.ref)
        self._keep(task)
        self._changed[task.row.pk] = task
        tx.live.touch(self)

    def change(self, tx: Tx, task: LiveTask, row: TaskRow, data: TaskData | None = None) -> None:
        """A task as it is from now on."""
        task.row = row
        task.moved = task.state = None
        if data is not None:
            self.size += _grown(task.data, data)
            task.data = data
            task.moved_data = None
        self._sort(task)
        self._changed[row.pk] = task
        tx.live.touch(self)

    def move(self, tx: Tx, task: LiveTask, row: dict[str, Any], data: dict[str, Any] | None = None) -> None:
        """The same by the columns that change: nobody has to look for them when they are written."""
        task.moved = _moved_on(task.moved, task.row is task.written_row, row)
        task.row = replace(task.row, **row)
        task.state = None
        if data is not None:
            task.moved_data = _moved_on(task.moved_data, task.data is task.written_data, data)
            before, task.data = task.data, replace(task.data, **data)
            self.size += _grown(before, task.data)
        self._sort(task)
        self._changed[task.row.pk] = task
        tx.live.touch(self)

    def move_row(self, tx: Tx, row: dict[str, Any]) -> None:
        """The workflow by the columns that change."""
        self.moved = _moved_on(self.moved, self.row is self.written_row, row)
        self.row = replace(self.row, **row)
        tx.live.touch(self)

    def change_row(self, tx: Tx, row: WorkflowRow) -> None:
        """The workflow as it is from now on."""
        self.row = row
        self.moved = None
        tx.live.touch(self)

    def change_data(self, tx: Tx, data: WorkflowData) -> None:
        """Its payload as it is from now on."""
        self.size += _grown(self.data, data)
        self.data = data
        self.moved_data = self.decoded = None
        tx.live.touch(self)

    def move_data(self, tx: Tx, data: dict[str, Any]) -> None:
        """Its payload by the columns that change; not for what the decider reads of it."""
        self.moved_data = _moved_on(self.moved_data, self.data is self.written_data, data)
        before, self.data = self.data, replace(self.data, **data)
        self.size += _grown(before, self.data)
        tx.live.touch(self)

    def drop(self, pks: Iterable[int]) -> None:
        """These tasks are gone; their rows have been removed."""
        for pk in pks:
            for known in (self._tasks, self.queued, self.moving, self._changed):
                known.pop(pk, None)
        self._by_ref = {}
        for task in sorted(self._tasks.values(), key=lambda task: task.row.pk):
            self._by_ref[task.row.ref] = task

    def take_changed(self) -> Iterable[LiveTask]:
        """The tasks that were changed since they were last asked for."""
        changed, self._changed = self._changed, {}
        return changed.values()

    def forget_finished(self) -> None:
        """Keep what is open; what is finished is read again when it is asked for."""
        if len(self._tasks) - len(self.queued) - len(self.moving) <= MAX_FINISHED_TASKS:
            return
        self._tasks = {**self.queued, **self.moving}
        self._by_ref = {}
        for task in sorted(self._tasks.values(), key=lambda task: task.row.pk):
            self._by_ref[task.row.ref] = task
        self._absent.clear()
        self.whole = False
        self.size = _size_of(self.data) + sum(_size_of(task.data) for task in self._tasks.values())


class LiveSet:
    """The running workflows that the writer has at hand, and facts about definitions and queues."""

    def __init__(self, step: MutableSequence[int] | mmap.mmap | None = None) -> None:
        self._limit = MAX_WORKFLOWS
        #: The workflow of the step under way, as eight bytes that outlive the process (file.py).
        self.step: Any = bytearray(8) if step is None else step
        #: Workflows in whose steps the process has died, and how often in a row.
        self.suspects: dict[int, int] = {}
        self._workflows: OrderedDict[int, LiveWorkflow] = OrderedDict()
        #: Whether the present caller has changed anything.
        self.changed = False
        #: What was changed and is not written, and all that was changed in this transaction.
        self.dirty: dict[int, LiveWorkflow] = {}
        self._touched: set[int] = set()
        #: Rows of tasks whose workflows are not at hand.
        self.loose: dict[int, TaskRow] = {}
        #: What is known of definitions and queues; see `fact`.
        self.facts: dict[Any, Any] = {}
        self._fact_bytes = 0
        self._last_task = self._last_workflow = 0
        self._grown = 0
        #: Ids that were given to new tasks in this transaction, and their keys.
        self.new_tasks: dict[str, int] = {}
        #: (workflow name, idempotency key) that no workflow has: looked up together, valid in this transaction.
        self.unused_keys: set[tuple[str | None, str | None]] = set()
        #: Nothing is due before this time. 0: not known.
        self.nothing_due_before_ms = 0

    # -- workflows

    def workflow(self, tx: Tx, pk: int) -> LiveWorkflow | None:
        """A workflow with its open tasks; None if there is none."""
        known = self._workflows.get(pk)
        if known is not None:
            self._workflows.move_to_end(pk)
            return known
        self.load(tx, [pk])
        return self._workflows.get(pk)

    def load(self, tx: Tx, pks: Iterable[int]) -> None:
        """Bring workflows to hand: two statements, however many they are."""
        missing = [pk for pk in dict.fromkeys(pks) if pk not in self._workflows]
        for start in range(0, len(missing), 500):
            some = missing[start : start + 500]
            marks = ", ".join("?" * len(some))
            for found in tx.select(_WORKFLOWS.format(marks), some):
                live = LiveWorkflow(WorkflowRow(*found[:WORKFLOW_WIDTH]), WorkflowData(*found[WORKFLOW_WIDTH + 1 :]))
                self._workflows[live.row.pk] = live
            for found in tx.select(_PENDING.format(marks), some):
                self._workflows[found[1]].read(found)
            for pk in some:
                if pk in self._workflows:
                    self._workflows[pk].notice_whole()

    def add(self, live: LiveWorkflow) -> None:
        """A new workflow."""
        self._workflows[live.row.pk] = live
        self.touch(live)

    def touch(self, live: LiveWorkflow) -> None:
        """Something of it was changed."""
        pk = live.row.pk
        self.changed = True
        self.dirty[pk] = live
        self._touched.add(pk)

    def change_row(self, tx: Tx, row: TaskRow) -> None:
        """A task's row as it is from now on, whether its workflow is at hand or not."""
        live = self._workflows.get(row.workflow)
        task = live.task(tx, row.pk) if live is not None else None
        if live is not None and task is not None:
            live.change(tx, task, row)
        else:
            self.changed = True
            self.loose[row.pk] = row

    def forget(self, *pks: int) -> None:
        """Somebody changes the rows of these workflows directly."""
        for pk in pks:
            self._workflows.pop(pk, None)

    def new_task_id(self, tx: Tx) -> str:
        """The id of a task that is going to be added; `new_tasks` has its key."""
        self._last_task = (self._last_task or int(tx.value("last key", "task") or 0)) + 1
        task_id = tx.ids.task(self._last_task)
        self.new_tasks[task_id] = self._last_task
        return task_id

    def new_workflow_pk(self, tx: Tx) -> int:
        """The key of a workflow that is going to be added."""
        self._last_workflow = (self._last_workflow or int(tx.value("last key", "workflow") or 0)) + 1
        return self._last_workflow

    # -- facts

    def fact(self, key: Any, read: Callable[[], Any]) -> Any:
        """What `read` gives, remembered until definitions change."""
        if key in self.facts:
            return self.facts[key]
        found = self.facts[key] = read()
        parts = found if isinstance(found, tuple) else ()
        self._fact_bytes += 200 + sum(len(part) for part in parts if isinstance(part, bytes | str))
        if len(self.facts) > MAX_FACTS or self._fact_bytes > MAX_FACT_BYTES:
            self.forget_facts()
        return found

    def forget_facts(self) -> None:
        """Definitions or queues have changed."""
        self.facts.clear()
        self._fact_bytes = 0

    # -- writing

    def write(self, db: sqlite3.Connection) -> None:
        """Write all that was changed: each row once, rows of a kind together."""
        if not (self.dirty or self.loose):
            return
        dirty, self.dirty = self.dirty, {}
        loose, self.loose = self.loose, {}
        # A task refers to its workflow, so workflows are written first.
        workflows: _Values = {}
        tasks: _Values = {}
        for live in dirty.values():
            _collect(workflows, live, _WORKFLOW, _WORKFLOW_DATA)
            for task in live.take_changed():
                _collect(tasks, task, _TASK, _TASK_DATA)
        for row in loose.values():
            tasks.setdefault(_LOOSE_TASK, []).append((*astuple(row)[1:], row.pk))
        for values in (workflows, tasks):
            for statement, rows in values.items():
                if len(rows) == 1:
                    db.execute(statement, rows[0])
                else:
                    db.executemany(statement, rows)

    def discard(self) -> None:
        """What was done has failed: what it has touched is read again."""
        self.forget(*self._touched)
        self._touched.clear()
        self.new_tasks.clear()
        self.unused_keys.clear()
        self.dirty.clear()
        self.loose.clear()
        self.forget_facts()
        self.nothing_due_before_ms = 0
        self._last_task = self._last_workflow = 0  # nobody has heard of the keys that were given meanwhile

    def due_at(self, wake_at_ms: int | None) -> None:
        """Something is due then."""
        if wake_at_ms is not None and wake_at_ms < self.nothing_due_before_ms:
            self.nothing_due_before_ms = wake_at_ms

    def settle(self) -> None:
        """All is written that was changed. What has ended is let go."""
        for pk in self._touched:
            live = self._workflows.get(pk)
            if live is None:
                continue
            if live.row.status in TERMINAL_WORKFLOW_STATUSES:
                del self._workflows[pk]
            else:
                live.forget_finished()
                self._grown += live.size
        self._touched.clear()
        self.new_tasks.clear()
        self.unused_keys.clear()

    def trim(self) -> None:
        """Let the least recently used go until the rest is within its bounds."""
        while len(self._workflows) > self._limit:
            self._workflows.popitem(last=False)
        if self._grown <= MAX_BYTES // 8:
            return
        self._grown = 0  # adding all up takes time, so it is done now and then
        size = sum(live.size for live in self._workflows.values())
        while size > MAX_BYTES and self._workflows:
            size -= self._workflows.popitem(last=False)[1].size

    def clear(self) -> None:
        """The transaction has failed: nothing here can be trusted."""
        self._workflows.clear()
        self.discard()


_WORKFLOWS = "SELECT w.*, d.* FROM workflow w JOIN workflow_data d ON d.pk = w.pk WHERE w.pk IN ({})"
_PENDING = (
    "SELECT t.*, d.input, d.output, d.reason, d.reports, d.definition, y.name "
    "FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type "
    "WHERE t.workflow IN ({}) AND t.executed = 0 ORDER BY t.pk"
)


def _collect(values: _Values, one: LiveWorkflow | LiveTask, rows: _Table, payloads: _Table) -> None:
    """What must be written of a workflow or a task, and from now on is."""
    row, data = one.row, one.data
    if row is not one.written_row:
        rows.collect(values, row.pk, row, one.written_row, one.moved)
        one.written_row = row
    if data is not one.written_data:
        payloads.collect(values, row.pk, data, one.written_data, one.moved_data)
        one.written_data = data


def _moved_on(moved: _Moved, is_written: bool, changes: dict[str, Any]) -> _Moved:
    """What has changed since a row was written, when that changes too."""
    return changes if is_written else None if moved is None else {**moved, **changes}


def _waits_for_others(row: TaskRow) -> bool:
    """Whether a worker or a sub-workflow has to end before there is anything to decide about a task."""
    if row.status not in ("SCHEDULED", "IN_PROGRESS"):
        return False
    return row.queue is not None or (row.sub_workflow is not None and row.due_at_ms is None)


def _size_of(data: TaskData | WorkflowData) -> int:
    return 400 + len(data.input) + len(data.output or b"")


def _grown(before: TaskData | WorkflowData, after: TaskData | WorkflowData) -> int:
    return _size_of(after) - _size_of(before)
