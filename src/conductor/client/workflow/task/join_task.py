"""The end of a fork."""

from __future__ import annotations

from copy import deepcopy

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class JoinTask(TaskInterface):
    """Waits for the steps in `join_on`, by default for all branches of its fork.

    With `join_on_script`, a JavaScript expression decides instead, on servers that support it.
    """

    def __init__(self, task_ref_name: str, join_on: list[str] | None = None, join_on_script: str | None = None) -> None:
        super().__init__(task_ref_name, TaskType.JOIN)
        self._join_on = deepcopy(join_on)
        if join_on_script is not None:
            self.evaluator_type = "js"
            self.expression = join_on_script

    def to_workflow_task(self) -> WorkflowTask:
        """Return the join as the server expects it."""
        task: WorkflowTask = super().to_workflow_task()
        task.join_on = self._join_on
        return task
