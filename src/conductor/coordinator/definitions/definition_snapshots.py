"""Snapshots: a workflow definition as it was when a workflow started, with the task definitions of that moment."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any

import msgspec

from conductor.coordinator.definitions.task_defs import TaskDef, parse_task_def
from conductor.coordinator.definitions.workflow_defs import workflow_def_body
from conductor.coordinator.definitions.workflow_plan import WorkflowPlan, polled_name, walk_tasks
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.settings.placeholders import find_secret_places
from conductor.coordinator.store.statements import ADD_SNAPSHOT, SNAPSHOT, TASK_TYPE
from conductor.coordinator.store.transaction import Tx

#: Parsed snapshots kept in memory; they never change, so this is no second truth.
SNAPSHOTS_CACHED = 256
SNAPSHOT_BYTES_CACHED = 8 * 1024 * 1024


class SnapshotTask:
    """A task of a definition, and what is known of it once and for all."""

    def __init__(self, ref: str, task: dict[str, Any] | None) -> None:
        self.task = task or {}
        name = str(self.task.get("name") or ref)
        embedded = self.task.get("taskDefinition")
        #: The task definition that rules it; defaults for a type nobody registered.
        self.task_def = parse_task_def({**embedded, "name": name}, embedded=True) if embedded else TaskDef(name=name)
        #: What workers poll for it.
        self.polled_name = polled_name(task or {"name": ref})
        wire = _wire_def(self.task, self.task_def)
        encoded = msgspec.json.encode({**(task or {"taskReferenceName": ref}), "taskDefinition": wire})
        #: The task and its definition as clients read them: encoded once, for every task that is delivered.
        self.raw = msgspec.Raw(encoded), msgspec.Raw(msgspec.json.encode(wire))
        #: Where its input names secrets; None if it names none.
        self.secret_places = find_secret_places(
            {**self.task_def.input_template, **(self.task.get("inputParameters") or {})}
        )
        #: What is the same in every delivery, kept for whoever makes them.
        self.delivery_fields: dict[str, Any] | None = None


class Snapshot:
    """A definition as it was at the start of a workflow, with the task definitions of that moment."""

    def __init__(self, pk: int, body: bytes) -> None:
        self.pk = pk
        #: About what it takes in memory, against the length of its text.
        self.size = len(body)
        self.definition: dict[str, Any] = msgspec.json.decode(body)
        self.plan = WorkflowPlan(self.definition)
        self._tasks = {task["taskReferenceName"]: task for task in walk_tasks(self.definition.get("tasks"))}
        self._defined: dict[str, SnapshotTask] = {}
        self._wire: dict[str, Any] | None = None

    def task(self, ref: str, definition: bytes | None = None) -> SnapshotTask:
        """The task of the definition behind a reference name; those of a loop carry `__iteration`.

        `definition` is what a task that was made at run time brings along.
        """
        if definition is not None:
            return SnapshotTask(ref, msgspec.json.decode(definition)[0])
        known = self._defined.get(ref)
        if known is None:
            base = self.plan.base_name(ref)
            if base is None:  # nothing of the definition: such names may be as many as there is data
                return SnapshotTask(ref, None)
            known = self._defined.get(base)
            if known is None:
                known = self._defined[base] = SnapshotTask(base, self._tasks.get(base))
        return known

    def task_def(self, ref: str, definition: bytes | None = None) -> TaskDef:
        """The definition that rules this task. See `task`."""
        return self.task(ref, definition).task_def

    def wire(self) -> dict[str, Any]:
        """The definition as clients read it: every task with the definition that rules it."""
        if self._wire is None:
            self._wire = msgspec.json.decode(msgspec.json.encode(self.definition))
            for task in walk_tasks(self._wire.get("tasks")):
                task["taskDefinition"] = _wire_def(task, self.task_def(task["taskReferenceName"]))
        return self._wire


def _wire_def(task: dict[str, Any], task_def: TaskDef) -> dict[str, Any]:
    found = task_def.wire()
    if task.get("type", "SIMPLE") in ("SIMPLE", "DYNAMIC") or task.get("taskDefinition"):
        return found
    return {**found, **_SYSTEM_TASK}


#: What the server does itself is neither tried again nor waited for.
_SYSTEM_TASK = {"retryCount": 0, "responseTimeoutSeconds": 0}


class Snapshots:
    """Finds and makes snapshots; parsed ones are kept, by number and by size."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[int, Snapshot] = OrderedDict()
        self._bytes = 0

    def get(self, tx: Tx, pk: int) -> Snapshot:
        """The snapshot of a workflow."""
        found = self._parsed.get(pk)
        if found is None:
            body = tx.first(SNAPSHOT, pk)
            if body is None:
                raise ApiError(500, f"the definition {pk} of a workflow is missing from the database")
            found = self._parsed[pk] = Snapshot(pk, body)
            self._bytes += found.size
            while self._parsed and (len(self._parsed) > SNAPSHOTS_CACHED or self._bytes > SNAPSHOT_BYTES_CACHED):
                self._bytes -= self._parsed.popitem(last=False)[1].size
        return found

    def freeze_registered(self, tx: Tx, name: str, version: int | None) -> Snapshot | None:
        """A registered workflow frozen now; None if there is none."""
        # Any change to a definition forgets this, so that the task definitions are those of this moment.
        pk = tx.lookups.get(("snapshot", name, version), lambda: self._freeze_latest(tx, name, version))
        return None if pk is None else self.get(tx, pk)

    def _freeze_latest(self, tx: Tx, name: str, version: int | None) -> int | None:
        body = workflow_def_body(tx, name, version)
        return None if body is None else self._freeze(tx, body)

    def freeze_inline(self, tx: Tx, definition: dict[str, Any]) -> Snapshot:
        """A definition that came with the request, frozen now."""
        return self.get(tx, self._freeze(tx, msgspec.json.encode(definition)))

    def _freeze(self, tx: Tx, body: bytes) -> int:
        """Store a definition with the task definitions of this moment; the same again is the same snapshot."""
        frozen = msgspec.json.decode(body)
        for task in walk_tasks(frozen.get("tasks")):
            registered = tx.cached_first(TASK_TYPE, str(task.get("name")))
            if registered is not None and registered.definition is not None and not task.get("taskDefinition"):
                task["taskDefinition"] = msgspec.json.decode(registered.definition)
        content = msgspec.json.encode(frozen)
        pk = int.from_bytes(blake2b(content, digest_size=8).digest(), "big") >> 1
        tx.run(ADD_SNAPSHOT, pk, content)
        return pk
