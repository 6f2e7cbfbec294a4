"""A fork whose branches are known only when the workflow runs."""

from __future__ import annotations

from copy import deepcopy

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.task.join_task import JoinTask
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class DynamicForkTask(TaskInterface):
    """Runs a list of steps in parallel.

    `tasks_param` names the input parameter that holds the steps. `tasks_input_param_name` names the input parameter
    that holds the inputs of these steps.
    """

    def __init__(
        self,
        task_ref_name: str,
        tasks_param: str = "dynamicTasks",
        tasks_input_param_name: str = "dynamicTasksInputs",
        join_task: JoinTask | None = None,
    ) -> None:
        super().__init__(task_ref_name, TaskType.FORK_JOIN_DYNAMIC)
        self._tasks_param = tasks_param
        self._tasks_input_param_name = tasks_input_param_name
        self._join_task = deepcopy(join_task)

    def to_workflow_task(self) -> list[WorkflowTask]:
        """Return the fork and its join, if it has one, as the server expects them."""
        fork: WorkflowTask = super().to_workflow_task()
        fork.dynamic_fork_tasks_param = self._tasks_param
        fork.dynamic_fork_tasks_input_param_name = self._tasks_input_param_name
        return [fork] if self._join_task is None else [fork, self._join_task.to_workflow_task()]
