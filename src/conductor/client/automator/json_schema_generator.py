"""JSON Schema draft-07 of what a worker takes and returns, from the same reading that converts its input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.client.worker.signature import read_signature


def generate_json_schemas(
    func: Callable[..., Any],
    task_name: str,  # noqa: ARG001  # part of the documented signature; schemas do not contain their name
    strict_schema: bool = False,
) -> dict[str, dict[str, Any] | None]:
    """The schemas of a worker function: `{"input": …, "output": …}`.

    With `strict_schema` objects admit no further keys. One of them is None where the annotations do not say all of
    it: no schema rather than a wrong one.
    """
    signature = read_signature(func)
    return {"input": signature.input_schema(strict_schema), "output": signature.output_schema(strict_schema)}


def generate_json_schema_from_function(
    func: Callable[..., Any], schema_name: str, strict_schema: bool = False
) -> dict[str, dict[str, Any] | None]:
    """The same under its other name."""
    return generate_json_schemas(func, schema_name, strict_schema)
