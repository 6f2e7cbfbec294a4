"""JSON schemas: those that are kept under a name, and the check of an input against the one its definition enforces.

Schema and input are both from strangers. Nothing is fetched for them, and how much work a schema can make is known
before it is used: a schema of two kilobytes can ask for the same check a million times over.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from conductor.coordinator.definitions.schema_cost import (
    _PER_LETTER,
    _PER_TRIED_LETTER,
    _TOO_DEEP,
    MAX_TRIED_LENGTH,
    MAX_TRIES,
    PlainSchema,
    SchemaRefused,
    WorkBound,
    cut,
)
from conductor.coordinator.store.statements import DROP_SCHEMA, DROP_SCHEMAS, LATEST_SCHEMA, SCHEMA, SCHEMAS, SET_SCHEMA
from conductor.coordinator.store.transaction import Tx

if TYPE_CHECKING:
    from conductor.coordinator.definitions.task_defs import TaskDef

#: The types that a schema can have on Conductor. Only the first can be enforced here.
SCHEMA_TYPES = ("JSON", "AVRO", "PROTOBUF")
#: A schema that is larger than this as JSON cannot be used.
MAX_SCHEMA_BYTES = 256 * 1024
#: An input nested deeper than this is refused; with a long chain of schemas, earlier: both are on the stack at once.
MAX_INPUT_DEPTH = 200
MAX_NESTED_CHECKS = 3000
#: Checks for one whole input, half a second or so.
MAX_WORK = 2_500_000
#: Up to this much work, a message says where the input is wrong even if that takes looking at every alternative.
MAX_EXPLAINED_WORK = 100_000
#: Compiled schemas that are kept, and how large they were as JSON.
MAX_KEPT = 256
MAX_KEPT_BYTES = 8 * 1024 * 1024


# -- schemas in the store ------------------------------------------------------------------------------------------


def put_schema(tx: Tx, name: str, version: int, schema: dict[str, Any]) -> None:
    """Register or replace one version."""
    tx.run(SET_SCHEMA, name, version, msgspec.json.encode({**schema, "version": version}))


def get_schema(tx: Tx, name: str, version: int | None = None) -> dict[str, Any] | None:
    """One version, or the latest; None if there is none."""
    body = tx.first(LATEST_SCHEMA, name) if version is None else tx.first(SCHEMA, name, version)
    return None if body is None else msgspec.json.decode(body, type=dict[str, Any])


def all_schemas(tx: Tx) -> list[dict[str, Any]]:
    """Every version of every schema."""
    return [msgspec.json.decode(body) for body in tx.rows(SCHEMAS)]


def drop_schema(tx: Tx, name: str, version: int | None = None) -> bool:
    """Forget one version, or all of them. Whether there was one."""
    return bool(tx.run(DROP_SCHEMAS, name) if version is None else tx.run(DROP_SCHEMA, name, version))


# -- enforcing them ------------------------------------------------------------------------------------------------


def find_task_input_problem(tx: Tx, task_def: TaskDef, given: dict[str, Any]) -> str | None:
    """Why the input of a task is not accepted, with the path of the value; None if it is."""
    if not task_def.enforce_schema:
        return None
    return _problem(tx, task_def.name, task_def.input_schema, given)


def find_workflow_input_problem(tx: Tx, definition: Mapping[str, Any], given: dict[str, Any]) -> str | None:
    """Why a workflow cannot be started with this input; None if it can. A definition enforces unless it says no."""
    if definition.get("enforceSchema") is False:
        return None
    return _problem(tx, str(definition.get("name")), definition.get("inputSchema"), given)


def find_schema_form_problem(schema: Any) -> str | None:
    """Return why a definition cannot have this schema (name, version, type, data); None if it can.

    Whether `data` is a schema that can be used is a question of `find_schema_problem`.
    """
    if not isinstance(schema, dict):
        return None if schema is None else "a schema is a JSON object with name, version, type and data"
    kind = schema.get("type")
    if kind is not None and kind not in SCHEMA_TYPES:
        return f"its type is '{cut(str(kind))}'; it can be {', '.join(SCHEMA_TYPES)}"
    version = schema.get("version")
    if version is not None and (type(version) is not int or not 0 <= version < 2**31):
        return "its version is not a whole number"
    return None


def find_schema_problem(schema: Any) -> str | None:
    """Return why no input can be checked by this schema; None if it can.

    A schema that only names a registered one has no data to look at.
    """
    wrong = find_schema_form_problem(schema)
    if wrong is not None or schema is None:
        return wrong
    if schema.get("type") not in (None, "JSON"):
        return f"its type is {schema['type']}; only JSON is supported by the coordinator"
    return _compiled(schema["data"]).problem if schema.get("data") else None


def _problem(tx: Tx, owner: str, named: Any, given: dict[str, Any]) -> str | None:
    if not named:
        return None
    wrong = find_schema_problem(named)
    if wrong is None and not named.get("data"):
        named = get_schema(tx, str(named.get("name")), named.get("version") or 1)
        if named is None or not named.get("data"):
            return None
        wrong = find_schema_problem(named)
    if wrong is not None:
        return f"the input schema of {owner} cannot be used: {wrong}"
    wrong = _compiled(named["data"]).refusal(given)
    return None if wrong is None else f"input of {owner} refused by its schema: {wrong}"


@dataclass(slots=True)
class _Compiled:
    """A schema that was looked at: either it has a problem, or it can check."""

    problem: str | None = None
    validator: Any = None
    #: What one value of an input can cost at most, how many schemas deep that goes, and how many patterns are tried.
    checks: int = 0
    chain: int = 0
    tries: int = 0
    #: Whether it has alternatives, each of which an explanation looks into.
    alternatives: bool = False

    def refusal(self, given: dict[str, Any]) -> str | None:
        """Why an input does not pass; None if it does."""
        values, letters, tried, depth = _measured(given, MAX_WORK / self.checks)
        if depth > MAX_INPUT_DEPTH or depth * self.chain > MAX_NESTED_CHECKS:
            return f"the input is nested {depth} levels deep, which is too deep to be checked"
        work = (values + letters * _PER_LETTER) * self.checks + tried * _PER_TRIED_LETTER * self.tries
        if work > MAX_WORK:
            return (
                f"checking the input would take more than {MAX_WORK} steps "
                f"(up to {self.checks} for each of its values); send less of it, or simplify the schema"
            )
        try:
            if self.validator.is_valid(given):
                return None
            if self.alternatives and work > MAX_EXPLAINED_WORK:
                return "the input does not match; it is too large to say where"
            self.validator.validate(given)
        except ValueError as error:  # jsonschema_rs.ValidationError is one of them
            where = ".".join(str(part) for part in getattr(error, "instance_path", ())) or "the input"
            return f"{cut(where)}: {cut(getattr(error, 'message', str(error)))}"
        return None


def _compiled(schema: Any) -> _Compiled:
    try:
        body = msgspec.json.encode(schema)
    except RecursionError:
        return _Compiled(problem=_TOO_DEEP)
    found = _KEPT.get(body)
    if found is None:
        try:
            if len(body) > MAX_SCHEMA_BYTES:
                raise SchemaRefused(f"it is larger than {MAX_SCHEMA_BYTES} bytes")
            found = _compile(schema)
        except SchemaRefused as error:
            found = _Compiled(problem=str(error))
        _KEPT.put(body, found)
    return found


def _compile(schema: Any) -> _Compiled:
    # Only definitions that enforce a schema pay for the import.
    from jsonschema_rs import Draft7Validator, FancyRegexOptions, RegexOptions

    if not isinstance(schema, dict):
        raise SchemaRefused("it is not a JSON object")
    plain = PlainSchema(schema)
    options: dict[str, Any] = {"offline": True, "validate_formats": False}
    linear = RegexOptions(size_limit=2**20, dfa_size_limit=2**20)
    try:
        try:
            validator = Draft7Validator(plain.root, pattern_options=linear, **options)
        except ValueError:
            # Looking ahead and back takes another engine, which tries one way after the other.
            plain.limit_tries(lambda text: _compiles(Draft7Validator, {"pattern": text}, linear))
            tries = FancyRegexOptions(backtrack_limit=MAX_TRIES, size_limit=2**20, dfa_size_limit=2**20)
            validator = Draft7Validator(plain.root, pattern_options=tries, **options)
    except ValueError as error:
        where = ".".join(str(part) for part in getattr(error, "instance_path", ()))
        said = cut(getattr(error, "message", str(error)))
        raise SchemaRefused(f"it is not a JSON schema: {cut(where)}: {said}" if where else said) from error
    bound = WorkBound(plain)
    bound.walk()
    return _Compiled(
        validator=validator,
        checks=bound.checks,
        chain=bound.chain,
        tries=bound.tries,
        alternatives=any("anyOf" in node or "oneOf" in node for node in plain.nodes()),
    )


def _compiles(validator: Any, schema: dict[str, Any], patterns: Any) -> bool:
    try:
        validator(schema, pattern_options=patterns)
    except ValueError:
        return False
    return True


def _measured(given: Any, at_most: float) -> tuple[int, int, int, int]:
    """How large an input is: values, letters, letters of texts that a pattern is tried on, depth. Stops at too many."""
    values, letters, tried, depth = 0, 0, 0, 0
    level = [given]
    while level and values <= at_most and depth <= MAX_INPUT_DEPTH:
        depth += 1
        below: list[Any] = []
        for value in level:
            values += 1
            if isinstance(value, str):
                letters += len(value)
                tried += len(value) if len(value) <= MAX_TRIED_LENGTH else 0
            elif isinstance(value, dict):
                names = sum(map(len, value))
                letters += names
                tried += names
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int):
                values += value.bit_length() // 64  # dozens of digits take their time
            elif isinstance(value, float) and not 1e-15 < abs(value) < 1e15:
                values += 20  # and so do the zeros of these
        level = below
    return values, letters, tried, depth


class _Kept:
    """Compiled schemas by their JSON; those not used for longest go first. Registration and running share them."""

    def __init__(self) -> None:
        self._by_body: OrderedDict[bytes, _Compiled] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, body: bytes) -> _Compiled | None:
        with self._lock:
            found = self._by_body.get(body)
            if found is not None:
                self._by_body.move_to_end(body)
            return found

    def put(self, body: bytes, compiled: _Compiled) -> None:
        if len(body) > MAX_SCHEMA_BYTES:
            return
        with self._lock:
            if body not in self._by_body:
                self._bytes += len(body)
            self._by_body[body] = compiled
            while len(self._by_body) > MAX_KEPT or self._bytes > MAX_KEPT_BYTES:
                gone, _ = self._by_body.popitem(last=False)
                self._bytes -= len(gone)


_KEPT = _Kept()
