"""A step that sets variables of the workflow."""

from __future__ import annotations

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class SetVariableTask(TaskInterface):
    """Sets the workflow's variables to what its input parameters say."""

    def __init__(self, task_ref_name: str) -> None:
        super().__init__(task_ref_name, TaskType.SET_VARIABLE)
