"""Caches the rows of running workflows, so that the writer does not read rows back that it has just written.

The rows in SQLite are authoritative. Every entry can be dropped at any moment, and is then read again from its rows. If
a savepoint or a transaction fails, the cache drops the workflows that were changed. Only the writer thread uses it.

There is one way to change a row: `CachedWorkflow.update` and `CachedWorkflow.update_task` set columns in memory and
record which values have changed. `RowCache.write` turns the recorded changes into statements. It runs before each
statement that could read the changed rows, and at the end of the transaction.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import astuple, replace

from conductor.coordinator.store.rows import (
    TASK,
    TASK_DATA,
    WORKFLOW,
    WORKFLOW_DATA,
    Table,
    TaskData,
    TaskRow,
    WholeTask,
    WorkflowData,
    WorkflowRow,
    read_whole_task,
    read_whole_workflow,
)
from conductor.coordinator.store.statements import LAST_KEY, LATEST_TASK, TASKS_OF_WORKFLOW, WHOLE_TASK
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES, TERMINAL_WORKFLOW_STATUSES

if TYPE_CHECKING:
    from conductor.coordinator.store.transaction import Tx

R = TypeVar("R", bound=Struct)
D = TypeVar("D", bound=Struct)
T = TypeVar("T")

#: The maximum number of cached workflows, and of bytes in their payloads. Beyond that, the least recently used
#: workflows are dropped.
MAX_WORKFLOWS = 5_000
MAX_BYTES = 24 * 1024 * 1024
#: If a workflow has more finished tasks than this in the cache, all of them are dropped, and read again when needed.
MAX_FINISHED_TASKS = 1_000
#: The maximum number of cached lookups in definitions and queues, and of bytes in their results.
MAX_LOOKUPS = 10_000
MAX_LOOKUP_BYTES = 24 * 1024 * 1024
#: A statement reads at most this many workflows, because SQLite limits the number of parameters.
WORKFLOWS_PER_STATEMENT = 500
#: Estimated bytes of an entry without its payload.
ENTRY_BYTES = 400

#: The columns of a workflow's payload that `CachedWorkflow.decoded` contains.
_DECODED_COLUMNS = {"input", "variables", "task_to_domain"}
#: Maps each statement to the rows of parameters that it is executed with.
_Statements: TypeAlias = dict[str, list[tuple[Any, ...]]]


class _CachedRow(Generic[R, D]):
    """A row with its payload, and the columns that are not written yet."""

    def __init__(self, row: R, data: D, tables: tuple[Table, Table], *, is_stored: bool) -> None:
        self.row = row
        self.data = data
        self._tables = tables
        self._is_stored = is_stored
        self._row_changes: dict[str, Any] = {}
        self._data_changes: dict[str, Any] = {}

    def apply(self, columns: dict[str, Any]) -> set[str]:
        """Set columns of the row and of its payload. Return the payload columns whose value has changed."""
        row, data, row_columns = self.row, self.data, self._tables[0].names
        row_changes: dict[str, Any] = {}
        data_changes: dict[str, Any] = {}
        for name, value in columns.items():
            if name not in row_columns:
                if getattr(data, name) != value:
                    data_changes[name] = value
            elif getattr(row, name) != value:
                row_changes[name] = value
        if row_changes:
            self.row = replace(self.row, **row_changes)
            self._row_changes |= row_changes
        if data_changes:
            self.data = replace(self.data, **data_changes)
            self._data_changes |= data_changes
        return set(data_changes)

    def add_statements(self, statements: _Statements, pk: int) -> None:
        """Add the statements that write the recorded changes."""
        row_table, data_table = self._tables
        if not self._is_stored:
            statements.setdefault(row_table.insert, []).append(astuple(self.row))
            statements.setdefault(data_table.insert, []).append((pk, *astuple(self.data)))
            self._is_stored = True
        else:
            for table, changes in ((row_table, self._row_changes), (data_table, self._data_changes)):
                if changes:
                    statement = _update_statement(table.name, tuple(changes))
                    statements.setdefault(statement, []).append((*changes.values(), pk))
        self._row_changes = {}
        self._data_changes = {}


@cache
def _update_statement(table: str, columns: tuple[str, ...]) -> str:
    # Name only the changed columns, so that SQLite does not update the indexes of the other columns.
    return f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in columns)} WHERE pk = ?"  # noqa: S608 - no client input


class CachedTask(_CachedRow[TaskRow, TaskData]):
    """A cached attempt at a task."""

    def __init__(self, row: TaskRow, data: TaskData, name: str, *, is_stored: bool = True) -> None:
        super().__init__(row, data, (TASK, TASK_DATA), is_stored=is_stored)
        #: The name of the task type.
        self.name = name
        #: The id of the last lease, if the lease was granted while the task was cached.
        self.lease_id: str | None = None
        #: The task as the decider reads it; created on first use.
        self.state: Any = None

    @property
    def waits_for_others(self) -> bool:
        """Whether a worker or a sub-workflow must end the task before the decider can process it."""
        row = self.row
        if row.status in TERMINAL_TASK_STATUSES:
            return False
        return row.queue is not None or (row.sub_workflow is not None and row.due_at_ms is None)


class CachedWorkflow(_CachedRow[WorkflowRow, WorkflowData]):
    """A cached workflow with its open tasks, and with the finished tasks that were read so far."""

    def __init__(self, row: WorkflowRow, data: WorkflowData, *, is_stored: bool = True) -> None:
        super().__init__(row, data, (WORKFLOW, WORKFLOW_DATA), is_stored=is_stored)
        #: Tasks that the decider has not processed: `queued` wait for a worker or a sub-workflow, `ready` do not.
        self.queued: dict[int, CachedTask] = {}
        self.ready: dict[int, CachedTask] = {}
        #: Input, variables and domains as the decider reads them; decoded on first use.
        self.decoded: tuple[dict[str, Any], dict[str, Any], dict[str, str]] | None = None
        self.size = _size(data)
        #: Whether every task of the workflow is cached, so that a task that is not cached does not exist.
        self._is_complete = not is_stored
        self._tasks: dict[int, CachedTask] = {}
        self._latest: dict[str, CachedTask] = {}
        #: Reference names for which the database has no task.
        self._missing_refs: set[str] = set()
        self._changed: dict[int, CachedTask] = {}

    # -- finding tasks

    def task(self, tx: Tx, pk: int) -> CachedTask | None:
        """Return the task with this key; None if the workflow has no such task."""
        found = self._tasks.get(pk)
        if found is not None or self._is_complete:
            return found
        stored = tx.first(WHOLE_TASK, pk)
        if stored is None or stored.row.workflow != self.row.pk:
            return None
        return self.add_stored(stored, is_latest=False)

    def latest(self, tx: Tx, ref: str) -> CachedTask | None:
        """Return the newest attempt with this reference name. Inside a loop, the name ends with the iteration."""
        found = self._latest.get(ref)
        if found is not None or self._is_complete or ref in self._missing_refs:
            return found
        stored = tx.first(LATEST_TASK, self.row.pk, ref)
        if stored is None:
            self._missing_refs.add(ref)
            return None
        return self.add_stored(stored)

    def pending(self) -> list[CachedTask]:
        """Return the tasks that the decider has not processed, oldest first."""
        return sorted([*self.ready.values(), *self.queued.values()], key=lambda task: task.row.pk)

    def all_tasks(self, tx: Tx) -> list[CachedTask]:
        """Return every attempt, in the order of scheduling."""
        if not self._is_complete:
            for stored in tx.rows(TASKS_OF_WORKFLOW, self.row.pk):
                self.add_stored(stored)
            self._is_complete = True
        return sorted(self._tasks.values(), key=lambda task: (task.row.seq, task.row.pk))

    def add_stored(self, stored: WholeTask, *, is_latest: bool = True) -> CachedTask:
        """Cache a task that a statement has read, unless it is cached already. Return the cached one.

        Args:
            stored: The task.
            is_latest: Whether no newer attempt has the same reference name, as far as the caller knows. A task that was
                read by its key may be an old attempt, which `latest` must not return.
        """
        task = self._tasks.get(stored.row.pk)
        if task is None:
            task = CachedTask(stored.row, stored.data, stored.name)
            self._insert(task)
        if is_latest:
            self._index_latest(task)
        return task

    def check_complete(self) -> None:
        """Find out whether every task is cached: compare the number of cached tasks with the `seq` of the last task."""
        last = self._tasks.get(self.row.last_task or 0)
        self._is_complete = self.row.last_task is None or (last is not None and len(self._tasks) == last.row.seq)

    # -- changing

    def add_task(self, tx: Tx, task: CachedTask) -> None:
        """Add a new task."""
        self._missing_refs.discard(task.row.ref)
        self._insert(task)
        self._index_latest(task)
        self._changed[task.row.pk] = task
        tx.cache.touch(self)

    def update_task(self, tx: Tx, task: CachedTask, **columns: Any) -> None:
        """Set columns of `task` and `task_data` for one task of this workflow."""
        data = task.data
        task.apply(columns)
        task.state = None
        if task.data is not data:
            self.size += _size(task.data) - _size(data)
        self._sort(task)
        self._changed[task.row.pk] = task
        tx.cache.touch(self)

    def update(self, tx: Tx, **columns: Any) -> None:
        """Set columns of `workflow` and `workflow_data`."""
        data = self.data
        if self.apply(columns) & _DECODED_COLUMNS:
            self.decoded = None
        if self.data is not data:
            self.size += _size(self.data) - _size(data)
        tx.cache.touch(self)

    def drop_tasks(self, pks: Iterable[int]) -> None:
        """Forget tasks whose rows have been removed."""
        for pk in pks:
            for known in (self._tasks, self.queued, self.ready, self._changed):
                known.pop(pk, None)
        self._latest = {ref: task for ref, task in self._latest.items() if task.row.pk in self._tasks}

    def drop_finished(self) -> None:
        """Keep only the open tasks if more than `MAX_FINISHED_TASKS` finished ones are cached."""
        if len(self._tasks) - len(self.queued) - len(self.ready) <= MAX_FINISHED_TASKS:
            return
        self._tasks = {**self.queued, **self.ready}
        self._latest = {task.row.ref: task for _, task in sorted(self._tasks.items())}
        self._missing_refs.clear()
        self._is_complete = False
        self.size = _size(self.data) + sum(_size(task.data) for task in self._tasks.values())

    def take_changed(self) -> Iterable[CachedTask]:
        """Return the tasks that have changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed.values()

    def _insert(self, task: CachedTask) -> None:
        row = task.row
        self._tasks[row.pk] = task
        self.size += _size(task.data)
        self._sort(task)

    def _index_latest(self, task: CachedTask) -> None:
        known = self._latest.get(task.row.ref)
        if known is None or known.row.pk <= task.row.pk:
            self._latest[task.row.ref] = task

    def _sort(self, task: CachedTask) -> None:
        """Move a task to `queued` or to the end of `ready`, or remove it if the decider has processed it."""
        pk = task.row.pk
        if not task.row.executed and task.waits_for_others:
            self.ready.pop(pk, None)
            self.queued.setdefault(pk, task)
            return
        self.queued.pop(pk, None)
        self.ready.pop(pk, None)
        if not task.row.executed:
            self.ready[pk] = task


class LookupCache:
    """Results of lookups in definitions and queues, kept until a definition or a queue changes."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._bytes = 0

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return the cached result for `key`. If there is none, call `read` and cache its result."""
        if key in self._results:
            return self._results[key]  # type: ignore[no-any-return]
        found = read()
        self.put(key, found)
        return found

    def peek(self, key: Hashable) -> Any:
        """Return the cached result; None if there is none."""
        return self._results.get(key)

    def put(self, key: Hashable, found: Any) -> None:
        """Cache a result."""
        self._results[key] = found
        parts = found if isinstance(found, tuple) else ()
        self._bytes += ENTRY_BYTES + sum(len(part) for part in parts if isinstance(part, bytes | str))
        if len(self._results) > MAX_LOOKUPS or self._bytes > MAX_LOOKUP_BYTES:
            self.clear()

    def clear(self) -> None:
        """Drop every result, for example because a definition or a queue has changed."""
        self._results.clear()
        self._bytes = 0


class RowCache:
    """The workflows that the writer has in memory, and the keys for new rows."""

    def __init__(self) -> None:
        self._max_workflows = MAX_WORKFLOWS
        self._workflows: OrderedDict[int, CachedWorkflow] = OrderedDict()
        #: Whether the job that is running has changed a row.
        self.has_changes = False
        #: Workflows with changes that are not written.
        self._dirty: dict[int, CachedWorkflow] = {}
        #: Workflows that were changed in this transaction.
        self._touched: set[int] = set()
        self._added_bytes = 0
        self._last_task = 0
        self._last_workflow = 0
        #: The task ids that were created in this transaction, with their keys.
        self.new_tasks: dict[str, int] = {}
        #: Pairs of workflow name and idempotency key that no workflow has. Valid only in this transaction.
        self.unused_keys: set[tuple[str | None, str | None]] = set()
        #: No deadline is earlier than this time. 0 if the nearest deadline is not known.
        self.nothing_due_before_ms = 0

    # -- workflows

    def workflow(self, tx: Tx, pk: int) -> CachedWorkflow | None:
        """Return a workflow with its open tasks; None if it does not exist."""
        known = self._workflows.get(pk)
        if known is not None:
            self._workflows.move_to_end(pk)
            return known
        self.load(tx, [pk])
        return self._workflows.get(pk)

    def get_task(self, tx: Tx, workflow: int, task: int) -> tuple[CachedWorkflow, CachedTask]:
        """Return a task that is known to exist, and its workflow."""
        found = self.workflow(tx, workflow)
        found_task = found.task(tx, task) if found is not None else None
        if found is None or found_task is None:
            raise LookupError(f"task {task} of workflow {workflow} is not in the database")
        return found, found_task

    def load(self, tx: Tx, pks: Iterable[int]) -> None:
        """Cache workflows that are not cached yet. This takes two statements per batch."""
        missing = [pk for pk in dict.fromkeys(pks) if pk not in self._workflows]
        for start in range(0, len(missing), WORKFLOWS_PER_STATEMENT):
            some = missing[start : start + WORKFLOWS_PER_STATEMENT]
            marks = ", ".join("?" * len(some))
            for columns in tx.select(_SELECT_WORKFLOWS.format(marks), some):
                row, data = read_whole_workflow(*columns)
                self._workflows[row.pk] = CachedWorkflow(row, data)
            for columns in tx.select(_SELECT_PENDING_TASKS.format(marks), some):
                task = read_whole_task(*columns)
                self._workflows[task.row.workflow].add_stored(task)
            for pk in some:
                if pk in self._workflows:
                    self._workflows[pk].check_complete()

    def add(self, workflow: CachedWorkflow) -> None:
        """Add a new workflow."""
        self._workflows[workflow.row.pk] = workflow
        self.touch(workflow)

    def touch(self, workflow: CachedWorkflow) -> None:
        """Note that a workflow or one of its tasks has changed."""
        pk = workflow.row.pk
        self.has_changes = True
        self._dirty[pk] = workflow
        self._touched.add(pk)

    def drop(self, pk: int) -> None:
        """Drop a workflow from the cache. Call this when statements change or remove its rows directly."""
        self._workflows.pop(pk, None)

    def new_task_id(self, tx: Tx) -> str:
        """Return the id for a new task, and store its key in `new_tasks`."""
        self._last_task = (self._last_task or (tx.first(LAST_KEY, "task") or 0)) + 1
        task_id = tx.ids.task(self._last_task)
        self.new_tasks[task_id] = self._last_task
        return task_id

    def new_workflow_pk(self, tx: Tx) -> int:
        """Return the key for a new workflow."""
        self._last_workflow = (self._last_workflow or (tx.first(LAST_KEY, "workflow") or 0)) + 1
        return self._last_workflow

    def note_wake(self, wake_at_ms: int | None) -> None:
        """Lower `nothing_due_before_ms` to a new deadline, if the deadline is earlier."""
        if wake_at_ms is not None and wake_at_ms < self.nothing_due_before_ms:
            self.nothing_due_before_ms = wake_at_ms

    # -- writing

    @property
    def is_dirty(self) -> bool:
        """Whether there are changes that are not written."""
        return bool(self._dirty)

    def write(self, db: sqlite3.Connection) -> None:
        """Write all changes. Each row is written once, and rows with the same statement are written together."""
        dirty, self._dirty = self._dirty, {}
        # A task refers to its workflow, so workflows are written first.
        workflows: _Statements = {}
        tasks: _Statements = {}
        for pk, workflow in dirty.items():
            workflow.add_statements(workflows, pk)
            for task in workflow.take_changed():
                task.add_statements(tasks, task.row.pk)
        for statements in (workflows, tasks):
            for statement, rows in statements.items():
                db.executemany(statement, rows)

    def discard(self) -> None:
        """Drop all workflows that were changed, because the changes are rolled back."""
        for pk in self._touched:
            self.drop(pk)
        self._touched.clear()
        self._dirty.clear()
        self.new_tasks.clear()
        self.unused_keys.clear()
        self.nothing_due_before_ms = 0
        self._last_task = self._last_workflow = 0  # the keys of the dropped rows can be used again

    def end_transaction(self) -> None:
        """Drop ended workflows, and forget which workflows and keys belong to this transaction.

        Called after all changes are written.
        """
        for pk in self._touched:
            workflow = self._workflows.get(pk)
            if workflow is None:
                continue
            if workflow.row.status in TERMINAL_WORKFLOW_STATUSES:
                del self._workflows[pk]
            else:
                workflow.drop_finished()
                self._added_bytes += workflow.size
        self._touched.clear()
        self.new_tasks.clear()
        self.unused_keys.clear()

    def trim(self) -> None:
        """Drop the least recently used workflows until the cache is within its bounds."""
        while len(self._workflows) > self._max_workflows:
            self._workflows.popitem(last=False)
        if self._added_bytes <= MAX_BYTES // 8:  # checked rarely, because adding up all sizes is slow
            return
        self._added_bytes = 0
        size = sum(workflow.size for workflow in self._workflows.values())
        while size > MAX_BYTES and self._workflows:
            size -= self._workflows.popitem(last=False)[1].size

    def clear(self) -> None:
        """Drop the whole cache, because the transaction has failed."""
        self._workflows.clear()
        self.discard()


_SELECT_WORKFLOWS = (
    "SELECT w.*, d.input, d.output, d.variables, d.task_to_domain, d.reason, d.created_by, d.failed_task, d.started_by "
    "FROM workflow w JOIN workflow_data d ON d.pk = w.pk WHERE w.pk IN ({})"
)
_SELECT_PENDING_TASKS = (
    "SELECT t.*, d.input, d.output, d.reason, d.reports, d.definition, y.name "
    "FROM task t JOIN task_data d ON d.pk = t.pk JOIN task_type y ON y.pk = t.type "
    "WHERE t.workflow IN ({}) AND t.executed = 0 ORDER BY t.pk"
)


def _size(data: TaskData | WorkflowData) -> int:
    return ENTRY_BYTES + len(data.input) + len(data.output or b"")
