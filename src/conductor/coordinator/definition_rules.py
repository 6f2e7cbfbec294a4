"""What may be registered as a workflow, or started inline."""

from __future__ import annotations

from typing import Any

from conductor.coordinator.definitions import with_defaults
from conductor.coordinator.errors import invalid
from conductor.coordinator.validation import validate_definition


def check_workflow_def(raw: dict[str, Any], path: str = "workflowDef") -> dict[str, Any]:
    """The definition with its defaults; 400 names everything that is wrong or not supported."""
    problems = validate_definition(raw)
    if problems:
        raise invalid([(f"{path}.{where}" if where else path, message) for where, message in problems])
    return with_defaults(raw)
