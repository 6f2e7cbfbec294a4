"""What may be registered as a workflow, or started inline."""

from __future__ import annotations

from typing import Any

from conductor.coordinator.definitions import with_defaults
from conductor.coordinator.errors import invalid


def check_workflow_def(raw: dict[str, Any], path: str = "workflowDef") -> dict[str, Any]:
    """The definition with its defaults; 400 names everything that is wrong or not supported."""
    definition = with_defaults(raw)
    problems = []
    if not isinstance(definition.get("name"), str) or not definition["name"].strip():
        problems.append((f"{path}.name", "WorkflowDef name cannot be null or empty"))
    if not definition["tasks"]:
        problems.append((f"{path}.tasks", "WorkflowTask list cannot be empty"))
    if problems:
        raise invalid(problems)
    return definition
