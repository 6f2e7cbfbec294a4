"""Checking a task's input against the JSON schema its definition asks to enforce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec

from conductor.coordinator.definitions import TaskDef
from conductor.coordinator.store import Tx


def input_problem(tx: Tx, task_def: TaskDef, given: dict[str, Any]) -> str | None:
    """Why this input is not accepted, with the path of the value; None if it is."""
    if not task_def.enforce_schema or not task_def.input_schema:
        return None
    schema = _schema(tx, task_def.input_schema)
    if schema is None:
        return None
    # Only definitions that enforce a schema pay for the import.
    from jsonschema.exceptions import SchemaError, best_match

    validator = _validator()
    try:
        validator.check_schema(schema)
    except SchemaError as error:
        return f"the input schema of {task_def.name} is not a JSON schema: {error.message}"
    wrong = best_match(validator(schema).iter_errors(given))
    if wrong is None:
        return None
    where = ".".join(str(part) for part in wrong.absolute_path) or "the input"
    return f"input of {task_def.name} refused by its schema: {where}: {wrong.message}"


@cache
def _validator() -> Any:
    """Draft 7, and `nullable: true` as the schemas of workers use it: null passes, whatever else the schema asks."""
    from jsonschema import Draft7Validator
    from jsonschema.validators import extend

    def unless_null(keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def check(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
            if instance is not None or schema.get("nullable") is not True:
                yield from keyword(validator, value, instance, schema) or ()

        return check

    checks = {name: unless_null(check) for name, check in Draft7Validator.VALIDATORS.items()}
    return extend(Draft7Validator, checks)  # type: ignore[no-untyped-call]


def _schema(tx: Tx, named: dict[str, Any]) -> dict[str, Any] | None:
    """The schema itself: inside the definition, or registered under its name and version."""
    data = named.get("data")
    if not data:
        body = tx.value("schema", named.get("name"), named.get("version") or 1)
        data = msgspec.json.decode(body).get("data") if body is not None else None
    return data if isinstance(data, dict) else None
