"""Generates the JSON Schemas (draft-07) of a worker's input and output from the signature of its function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.client.worker.signature import read_signature


def generate_json_schemas(
    func: Callable[..., Any],
    task_name: str,  # noqa: ARG001  # part of the documented signature; schemas do not contain their name
    strict_schema: bool = False,
) -> dict[str, dict[str, Any] | None]:
    """Return the schemas of a worker function: `{"input": …, "output": …}`.

    Args:
        func: The worker function.
        task_name: Without effect: schemas do not contain their name.
        strict_schema: Whether objects admit no additional keys.

    Returns:
        The two schemas. A schema is None if the annotations are incomplete: no schema is better than a wrong one.
    """
    signature = read_signature(func)
    return {"input": signature.input_schema(strict_schema), "output": signature.output_schema(strict_schema)}


def generate_json_schema_from_function(
    func: Callable[..., Any], schema_name: str, strict_schema: bool = False
) -> dict[str, dict[str, Any] | None]:
    """Return the schemas of a worker function; an alias of `generate_json_schemas`."""
    return generate_json_schemas(func, schema_name, strict_schema)
