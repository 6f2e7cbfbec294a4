"""Loops."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.task.task import (
    TaskInterface,
    copy_to_list,
    get_task_interface_list_as_workflow_task_list,
)
from conductor.client.workflow.task.task_type import TaskType


def get_for_loop_condition(task_ref_name: str, iterations: int) -> str:
    """Return the condition with which a DO_WHILE runs `iterations` times."""
    return f"if ( $.{task_ref_name}.iteration < {iterations} ) {{ true; }} else {{ false; }}"


class DoWhileTask(TaskInterface):
    """Repeats its steps while the condition, a JavaScript expression, is true; at least once."""

    def __init__(self, task_ref_name: str, termination_condition: str, tasks: list[Any]) -> None:
        super().__init__(task_ref_name, TaskType.DO_WHILE)
        self._loop_condition = termination_condition
        self._loop_over = copy_to_list(tasks)

    def _inside(self) -> list[list[Any]]:
        return [self._loop_over]

    def to_workflow_task(self) -> WorkflowTask:
        """Return the loop with its steps as the server expects it."""
        task: WorkflowTask = super().to_workflow_task()
        task.loop_condition = self._loop_condition
        task.loop_over = get_task_interface_list_as_workflow_task_list(*self._loop_over)
        return task


class LoopTask(DoWhileTask):
    """Repeats its steps a number of times."""

    def __init__(self, task_ref_name: str, iterations: int, tasks: list[Any]) -> None:
        super().__init__(task_ref_name, get_for_loop_condition(task_ref_name, iterations), tasks)


class ForEachTask(DoWhileTask):
    """Repeats its steps for each item of the list that `iterate_over` refers to, on servers that support it."""

    def __init__(
        self,
        task_ref_name: str,
        tasks: list[Any],
        iterate_over: str,
        variables: list[str] | None = None,  # noqa: ARG002 (conductor-python takes it, too, and makes nothing of it)
    ) -> None:
        super().__init__(task_ref_name, get_for_loop_condition(task_ref_name, 0), tasks)
        self.input_parameter("items", iterate_over)
