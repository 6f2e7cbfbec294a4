"""Checking a task's input against the JSON schema its definition asks to enforce."""

from __future__ import annotations

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
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import SchemaError, best_match

    try:
        Draft7Validator.check_schema(schema)
    except SchemaError as error:
        return f"the input schema of {task_def.name} is not a JSON schema: {error.message}"
    wrong = best_match(Draft7Validator(schema).iter_errors(given))
    if wrong is None:
        return None
    where = ".".join(str(part) for part in wrong.absolute_path) or "the input"
    return f"input of {task_def.name} refused by its schema: {where}: {wrong.message}"


def _schema(tx: Tx, named: dict[str, Any]) -> dict[str, Any] | None:
    """The schema itself: inside the definition, or registered under its name and version."""
    data = named.get("data")
    if not data:
        body = tx.value("schema", named.get("name"), named.get("version") or 1)
        data = msgspec.json.decode(body).get("data") if body is not None else None
    return data if isinstance(data, dict) else None
