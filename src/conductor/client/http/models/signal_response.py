"""What a call that waits for a workflow is told."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from conductor.client.http.models.model import Model
from conductor.client.http.models.task import Task
from conductor.protocol.statuses import TaskStatus as TaskStatus


class WorkflowSignalReturnStrategy(StrEnum):
    """What the answer shall tell."""

    #: The workflow that was asked for.
    TARGET_WORKFLOW = "TARGET_WORKFLOW"
    #: The workflow that waits: a sub-workflow, maybe.
    BLOCKING_WORKFLOW = "BLOCKING_WORKFLOW"
    #: The task that it waits in.
    BLOCKING_TASK = "BLOCKING_TASK"
    #: The same, for its input.
    BLOCKING_TASK_INPUT = "BLOCKING_TASK_INPUT"


class SignalResponse(Model, kw_only=True):
    """A workflow or a task, whichever was asked for: `response_type` says which."""

    response_type: str | None = None
    target_workflow_id: str | None = None
    target_workflow_status: str | None = None
    request_id: str | None = None
    workflow_id: str | None = None
    correlation_id: str | None = None
    input: dict[str, Any] | None = None
    output: dict[str, Any] | None = None
    task_type: str | None = None
    task_id: str | None = None
    reference_task_name: str | None = None
    retry_count: int | None = None
    task_def_name: str | None = None
    retried_task_id: str | None = None
    workflow_type: str | None = None
    reason_for_incompletion: str | None = None
    priority: int | None = None
    variables: dict[str, Any] | None = None
    tasks: list[Task] | None = None
    created_by: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    status: str | None = None

    def is_target_workflow(self) -> bool:
        """Whether it tells of the workflow that was asked for."""
        return self.response_type == WorkflowSignalReturnStrategy.TARGET_WORKFLOW

    def is_blocking_workflow(self) -> bool:
        """Whether it tells of the workflow that waits."""
        return self.response_type == WorkflowSignalReturnStrategy.BLOCKING_WORKFLOW

    def is_blocking_task(self) -> bool:
        """Whether it tells of the task that is waited for."""
        return self.response_type == WorkflowSignalReturnStrategy.BLOCKING_TASK

    def is_blocking_task_input(self) -> bool:
        """Whether it tells of that task for its input."""
        return self.response_type == WorkflowSignalReturnStrategy.BLOCKING_TASK_INPUT

    def get_all_tasks(self) -> list[Task]:
        """The workflow's tasks."""
        return self.tasks or []

    def get_task_by_reference_name(self, ref_name: str) -> Task | None:
        """The latest attempt at the step of that reference name."""
        attempts = [task for task in self.get_all_tasks() if task.reference_task_name == ref_name]
        return attempts[-1] if attempts else None

    def get_tasks_by_status(self, status: str) -> list[Task]:
        """The tasks that stand so."""
        return [task for task in self.get_all_tasks() if task.status == status]

    def get_in_progress_task(self) -> Task | None:
        """The first task that is in progress."""
        return next(iter(self.get_tasks_by_status(TaskStatus.IN_PROGRESS)), None)

    def get_completed_tasks(self) -> list[Task]:
        """The tasks that ended well."""
        return self.get_tasks_by_status(TaskStatus.COMPLETED)

    def get_failed_tasks(self) -> list[Task]:
        """The tasks that failed."""
        return self.get_tasks_by_status(TaskStatus.FAILED)

    def get_task_input(self) -> dict[str, Any]:
        """The input of the task that is waited for."""
        return self.input or {}
