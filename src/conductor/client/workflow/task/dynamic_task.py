"""A step whose task type is known only when the workflow runs."""

from __future__ import annotations

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class DynamicTask(TaskInterface):
    """A step whose task type is the value of `dynamic_task`, which usually is an expression."""

    def __init__(self, dynamic_task: str, task_reference_name: str, dynamic_task_param: str = "taskToExecute") -> None:
        super().__init__(task_reference_name, TaskType.DYNAMIC, task_name="dynamic_task")
        self.input_parameters[dynamic_task_param] = dynamic_task
        self._dynamic_task_param = dynamic_task_param

    def to_workflow_task(self) -> WorkflowTask:
        """Return the step as the server expects it."""
        task: WorkflowTask = super().to_workflow_task()
        task.dynamic_task_name_param = self._dynamic_task_param
        return task
