"""Task and workflow definitions: what may be registered, and what a running workflow keeps of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from conductor.coordinator.errors import ApiError, conflict, invalid, not_found
from conductor.coordinator.plan import Plan, inner_sequences
from conductor.coordinator.store import Tx
from conductor.wire import DEFAULT_RESPONSE_TIMEOUT_S

#: Java's int: what Conductor's definitions are made of.
MAX_INT = 2**31 - 1
Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_INT)]
#: Parsed snapshots kept in memory; they never change, so this is no second truth.
SNAPSHOTS_CACHED = 256


class TaskDef(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=False):
    """A task definition with Conductor's names, defaults and bounds."""

    name: str
    description: str | None = None
    retry_count: Count = 3
    timeout_seconds: Count = 0
    input_keys: list[str] = []
    output_keys: list[str] = []
    timeout_policy: Literal["RETRY", "TIME_OUT_WF", "ALERT_ONLY"] = "TIME_OUT_WF"
    retry_logic: Literal["FIXED", "EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"] = "FIXED"
    retry_delay_seconds: Count = 60
    response_timeout_seconds: Positive = DEFAULT_RESPONSE_TIMEOUT_S
    concurrent_exec_limit: Count | None = None
    input_template: dict[str, Any] = {}
    rate_limit_per_frequency: Count = 0
    rate_limit_frequency_in_seconds: Positive = 1
    isolation_group_id: str | None = None
    execution_name_space: str | None = None
    owner_email: str | None = None
    poll_timeout_seconds: Count | None = None
    backoff_scale_factor: Positive = 1
    max_retry_delay_seconds: Count = 0
    backoff_jitter_ms: Count = 0
    base_type: str | None = None
    total_timeout_seconds: Count = 0
    task_status_listener_enabled: bool = True
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    enforce_schema: bool = False
    owner_app: str | None = None
    create_time: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    update_time: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    created_by: str | None = None
    updated_by: str | None = None

    def wire(self) -> dict[str, Any]:
        """As JSON, without what is absent."""
        return {key: value for key, value in msgspec.to_builtins(self).items() if value is not None}


def parse_task_def(raw: Any, path: str = "taskDef") -> TaskDef:
    """Read a definition from a request; ApiError 400 names what is wrong."""
    if not isinstance(raw, dict):
        raise invalid([(path, f"a task definition is a JSON object, not {type(raw).__name__}")])
    try:
        found = msgspec.convert({k: v for k, v in raw.items() if v is not None}, TaskDef, strict=False)
    except msgspec.ValidationError as error:
        if "required field `name`" in str(error):
            raise invalid([(f"{path}.name", "TaskDef name cannot be null or empty")]) from error
        raise invalid([(path, f"{raw.get('name', '')}: {error}")]) from error
    problems = list(_timeout_problems(found, path))
    if not found.name.strip():
        problems.append((f"{path}.name", "TaskDef name cannot be null or empty"))
    if problems:
        raise invalid(problems)
    return found


def _timeout_problems(task_def: TaskDef, path: str) -> Iterator[tuple[str, str]]:
    name, timeout = task_def.name, task_def.timeout_seconds
    if timeout and task_def.response_timeout_seconds > timeout:
        yield (
            f"{path}.responseTimeoutSeconds",
            (
                f"TaskDef: {name} responseTimeoutSeconds: {task_def.response_timeout_seconds} must be less than "
                f"timeoutSeconds: {timeout}"
            ),
        )
    if timeout and 0 < task_def.total_timeout_seconds < timeout:
        yield (
            f"{path}.totalTimeoutSeconds",
            (
                f"TaskDef: {name} timeoutSeconds: {timeout} must be less than or equal to totalTimeoutSeconds: "
                f"{task_def.total_timeout_seconds}"
            ),
        )


# -- task definitions in the store ---------------------------------------------------------------------------------


def get_task_def(tx: Tx, name: str) -> TaskDef | None:
    """The registered definition, or None."""
    row = tx.row("task type", name)
    return msgspec.json.decode(row[1], type=TaskDef) if row and row[1] is not None else None


def put_task_def(tx: Tx, task_def: TaskDef) -> None:
    """Register or replace."""
    tx.run("set task type", task_def.name, msgspec.json.encode(task_def.wire()), *_limits(task_def))


def register_task_defs(tx: Tx, found: list[TaskDef]) -> None:
    """Create or replace each."""
    for task_def in found:
        task_def.create_time = tx.now_ms
        task_def.created_by = task_def.created_by or ""
        put_task_def(tx, task_def)


def update_task_def(tx: Tx, task_def: TaskDef) -> None:
    """Replace one that exists; 404 otherwise."""
    before = get_task_def(tx, task_def.name)
    if before is None:
        raise not_found(f"No such task by name {task_def.name}")
    task_def.create_time = before.create_time
    task_def.update_time = tx.now_ms
    put_task_def(tx, task_def)


def drop_task_def(tx: Tx, name: str) -> None:
    """Forget the definition; tasks that run keep the one they started with."""
    if not tx.run("drop task definition", name):
        raise not_found("No such task definition")


def all_task_defs(tx: Tx) -> list[dict[str, Any]]:
    """Every registered definition."""
    return [msgspec.json.decode(row[0]) for row in tx.rows("task definitions")]


def _limits(task_def: TaskDef) -> tuple[int, int, int]:
    return (
        task_def.concurrent_exec_limit or 0,
        task_def.rate_limit_per_frequency,
        task_def.rate_limit_frequency_in_seconds * 1000,
    )


def type_pk(tx: Tx, name: str, embedded: TaskDef | None = None) -> int:
    """The key of a task type, made on first use. A definition inside a workflow limits types nobody registered."""
    row = tx.row("task type", name)
    pk = int(row[0]) if row else tx.insert("add task type", name)
    if embedded is not None and (row is None or row[1] is None):
        tx.run("set task type limits", *_limits(embedded), pk)
    return pk


def queue_pk(tx: Tx, task_type: int, domain: str) -> int:
    """The key of a queue, made on first use."""
    pk = tx.value("queue", task_type, domain)
    return int(pk) if pk is not None else tx.insert("add queue", task_type, domain)


# -- workflow definitions in the store -----------------------------------------------------------------------------


def get_workflow_def(tx: Tx, name: str, version: int | None = None) -> dict[str, Any] | None:
    """One version, or the latest."""
    body = _workflow_def_body(tx, name, version)
    return None if body is None else msgspec.json.decode(body, type=dict[str, Any])


def _workflow_def_body(tx: Tx, name: str, version: int | None) -> bytes | None:
    return tx.value("workflow definition", name, version) if version else tx.value("latest workflow definition", name)


def put_workflow_def(tx: Tx, definition: dict[str, Any], *, overwrite: bool) -> None:
    """Register; 409 if it exists and may not be replaced."""
    name, version = definition["name"], definition["version"]
    before = tx.value("workflow definition", name, version)
    if before is not None and not overwrite:
        raise conflict(f"Workflow with {name}.{version} already exists!")
    created = msgspec.json.decode(before).get("createTime", tx.now_ms) if before is not None else tx.now_ms
    stamped = {**definition, "createTime": created, "updateTime": tx.now_ms}
    tx.run("set workflow definition", name, version, msgspec.json.encode(stamped), tx.now_ms)


def drop_workflow_def(tx: Tx, name: str, version: int) -> None:
    """Forget one version; running workflows keep theirs."""
    if not tx.run("drop workflow definition", name, version):
        raise not_found(f"No such workflow definition: {name} version: {version}")


def with_defaults(raw: dict[str, Any]) -> dict[str, Any]:
    """A definition with Conductor's defaults filled in, at every level of nesting."""
    filled = {
        "version": 1,
        "schemaVersion": 2,
        "restartable": True,
        "workflowStatusListenerEnabled": False,
        "timeoutPolicy": "ALERT_ONLY",
        "timeoutSeconds": 0,
        "inputParameters": [],
        "outputParameters": {},
        "variables": {},
        "inputTemplate": {},
        "enforceSchema": True,
        **{key: value for key, value in raw.items() if value is not None},
    }
    filled["tasks"] = [_task_with_defaults(task) for task in filled.get("tasks") or []]
    return filled


def _task_with_defaults(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw  # validation says what is wrong with it
    return {
        "inputParameters": {},
        "type": "SIMPLE",
        "startDelay": 0,
        "optional": False,
        "asyncComplete": False,
        **{key: value for key, value in raw.items() if value is not None},
    }


# -- snapshots -----------------------------------------------------------------------------------------------------


def walk_tasks(tasks: Any) -> Iterator[dict[str, Any]]:
    """Every task of a definition, those inside branches and loops too."""
    for task in tasks or []:
        yield task
        for sequence in inner_sequences(task):
            yield from walk_tasks(sequence)


class Snapshot:
    """A definition as it was at the start of a workflow, with the task definitions of that moment."""

    def __init__(self, pk: int, body: bytes) -> None:
        self.pk = pk
        self.definition: dict[str, Any] = msgspec.json.decode(body)
        self.plan = Plan(self.definition)
        self._tasks = {task["taskReferenceName"]: task for task in walk_tasks(self.definition.get("tasks"))}
        self._raw: dict[str, tuple[msgspec.Raw, msgspec.Raw]] = {}
        self._defs: dict[str, TaskDef] = {}
        self._wire: dict[str, Any] | None = None

    def workflow_task(self, ref: str) -> dict[str, Any] | None:
        """The task of the definition behind a reference name; those of a loop carry `__iteration`."""
        return self._tasks.get(ref) or self._tasks.get(ref.rpartition("__")[0])

    def task_def(self, ref: str) -> TaskDef:
        """The definition that rules this task; defaults for a type nobody registered."""
        task = self.workflow_task(ref) or {}
        name = str(task.get("name") or ref)
        if name not in self._defs:
            embedded = task.get("taskDefinition")
            self._defs[name] = parse_task_def({**embedded, "name": name}) if embedded else TaskDef(name=name)
        return self._defs[name]

    def raw(self, ref: str) -> tuple[msgspec.Raw, msgspec.Raw]:
        """(workflow task, task definition) encoded once, for every task that is delivered."""
        if ref not in self._raw:
            task = self.workflow_task(ref) or {"taskReferenceName": ref}
            task_def = self._wire_def(task, ref)
            encoded = msgspec.json.encode({**task, "taskDefinition": task_def})
            self._raw[ref] = msgspec.Raw(encoded), msgspec.Raw(msgspec.json.encode(task_def))
        return self._raw[ref]

    def wire(self) -> dict[str, Any]:
        """The definition as clients read it: every task with the definition that rules it."""
        if self._wire is None:
            self._wire = msgspec.json.decode(msgspec.json.encode(self.definition))
            for task in walk_tasks(self._wire.get("tasks")):
                task["taskDefinition"] = self._wire_def(task, task["taskReferenceName"])
        return self._wire

    def _wire_def(self, task: dict[str, Any], ref: str) -> dict[str, Any]:
        found = self.task_def(ref).wire()
        if task.get("type", "SIMPLE") == "SIMPLE" or task.get("taskDefinition"):
            return found
        return {**found, **_SYSTEM_TASK}


#: What the server does itself is neither tried again nor waited for.
_SYSTEM_TASK = {"retryCount": 0, "responseTimeoutSeconds": 0}


class Snapshots:
    """Finds and makes snapshots; parsed ones are kept."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[int, Snapshot] = OrderedDict()
        #: definition → the task types it asks for; (definition, their definitions) → the key of the snapshot
        self._names: dict[bytes, tuple[str, ...]] = {}
        self._made: dict[tuple[bytes, tuple[bytes | None, ...]], int] = {}

    def get(self, tx: Tx, pk: int) -> Snapshot:
        """The snapshot of a workflow."""
        found = self._parsed.get(pk)
        if found is None:
            body = tx.value("snapshot", pk)
            if body is None:
                raise ApiError(500, f"the definition {pk} of a workflow is missing from the database")
            found = self._parsed[pk] = Snapshot(pk, body)
            if len(self._parsed) > SNAPSHOTS_CACHED:
                self._parsed.popitem(last=False)
        return found

    def of_registered(self, tx: Tx, name: str, version: int | None) -> Snapshot | None:
        """A registered workflow frozen now; None if there is none."""
        body = _workflow_def_body(tx, name, version)
        return None if body is None else self._frozen(tx, body)

    def of_inline(self, tx: Tx, definition: dict[str, Any]) -> Snapshot:
        """A definition that came with the request, frozen now."""
        return self._frozen(tx, msgspec.json.encode(definition))

    def _frozen(self, tx: Tx, body: bytes) -> Snapshot:
        """The task definitions of this moment belong to it: they are part of what the cache compares."""
        names = self._names.get(body)
        if names is None:
            tasks = walk_tasks(msgspec.json.decode(body).get("tasks"))
            names = tuple({str(task.get("name")): None for task in tasks if not task.get("taskDefinition")})
        registered = tuple(tx.row("task type", name) for name in names)
        key = body, tuple(row[1] if row else None for row in registered)
        pk = self._made.get(key)
        if pk is None or tx.value("snapshot exists", pk) is None:
            pk = self._make(tx, body, dict(zip(names, key[1], strict=True)))
            if len(self._made) > SNAPSHOTS_CACHED:
                self._made.clear()
                self._names.clear()
            self._names[body], self._made[key] = names, pk
        return self.get(tx, pk)

    def _make(self, tx: Tx, body: bytes, task_defs: dict[str, bytes | None]) -> int:
        frozen = msgspec.json.decode(body)
        for task in walk_tasks(frozen.get("tasks")):
            registered = task_defs.get(str(task.get("name")))
            if registered is not None and not task.get("taskDefinition"):
                task["taskDefinition"] = msgspec.json.decode(registered)
        content = msgspec.json.encode(frozen)
        pk = int.from_bytes(blake2b(content, digest_size=8).digest(), "big") >> 1
        tx.run("add snapshot", pk, content)
        return pk
