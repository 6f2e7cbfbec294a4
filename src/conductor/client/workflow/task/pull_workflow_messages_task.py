"""A step that reads messages to the workflow."""

from __future__ import annotations

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class PullWorkflowMessagesTask(TaskInterface):
    """Reads up to `batch_size` messages that were sent to this workflow. Waits while there are none."""

    def __init__(self, task_ref_name: str, batch_size: int = 1) -> None:
        inputs = {"batchSize": batch_size}
        super().__init__(task_ref_name, TaskType.PULL_WORKFLOW_MESSAGES, input_parameters=inputs)
