"""Snapshots: the workflow definition and its task definitions as they were when a workflow started."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import blake2b

import msgspec

from conductor.coordinator.definitions.task_defs import TaskDef, parse_task_def
from conductor.coordinator.definitions.workflow_defs import workflow_def_body
from conductor.coordinator.definitions.workflow_plan import WorkflowPlan, polled_name, walk_tasks
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.settings.placeholders import find_secret_places
from conductor.coordinator.store.statements import ADD_SNAPSHOT, SNAPSHOT, TASK_TYPE
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import JsonObject

#: Limits of the cache of parsed snapshots. A snapshot never changes, so a cached one is always valid.
MAX_CACHED_SNAPSHOTS = 256
MAX_CACHED_SNAPSHOT_BYTES = 8 * 1024 * 1024
#: Key in a stored snapshot whose definition came from data, such as a worker's output. No valid definition has it.
_FROM_DATA = "\0fromData"


class SnapshotTask:
    """A task of a snapshot, and the values that are computed from its definition once."""

    def __init__(self, ref: str, task: JsonObject | None) -> None:
        self.task = task or {}
        name = str(self.task.get("name") or ref)
        embedded = self.task.get("taskDefinition")
        #: The task definition that applies; the defaults if none is registered.
        self.task_def = parse_task_def({**embedded, "name": name}, embedded=True) if embedded else TaskDef(name=name)
        #: The name that workers poll.
        self.polled_name = polled_name(task or {"name": ref})
        wire = _wire_def(self.task, self.task_def)
        encoded = msgspec.json.encode({**(task or {"taskReferenceName": ref}), "taskDefinition": wire})
        #: The task and its definition as clients read them, encoded once for all deliveries.
        self.raw = msgspec.Raw(encoded), msgspec.Raw(msgspec.json.encode(wire))
        #: The input before expressions are resolved.
        self.input_template = {**self.task_def.input_template, **(self.task.get("inputParameters") or {})}
        #: The part of the input template that names secrets, or None.
        self.secret_places = find_secret_places(self.input_template)
        #: The fields of a task's JSON that are the same for all tasks of this step. Cached by `views/task_views.py`.
        self.delivery_fields: JsonObject | None = None


class Snapshot:
    """A parsed snapshot of a workflow definition and its task definitions."""

    def __init__(self, pk: int, body: bytes) -> None:
        self.pk = pk
        #: Size in bytes, which counts towards `MAX_CACHED_SNAPSHOT_BYTES`.
        self.size = len(body)
        self.definition: JsonObject = msgspec.json.decode(body)
        #: Whether the definition came from data, such as a worker's output. Its tasks receive no secrets: otherwise, a
        #: client that provides the data could name, and read, every secret.
        self.is_from_data: bool = self.definition.pop(_FROM_DATA, False)
        self.plan = WorkflowPlan(self.definition)
        self._tasks = {task["taskReferenceName"]: task for task in walk_tasks(self.definition.get("tasks"))}
        self._defined: dict[str, SnapshotTask] = {}
        self._wire: JsonObject | None = None

    def task(self, ref: str, definition: bytes | None = None) -> SnapshotTask:
        """Return the task with a reference name, which may end with the iteration of a loop (`ref__2`).

        Args:
            ref: The reference name.
            definition: The stored definition of a task that was made at run time.
        """
        if definition is not None:
            return SnapshotTask(ref, msgspec.json.decode(definition)[0])
        known = self._defined.get(ref)
        if known is None:
            base = self.plan.base_name(ref)
            if base is None:  # do not cache it, because data can contain any number of unknown names
                return SnapshotTask(ref, None)
            known = self._defined.get(base)
            if known is None:
                known = self._defined[base] = SnapshotTask(base, self._tasks.get(base))
        return known

    def task_def(self, ref: str, definition: bytes | None = None) -> TaskDef:
        """Return the task definition that applies to a task. See `task` for the arguments."""
        return self.task(ref, definition).task_def

    def wire(self) -> JsonObject:
        """Return the definition as clients read it: every task contains its task definition."""
        if self._wire is None:
            self._wire = msgspec.json.decode(msgspec.json.encode(self.definition))
            for task in walk_tasks(self._wire.get("tasks")):
                task["taskDefinition"] = _wire_def(task, self.task_def(task["taskReferenceName"]))
        return self._wire


def _wire_def(task: JsonObject, task_def: TaskDef) -> JsonObject:
    found = task_def.wire()
    if task.get("type", "SIMPLE") in ("SIMPLE", "DYNAMIC") or task.get("taskDefinition"):
        return found
    return {**found, **_SYSTEM_TASK_DEFAULTS}


#: Defaults for system tasks: no retries, and no response timeout.
_SYSTEM_TASK_DEFAULTS = {"retryCount": 0, "responseTimeoutSeconds": 0}


class Snapshots:
    """Finds and creates snapshots, and caches parsed snapshots. The writer and the readers share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parsed: OrderedDict[int, Snapshot] = OrderedDict()
        self._bytes = 0

    def get(self, tx: Tx, pk: int) -> Snapshot:
        """Return the snapshot with this key."""
        found = self._parsed.get(pk)
        if found is None:
            body = tx.first(SNAPSHOT, pk)
            if body is None:
                raise ApiError(500, f"the definition {pk} of a workflow is missing from the database")
            found = Snapshot(pk, body)
            with self._lock:
                if pk not in self._parsed:  # another thread may have added it in the meantime
                    self._parsed[pk] = found
                    self._bytes += found.size
                while self._parsed and self._is_full():
                    self._bytes -= self._parsed.popitem(last=False)[1].size
        return found

    def _is_full(self) -> bool:
        return len(self._parsed) > MAX_CACHED_SNAPSHOTS or self._bytes > MAX_CACHED_SNAPSHOT_BYTES

    def freeze_registered(self, tx: Tx, name: str, version: int | None) -> Snapshot | None:
        """Return a snapshot of a registered workflow definition, or None if it is not registered."""
        # The cached key is dropped whenever a definition changes, so the task definitions are current.
        pk = tx.lookups.get(("snapshot", name, version), lambda: self._freeze_stored(tx, name, version))
        return None if pk is None else self.get(tx, pk)

    def _freeze_stored(self, tx: Tx, name: str, version: int | None) -> int | None:
        body = workflow_def_body(tx, name, version)
        return None if body is None else self._freeze(tx, body)

    def freeze_inline(self, tx: Tx, definition: JsonObject, *, is_from_data: bool = False) -> Snapshot:
        """Return a snapshot of an unregistered definition. With `is_from_data`, its tasks receive no secrets."""
        marked = {**definition, _FROM_DATA: True} if is_from_data else definition
        return self.get(tx, self._freeze(tx, msgspec.json.encode(marked)))

    def _freeze(self, tx: Tx, body: bytes) -> int:
        """Store a definition with the current task definitions. Return its key, which is the same for equal content."""
        frozen = msgspec.json.decode(body)
        for task in walk_tasks(frozen.get("tasks")):
            registered = tx.cached_first(TASK_TYPE, str(task.get("name")))
            if registered is not None and registered.definition is not None and not task.get("taskDefinition"):
                task["taskDefinition"] = msgspec.json.decode(registered.definition)
        content = msgspec.json.encode(frozen)
        pk = int.from_bytes(blake2b(content, digest_size=8).digest(), "big") >> 1
        tx.run(ADD_SNAPSHOT, pk, content)
        return pk
