"""A step that ends the workflow."""

from __future__ import annotations

from enum import StrEnum

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class WorkflowStatus(StrEnum):
    """The status of a workflow."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    PAUSED = "PAUSED"
    RUNNING = "RUNNING"
    TERMINATED = "TERMINATED"
    TIMEOUT_OUT = "TIMED_OUT"


class TerminateTask(TaskInterface):
    """Ends the workflow with a status: COMPLETED, FAILED or TERMINATED."""

    def __init__(self, task_ref_name: str, status: WorkflowStatus, termination_reason: str) -> None:
        inputs = {"terminationStatus": str(status), "terminationReason": termination_reason}
        super().__init__(task_ref_name, TaskType.TERMINATE, input_parameters=inputs)
