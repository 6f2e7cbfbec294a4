"""A step that waits for a webhook."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class WaitForWebHookTask(TaskInterface):
    """Waits for a webhook whose payload matches, on servers that support webhooks."""

    def __init__(self, task_ref_name: str, matches: dict[str, Any]) -> None:
        super().__init__(task_ref_name, TaskType.WAIT_FOR_WEBHOOK, input_parameters={"matches": matches})


def wait_for_webhook(task_ref_name: str, matches: dict[str, Any], task_def_name: str | None = None) -> TaskInterface:
    """Return a `WaitForWebHookTask`, optionally with its own name."""
    task = WaitForWebHookTask(task_ref_name, matches)
    if task_def_name is not None:
        task.name = task_def_name
    return task
