"""A step that workers run."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class SimpleTask(TaskInterface):
    """A step that the workers of the task type `task_def_name` run."""

    def __init__(self, task_def_name: str, task_reference_name: str) -> None:
        super().__init__(task_reference_name, TaskType.SIMPLE, task_name=task_def_name)


def simple_task(task_def_name: str, task_reference_name: str, inputs: dict[str, Any]) -> TaskInterface:
    """Return a `SimpleTask` with inputs."""
    task = SimpleTask(task_def_name, task_reference_name)
    task.input_parameters.update(inputs)
    return task
