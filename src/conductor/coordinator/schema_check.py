"""Checking a task's input against the JSON schema its definition asks to enforce.

Schema and input are both from strangers: nothing is fetched for them, and no pattern is run that might not come back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

import msgspec

from conductor.coordinator.definitions import TaskDef
from conductor.coordinator.patterns import MAX_WAYS, explodes, ways
from conductor.coordinator.store import Tx

#: How many ways to match are left for the input that is being checked.
_ways_left: ContextVar[float] = ContextVar("_ways_left")


class _PatternTooSlow(Exception):
    """A text is too long for its pattern; the message says which."""


def input_problem(tx: Tx, task_def: TaskDef, given: dict[str, Any]) -> str | None:
    """Why this input is not accepted, with the path of the value; None if it is."""
    if not task_def.enforce_schema or not task_def.input_schema:
        return None
    schema = _schema(tx, task_def.input_schema)
    if schema is None:
        return None
    wrong = _schema_problem(schema)
    if wrong is not None:
        return f"the input schema of {task_def.name} cannot be used: {wrong}"
    wrong = _value_problem(schema, given)
    return None if wrong is None else f"input of {task_def.name} refused by its schema: {wrong}"


def _schema_problem(schema: dict[str, Any]) -> str | None:
    # Only definitions that enforce a schema pay for the import.
    from jsonschema.exceptions import SchemaError

    try:
        _validator().check_schema(schema)
    except SchemaError as error:
        return f"it is not a JSON schema: {error.message}"
    for pattern in _patterns(schema):
        try:
            if explodes(pattern):
                return f"the pattern '{pattern}' can take for ever, because it repeats a repeat; write it without"
        except (re.error, RecursionError, OverflowError) as error:
            return f"'{pattern}' is not a regular expression: {error}"
    return None


def _value_problem(schema: dict[str, Any], given: dict[str, Any]) -> str | None:
    from jsonschema.exceptions import best_match
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing.exceptions import Unresolvable

    _ways_left.set(MAX_WAYS)
    try:
        wrong = best_match(_validator()(schema, registry=REGISTRY).iter_errors(given))
    except Unresolvable as error:
        return f"it refers to '{error.ref}', which is not part of it"
    except _PatternTooSlow as error:
        return str(error)
    except RecursionError:
        return "it or the input is nested too deeply"
    if wrong is None:
        return None
    where = ".".join(str(part) for part in wrong.absolute_path) or "the input"
    return f"{where}: {wrong.message}"


def _patterns(schema: Any) -> Iterator[str]:
    """Every regular expression of a schema."""
    pending = [schema]
    while pending:
        at = pending.pop()
        if isinstance(at, dict):
            if isinstance(at.get("pattern"), str):
                yield at["pattern"]
            if isinstance(at.get("patternProperties"), dict):
                yield from at["patternProperties"]
            pending += at.values()
        elif isinstance(at, list):
            pending += at


def _spend(pattern: str, text: str) -> None:
    left = _ways_left.get() - ways(pattern, len(text))
    if left < 0:
        raise _PatternTooSlow(f"a text of {len(text)} characters is too long for the pattern '{pattern}'")
    _ways_left.set(left)


def _spend_for(schema: dict[str, Any], instance: Any) -> None:
    """Before a check of these runs: what its patterns may cost."""
    if isinstance(instance, str) and isinstance(schema.get("pattern"), str):
        _spend(schema["pattern"], instance)
    if isinstance(instance, dict):
        for pattern in schema.get("patternProperties") or ():
            for name in instance:
                _spend(pattern, name)


@cache
def _validator() -> Any:
    """Draft 7, and `nullable: true` as the schemas of workers use it: null passes, whatever else the schema asks."""
    from jsonschema import Draft7Validator
    from jsonschema.validators import extend

    def guarded(name: str, keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def check(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
            if name in _WITH_PATTERNS:
                _spend_for(schema, instance)
            if instance is not None or schema.get("nullable") is not True:
                yield from keyword(validator, value, instance, schema) or ()

        return check

    checks = {name: guarded(name, check) for name, check in Draft7Validator.VALIDATORS.items()}
    return extend(Draft7Validator, checks)  # type: ignore[no-untyped-call]


#: The keywords of a schema that run its patterns.
_WITH_PATTERNS = ("pattern", "patternProperties", "additionalProperties")


def _schema(tx: Tx, named: dict[str, Any]) -> dict[str, Any] | None:
    """The schema itself: inside the definition, or registered under its name and version."""
    data = named.get("data")
    if not data:
        body = tx.value("schema", named.get("name"), named.get("version") or 1)
        data = msgspec.json.decode(body).get("data") if body is not None else None
    return data if isinstance(data, dict) else None
