"""What may be registered as a workflow, or started inline."""

from __future__ import annotations

from typing import Any

from conductor.coordinator.definitions import parse_task_def, walk_tasks, with_defaults
from conductor.coordinator.errors import invalid
from conductor.coordinator.validation import validate_definition


def check_workflow_def(raw: dict[str, Any], path: str = "workflowDef") -> dict[str, Any]:
    """The definition with its defaults; 400 names everything that is wrong or not supported."""
    problems = validate_definition(raw)
    if problems:
        raise invalid([(f"{path}.{where}" if where else path, message) for where, message in problems])
    for task in walk_tasks(raw["tasks"]):
        embedded = task.get("taskDefinition")
        if embedded:
            parse_task_def({**embedded, "name": task["name"]}, f"{path}.taskDefinition of {task['taskReferenceName']}")
    return with_defaults(raw)
