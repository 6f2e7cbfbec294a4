"""A step that takes messages sent to the workflow."""

from __future__ import annotations

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class PullWorkflowMessagesTask(TaskInterface):
    """Takes up to `batch_size` of the messages that were sent to this workflow; waits while there are none."""

    def __init__(self, task_ref_name: str, batch_size: int = 1) -> None:
        inputs = {"batchSize": batch_size}
        super().__init__(task_ref_name, TaskType.PULL_WORKFLOW_MESSAGES, input_parameters=inputs)
