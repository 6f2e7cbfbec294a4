"""A step that sets variables of the workflow."""

from __future__ import annotations

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class SetVariableTask(TaskInterface):
    """Sets variables of the workflow. Each input of the step names a variable and has its value."""

    def __init__(self, task_ref_name: str) -> None:
        super().__init__(task_ref_name, TaskType.SET_VARIABLE)
