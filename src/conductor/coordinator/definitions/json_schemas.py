"""JSON schemas: the registry of named schemas, and the validation of inputs against enforced schemas.

Neither schemas nor inputs are trusted. Nothing is fetched for a schema, and `schema_cost` bounds the work of a
validation before it begins.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from conductor.coordinator.definitions.plain_schema import TOO_DEEP, PlainSchema, SchemaRejected, cut
from conductor.coordinator.definitions.schema_cost import SchemaCost, measure_schema
from conductor.coordinator.store.statements import DROP_SCHEMA, DROP_SCHEMAS, LATEST_SCHEMA, SCHEMA, SCHEMAS, SET_SCHEMA
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import Json, JsonObject

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator

    from conductor.coordinator.definitions.task_defs import TaskDef

#: The types of schemas in Conductor. The coordinator enforces only JSON schemas.
SCHEMA_TYPES = ("JSON", "AVRO", "PROTOBUF")
#: A schema with more bytes of JSON than this is rejected.
MAX_SCHEMA_BYTES = 256 * 1024
#: If a validation can take more checks than this and the schema has alternatives, the error does not name the wrong
#: value, because the validator would have to try every alternative to find it.
MAX_EXPLAINED_WORK = 100_000
#: A backtracking pattern gives up after this many attempts.
MAX_BACKTRACKS = 1000
#: Limits of the cache of compiled schemas.
MAX_CACHED = 256
MAX_CACHED_BYTES = 8 * 1024 * 1024
_MAX_REGEX_BYTES = 2**20


# -- schemas in the store ------------------------------------------------------------------------------------------


def put_schema(tx: Tx, name: str, version: int, schema: JsonObject) -> None:
    """Register or replace one version of a schema."""
    tx.run(SET_SCHEMA, name, version, msgspec.json.encode({**schema, "version": version}))


def get_schema(tx: Tx, name: str, version: int | None = None) -> JsonObject | None:
    """Return one version of a schema, by default the latest, or None."""
    body = tx.first(LATEST_SCHEMA, name) if version is None else tx.first(SCHEMA, name, version)
    return None if body is None else msgspec.json.decode(body, type=JsonObject)


def all_schemas(tx: Tx) -> list[JsonObject]:
    """Return every version of every schema."""
    return [msgspec.json.decode(body) for body in tx.rows(SCHEMAS)]


def drop_schema(tx: Tx, name: str, version: int | None = None) -> bool:
    """Remove one version of a schema, by default all versions. Return whether anything was removed."""
    return bool(tx.run(DROP_SCHEMAS, name) if version is None else tx.run(DROP_SCHEMA, name, version))


# -- enforcement ---------------------------------------------------------------------------------------------------


def find_task_input_problem(tx: Tx, task_def: TaskDef, task_input: JsonObject) -> str | None:
    """Return why the enforced schema of a task rejects its input, or None."""
    if not task_def.enforce_schema:
        return None
    return _find_input_problem(tx, task_def.name, task_def.input_schema, task_input)


def find_workflow_input_problem(tx: Tx, definition: Mapping[str, Json], workflow_input: JsonObject) -> str | None:
    """Return why the schema of a workflow rejects its input, or None. Schemas are enforced by default."""
    if definition.get("enforceSchema") is False:
        return None
    return _find_input_problem(tx, str(definition.get("name")), definition.get("inputSchema"), workflow_input)


def find_value_problem(schema: JsonObject, value: JsonObject) -> str | None:
    """Return why a JSON schema rejects a value, or None."""
    return _get_compiled(schema).find_input_problem(value)


def find_schema_form_problem(schema: Json) -> str | None:
    """Return why a definition cannot have this schema (name, version, type, data), or None.

    `find_schema_problem` also examines `data`.
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


def find_schema_problem(schema: Json) -> str | None:
    """Return why no input can be validated with this schema, or None.

    A schema that only names a registered schema has no data to examine.
    """
    problem = find_schema_form_problem(schema)
    if problem is not None or schema is None:
        return problem
    if schema.get("type") not in (None, "JSON"):
        return f"its type is {schema['type']}; only JSON is supported by the coordinator"
    return _get_compiled(schema["data"]).problem if schema.get("data") else None


def _find_input_problem(tx: Tx, owner: str, schema: Json, value: JsonObject) -> str | None:
    if not schema:
        return None
    problem = find_schema_problem(schema)
    if problem is None and not schema.get("data"):
        schema = get_schema(tx, str(schema.get("name")), schema.get("version") or 1)
        if schema is None or not schema.get("data"):
            return None
        problem = find_schema_problem(schema)
    if problem is not None:
        return f"the input schema of {owner} cannot be used: {problem}"
    problem = find_value_problem(schema["data"], value)
    return None if problem is None else f"input of {owner} rejected by its schema: {problem}"


@dataclass(frozen=True, slots=True)
class _CompiledSchema:
    """A schema that can validate inputs."""

    validator: Draft7Validator
    cost: SchemaCost
    #: Whether the schema has alternatives. To explain a failure, the validator tries each of them.
    has_alternatives: bool
    problem: None = None

    def find_input_problem(self, value: JsonObject) -> str | None:
        """Return why an input is rejected, with the path of the wrong value, or None."""
        try:
            work = self.cost.measure(value)
            if self.validator.is_valid(value):
                return None
            if self.has_alternatives and work > MAX_EXPLAINED_WORK:
                return "the input does not match its schema; it is too large to say where"
            self.validator.validate(value)
        except SchemaRejected as error:
            return str(error)
        except ValueError as error:  # jsonschema_rs.ValidationError is a ValueError
            place, message = _describe(error)
            return f"{place or 'the input'}: {message}"
        return None


@dataclass(frozen=True, slots=True)
class _UnusableSchema:
    """A schema that cannot validate inputs."""

    problem: str

    def find_input_problem(self, _: JsonObject) -> str:
        return self.problem


_Compiled = _CompiledSchema | _UnusableSchema


def _describe(error: ValueError) -> tuple[str, str]:
    """Return the place and the message of an error of the validator."""
    place = ".".join(str(part) for part in getattr(error, "instance_path", ()))
    return cut(place), cut(getattr(error, "message", str(error)))


def _get_compiled(schema: Json) -> _Compiled:
    try:
        body = msgspec.json.encode(schema)
    except RecursionError:
        return _UnusableSchema(TOO_DEEP)
    if len(body) > MAX_SCHEMA_BYTES:
        return _UnusableSchema(f"it is larger than {MAX_SCHEMA_BYTES} bytes")
    compiled = _CACHE.get(body)
    if compiled is None:
        try:
            compiled = _compile(schema)
        except SchemaRejected as error:
            compiled = _UnusableSchema(str(error))
        _CACHE.put(body, compiled)
    return compiled


def _compile(schema: Json) -> _CompiledSchema:
    # Imported here, so that only definitions with an enforced schema pay for the import.
    from jsonschema_rs import Draft7Validator, FancyRegexOptions, RegexOptions

    if not isinstance(schema, dict):
        raise SchemaRejected("it is not a JSON object")
    plain = PlainSchema(schema)
    linear = RegexOptions(size_limit=_MAX_REGEX_BYTES, dfa_size_limit=_MAX_REGEX_BYTES)

    def make_validator(root: JsonObject, patterns: RegexOptions | FancyRegexOptions) -> Draft7Validator:
        return Draft7Validator(root, pattern_options=patterns, offline=True, validate_formats=False)

    def is_linear(pattern: str) -> bool:
        try:
            make_validator({"pattern": pattern}, linear)
        except ValueError:
            return False
        return True

    try:
        try:
            validator = make_validator(plain.root, linear)
        except ValueError:
            # Patterns with look-ahead or look-behind need the engine that backtracks.
            plain.limit_backtracking(is_linear)
            backtracking = FancyRegexOptions(
                backtrack_limit=MAX_BACKTRACKS, size_limit=_MAX_REGEX_BYTES, dfa_size_limit=_MAX_REGEX_BYTES
            )
            validator = make_validator(plain.root, backtracking)
    except ValueError as error:
        place, message = _describe(error)
        raise SchemaRejected(f"it is not a JSON schema: {place}: {message}" if place else message) from error
    has_alternatives = any("anyOf" in node or "oneOf" in node for node in plain.nodes())
    return _CompiledSchema(validator, measure_schema(plain), has_alternatives)


class _SchemaCache:
    """Compiled schemas by their JSON, the least recently used dropped first. Thread-safe."""

    def __init__(self) -> None:
        self._by_body: OrderedDict[bytes, _Compiled] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, body: bytes) -> _Compiled | None:
        with self._lock:
            compiled = self._by_body.get(body)
            if compiled is not None:
                self._by_body.move_to_end(body)
            return compiled

    def put(self, body: bytes, compiled: _Compiled) -> None:
        with self._lock:
            if body not in self._by_body:
                self._bytes += len(body)
            self._by_body[body] = compiled
            while len(self._by_body) > MAX_CACHED or self._bytes > MAX_CACHED_BYTES:
                dropped, _ = self._by_body.popitem(last=False)
                self._bytes -= len(dropped)


_CACHE = _SchemaCache()
