"""Task definitions: their fields, their limits and their storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from conductor.coordinator.definitions.json_schemas import find_schema_form_problem, find_schema_problem
from conductor.coordinator.request_errors import invalid, not_found
from conductor.coordinator.store.statements import (
    ADD_QUEUE,
    ADD_TASK_TYPE,
    DROP_TASK_DEFINITION,
    QUEUE,
    SET_TASK_TYPE,
    SET_TASK_TYPE_LIMITS,
    TASK_DEFINITIONS,
    TASK_TYPE,
)
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import Json, JsonObject
from conductor.protocol.wire import DEFAULT_RESPONSE_TIMEOUT_S

#: The largest Java int, the type of numbers in Conductor's definitions.
MAX_INT = 2**31 - 1
Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_INT)]


class TaskDef(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=False):
    """A task definition with Conductor's names, defaults and limits."""

    name: str
    description: str | None = None
    retry_count: Count = 3
    timeout_seconds: Count = 0
    input_keys: list[str] = []
    output_keys: list[str] = []
    #: Names of secrets that every task of this type receives.
    runtime_metadata: list[str] = []
    timeout_policy: Literal["RETRY", "TIME_OUT_WF", "ALERT_ONLY"] = "TIME_OUT_WF"
    retry_logic: Literal["FIXED", "EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"] = "FIXED"
    retry_delay_seconds: Count = 60
    response_timeout_seconds: Positive = DEFAULT_RESPONSE_TIMEOUT_S
    concurrent_exec_limit: Count | None = None
    input_template: JsonObject = {}
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
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    enforce_schema: bool = False
    owner_app: str | None = None
    create_time: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    update_time: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    created_by: str | None = None
    updated_by: str | None = None

    def wire(self) -> JsonObject:
        """Return the definition as JSON. Fields without a value are left out."""
        return {key: value for key, value in msgspec.to_builtins(self).items() if value is not None}


def parse_task_def(raw: Json, path: str = "taskDef", *, embedded: bool = False) -> TaskDef:
    """Parse a task definition. Raises ApiError with status 400 and all problems.

    A definition that is `embedded` in a workflow may have contradictory timeouts, as on Conductor.
    """
    if not isinstance(raw, dict):
        raise invalid([(path, f"a task definition must be a JSON object, not {type(raw).__name__}")])
    try:
        found = msgspec.convert({k: v for k, v in raw.items() if v is not None}, TaskDef, strict=False)
    except msgspec.ValidationError as error:
        if "required field `name`" in str(error):
            raise invalid([(f"{path}.name", "TaskDef name cannot be null or empty")]) from error
        raise invalid([(path, f"{raw.get('name', '')}: {error}")]) from error
    problems = [] if embedded else list(_timeout_problems(found, path))
    if not found.name.strip():
        problems.append((f"{path}.name", "TaskDef name cannot be null or empty"))
    if found.enforce_schema and (wrong := find_schema_form_problem(found.input_schema)) is not None:
        problems.append((f"{path}.inputSchema", f"the input schema of {found.name} cannot be used: {wrong}"))
    if problems:
        raise invalid(problems)
    return found


def find_task_def_warnings(task_def: TaskDef) -> list[str]:
    """Return why tasks of this type will fail, although the definition can be registered."""
    wrong = find_schema_problem(task_def.input_schema) if task_def.enforce_schema else None
    return [] if wrong is None else [f"the input schema of {task_def.name} cannot be used, so no task can run: {wrong}"]


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
    """Return the registered definition of a task type, or None."""
    row = tx.cached_first(TASK_TYPE, name)
    return msgspec.json.decode(row.definition, type=TaskDef) if row and row.definition is not None else None


def put_task_def(tx: Tx, task_def: TaskDef) -> None:
    """Register or replace a definition."""
    tx.define(SET_TASK_TYPE, task_def.name, msgspec.json.encode(task_def.wire()), *_limits(task_def))


def register_task_defs(tx: Tx, found: list[TaskDef]) -> None:
    """Register or replace definitions, and set their time of creation."""
    for task_def in found:
        task_def.create_time = tx.now_ms
        task_def.created_by = task_def.created_by or ""
        put_task_def(tx, task_def)


def update_task_def(tx: Tx, task_def: TaskDef) -> None:
    """Replace a registered definition; 404 if it is not registered."""
    before = get_task_def(tx, task_def.name)
    if before is None:
        raise not_found(f"No such task by name {task_def.name}")
    task_def.create_time = before.create_time
    task_def.update_time = tx.now_ms
    put_task_def(tx, task_def)


def drop_task_def(tx: Tx, name: str) -> None:
    """Remove a definition. Running workflows keep their snapshot of it."""
    if not tx.define(DROP_TASK_DEFINITION, name):
        raise not_found("No such task definition")


def all_task_defs(tx: Tx) -> list[JsonObject]:
    """Return all registered definitions."""
    return [msgspec.json.decode(body) for body in tx.rows(TASK_DEFINITIONS)]


def _limits(task_def: TaskDef) -> tuple[int, int, int]:
    return (
        task_def.concurrent_exec_limit or 0,
        task_def.rate_limit_per_frequency,
        task_def.rate_limit_frequency_in_seconds * 1000,
    )


def get_queue_keys(tx: Tx, name: str, domain: str, embedded: TaskDef) -> tuple[int, int]:
    """Return the keys of a task type and of its queue for a domain; add them to the store on first use."""
    key = "queue keys", name, domain
    known: tuple[int, int, TaskDef] | None = tx.lookups.peek(key)
    # The identity is tested first, because the definitions are nearly always the same object and comparing them is
    # slow.
    if known is None or (known[2] is not embedded and known[2] != embedded):
        task_type = get_task_type_pk(tx, name, embedded)
        known = task_type, _get_queue_pk(tx, task_type, domain), embedded
        tx.lookups.put(key, known)
    return known[:2]


def get_task_type_pk(tx: Tx, name: str, embedded: TaskDef | None = None) -> int:
    """Return the key of a task type; add it to the store on first use.

    The limits of an embedded definition apply to a type that is not registered.
    """
    row = tx.cached_first(TASK_TYPE, name)
    if row is None:
        tx.define(ADD_TASK_TYPE, name)
        row = tx.cached_first(TASK_TYPE, name)
    if row is None:
        raise LookupError(f"task type {name!r} is not in the database, although it was just added")
    if embedded is not None and row.definition is None and row[2:] != _limits(embedded):
        tx.define(SET_TASK_TYPE_LIMITS, *_limits(embedded), row.pk)
    return row.pk


def _get_queue_pk(tx: Tx, task_type: int, domain: str) -> int:
    pk = tx.cached_first(QUEUE, task_type, domain)
    if pk is None:
        tx.define(ADD_QUEUE, task_type, domain)
        pk = tx.cached_first(QUEUE, task_type, domain)
    if pk is None:
        raise LookupError(f"the queue of task type {task_type} is not in the database, although it was just added")
    return pk
