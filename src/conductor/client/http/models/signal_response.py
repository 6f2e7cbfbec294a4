"""Answers to calls that wait for a workflow."""

from enum import StrEnum

from conductor.client.http.models.model import Model
from conductor.client.http.models.task import Task
from conductor.protocol.json_types import JsonObject
from conductor.protocol.statuses import TaskStatus as TaskStatus


class WorkflowSignalReturnStrategy(StrEnum):
    """The possible contents of the answer to a signal."""

    #: The workflow that the signal was sent to.
    TARGET_WORKFLOW = "TARGET_WORKFLOW"
    #: The workflow that waits, which may be a sub-workflow.
    BLOCKING_WORKFLOW = "BLOCKING_WORKFLOW"
    #: The task that the workflow waits in.
    BLOCKING_TASK = "BLOCKING_TASK"
    #: The input of that task.
    BLOCKING_TASK_INPUT = "BLOCKING_TASK_INPUT"


class SignalResponse(Model, kw_only=True):
    """The answer to a signal: a workflow or a task, depending on `response_type`."""

    response_type: str | None = None
    target_workflow_id: str | None = None
    target_workflow_status: str | None = None
    request_id: str | None = None
    workflow_id: str | None = None
    correlation_id: str | None = None
    input: JsonObject | None = None
    output: JsonObject | None = None
    task_type: str | None = None
    task_id: str | None = None
    reference_task_name: str | None = None
    retry_count: int | None = None
    task_def_name: str | None = None
    retried_task_id: str | None = None
    workflow_type: str | None = None
    reason_for_incompletion: str | None = None
    priority: int | None = None
    variables: JsonObject | None = None
    tasks: list[Task] | None = None
    created_by: str | None = None
    create_time: int | None = None
    update_time: int | None = None
    status: str | None = None

    def is_target_workflow(self) -> bool:
        """Return whether the answer is the workflow that the signal was sent to."""
        return self.response_type == WorkflowSignalReturnStrategy.TARGET_WORKFLOW

    def is_blocking_workflow(self) -> bool:
        """Return whether the answer is the workflow that waits."""
        return self.response_type == WorkflowSignalReturnStrategy.BLOCKING_WORKFLOW

    def is_blocking_task(self) -> bool:
        """Return whether the answer is the task that the workflow waits in."""
        return self.response_type == WorkflowSignalReturnStrategy.BLOCKING_TASK

    def is_blocking_task_input(self) -> bool:
        """Return whether the answer is the input of the task that the workflow waits in."""
        return self.response_type == WorkflowSignalReturnStrategy.BLOCKING_TASK_INPUT

    def get_all_tasks(self) -> list[Task]:
        """Return the tasks of the workflow."""
        return self.tasks or []

    def get_task_by_reference_name(self, ref_name: str) -> Task | None:
        """Return the latest attempt of the task with this reference name."""
        attempts = [task for task in self.get_all_tasks() if task.reference_task_name == ref_name]
        return attempts[-1] if attempts else None

    def get_tasks_by_status(self, status: str) -> list[Task]:
        """Return the tasks with this status."""
        return [task for task in self.get_all_tasks() if task.status == status]

    def get_in_progress_task(self) -> Task | None:
        """Return the first task that is in progress."""
        return next(iter(self.get_tasks_by_status(TaskStatus.IN_PROGRESS)), None)

    def get_completed_tasks(self) -> list[Task]:
        """Return the completed tasks."""
        return self.get_tasks_by_status(TaskStatus.COMPLETED)

    def get_failed_tasks(self) -> list[Task]:
        """Return the failed tasks."""
        return self.get_tasks_by_status(TaskStatus.FAILED)

    def get_task_input(self) -> JsonObject:
        """Return the input of the task that the workflow waits in."""
        return self.input or {}
