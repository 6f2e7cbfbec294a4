"""Branches that run in parallel."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.task.join_task import JoinTask
from conductor.client.workflow.task.task import TaskInterface, get_task_interface_list_as_workflow_task_list
from conductor.client.workflow.task.task_type import TaskType


def get_join_task(task_reference_name: str) -> str:
    """Return the name of the join after a fork with that name."""
    return task_reference_name + "_join"


class ForkTask(TaskInterface):
    """Runs branches, which are lists of steps, in parallel.

    With `join_on`, the fork adds a JOIN after itself. Otherwise the workflow adds one that waits for the last step of
    each branch, unless the fork is the last step of the workflow.
    """

    def __init__(self, task_ref_name: str, forked_tasks: list[list[Any]], join_on: list[str] | None = None) -> None:
        super().__init__(task_ref_name, TaskType.FORK_JOIN)
        self._forked_tasks = deepcopy(forked_tasks)
        self._join_on = deepcopy(join_on)
        #: Whether the fork adds a join for all branches if it has no `join_on`.
        self._joins_all = False

    def _inside(self) -> list[list[Any]]:
        return self._forked_tasks

    def to_workflow_task(self) -> WorkflowTask | list[WorkflowTask]:
        """Return the fork and its join, if it adds one, as the server expects them."""
        fork: WorkflowTask = super().to_workflow_task()
        branches = [get_task_interface_list_as_workflow_task_list(*branch) for branch in self._forked_tasks]
        fork.fork_tasks = branches
        fork.join_on = [branch[-1].task_reference_name for branch in branches if branch]
        join_on = fork.join_on if self._joins_all else self._join_on
        if join_on is None:
            return fork
        join = JoinTask(get_join_task(self.task_reference_name), join_on)
        return [fork, join.to_workflow_task()]
