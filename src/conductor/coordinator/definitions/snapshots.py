"""Snapshots: a workflow definition as it was when a workflow started, with the task definitions of that moment."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any

import msgspec

from conductor.coordinator.definitions.plan import Plan, polled_name, walk_tasks
from conductor.coordinator.definitions.task_defs import TaskDef, parse_task_def
from conductor.coordinator.definitions.workflow_defs import workflow_def_body
from conductor.coordinator.errors import ApiError
from conductor.coordinator.settings.placeholders import places
from conductor.coordinator.store.transaction import Tx

#: Parsed snapshots kept in memory; they never change, so this is no second truth.
SNAPSHOTS_CACHED = 256
SNAPSHOT_BYTES_CACHED = 8 * 1024 * 1024


class Snapshot:
    """A definition as it was at the start of a workflow, with the task definitions of that moment."""

    def __init__(self, pk: int, body: bytes) -> None:
        self.pk = pk
        #: About what it takes in memory, against the length of its text.
        self.size = len(body)
        self.definition: dict[str, Any] = msgspec.json.decode(body)
        self.plan = Plan(self.definition)
        self._tasks = {task["taskReferenceName"]: task for task in walk_tasks(self.definition.get("tasks"))}
        self._raw: dict[str, tuple[msgspec.Raw, msgspec.Raw]] = {}
        self._defs: dict[str, TaskDef] = {}
        self._wire: dict[str, Any] | None = None
        self._places: dict[str, Any] = {}

    def workflow_task(self, ref: str) -> dict[str, Any] | None:
        """The task of the definition behind a reference name; those of a loop carry `__iteration`."""
        return self._tasks.get(self.plan.base_of(ref) or ref)

    def task_def(self, ref: str, definition: bytes | None = None) -> TaskDef:
        """The definition that rules this task; defaults for a type nobody registered. See `raw`."""
        if definition is not None:
            made = _made(definition)
            return parse_task_def({**(made.get("taskDefinition") or {}), "name": made["name"]}, embedded=True)
        task = self.workflow_task(ref) or {}
        name = str(task.get("name") or ref)
        if name not in self._defs:
            embedded = task.get("taskDefinition")
            self._defs[name] = (
                parse_task_def({**embedded, "name": name}, embedded=True) if embedded else TaskDef(name=name)
            )
        return self._defs[name]

    def secret_places(self, ref: str) -> Any:
        """Where the input of this task names secrets; None if it names none."""
        if ref not in self._places:
            task = self.workflow_task(ref) or {}
            template = self.task_def(ref).input_template
            self._places[ref] = places({**template, **(task.get("inputParameters") or {})})
        return self._places[ref]

    def polled_name(self, ref: str, definition: bytes | None = None) -> str:
        """What workers poll for this task. See `raw`."""
        return polled_name(_made(definition) if definition else self.workflow_task(ref) or {"name": ref})

    def raw(self, ref: str, definition: bytes | None = None) -> tuple[msgspec.Raw, msgspec.Raw]:
        """(workflow task, task definition) encoded once, for every task that is delivered.

        `definition` is what a task that was made at run time brings along.
        """
        if definition is not None:
            return self._encoded(_made(definition), self.task_def(ref, definition))
        if ref not in self._raw:
            task = self.workflow_task(ref) or {"taskReferenceName": ref}
            self._raw[ref] = self._encoded(task, self.task_def(ref))
        return self._raw[ref]

    def _encoded(self, task: dict[str, Any], task_def: TaskDef) -> tuple[msgspec.Raw, msgspec.Raw]:
        wire = _wire_def(task, task_def)
        encoded = msgspec.json.encode({**task, "taskDefinition": wire})
        return msgspec.Raw(encoded), msgspec.Raw(msgspec.json.encode(wire))

    def wire(self) -> dict[str, Any]:
        """The definition as clients read it: every task with the definition that rules it."""
        if self._wire is None:
            self._wire = msgspec.json.decode(msgspec.json.encode(self.definition))
            for task in walk_tasks(self._wire.get("tasks")):
                task["taskDefinition"] = _wire_def(task, self.task_def(task["taskReferenceName"]))
        return self._wire


def _made(definition: bytes) -> dict[str, Any]:
    """The workflow task of a task that was made at run time."""
    return msgspec.json.decode(definition)[0]  # type: ignore[no-any-return]


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
            body = tx.value("snapshot", pk)
            if body is None:
                raise ApiError(500, f"the definition {pk} of a workflow is missing from the database")
            found = self._parsed[pk] = Snapshot(pk, body)
            self._bytes += found.size
            while self._parsed and (len(self._parsed) > SNAPSHOTS_CACHED or self._bytes > SNAPSHOT_BYTES_CACHED):
                self._bytes -= self._parsed.popitem(last=False)[1].size
        return found

    def of_registered(self, tx: Tx, name: str, version: int | None) -> Snapshot | None:
        """A registered workflow frozen now; None if there is none."""
        # Any change to a definition forgets this, so that the task definitions are those of this moment.
        pk = tx.live.fact(("frozen", name, version), lambda: self._freeze_registered(tx, name, version))
        return None if pk is None else self.get(tx, pk)

    def _freeze_registered(self, tx: Tx, name: str, version: int | None) -> int | None:
        body = workflow_def_body(tx, name, version)
        return None if body is None else self._freeze(tx, body)

    def of_inline(self, tx: Tx, definition: dict[str, Any]) -> Snapshot:
        """A definition that came with the request, frozen now."""
        return self.get(tx, self._freeze(tx, msgspec.json.encode(definition)))

    def _freeze(self, tx: Tx, body: bytes) -> int:
        """Store a definition with the task definitions of this moment; the same again is the same snapshot."""
        frozen = msgspec.json.decode(body)
        for task in walk_tasks(frozen.get("tasks")):
            registered = tx.fact("task type", str(task.get("name")))
            if registered is not None and registered[1] is not None and not task.get("taskDefinition"):
                task["taskDefinition"] = msgspec.json.decode(registered[1])
        content = msgspec.json.encode(frozen)
        pk = int.from_bytes(blake2b(content, digest_size=8).digest(), "big") >> 1
        tx.run("add snapshot", pk, content)
        return pk
