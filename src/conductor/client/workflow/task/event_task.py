"""Steps that send an event."""

from __future__ import annotations

from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class EventTaskInterface(TaskInterface):
    """Sends its input as an event to the sink `event_prefix:event_suffix`."""

    def __init__(self, task_ref_name: str, event_prefix: str, event_suffix: str) -> None:
        super().__init__(task_ref_name, TaskType.EVENT)
        self._sink = f"{event_prefix}:{event_suffix}"

    def to_workflow_task(self) -> WorkflowTask:
        """Return the step as the server expects it."""
        task: WorkflowTask = super().to_workflow_task()
        task.sink = self._sink
        return task


class SqsEventTask(EventTaskInterface):
    """Sends its input to an SQS queue."""

    def __init__(self, task_ref_name: str, queue_name: str) -> None:
        super().__init__(task_ref_name, "sqs", queue_name)


class ConductorEventTask(EventTaskInterface):
    """Sends its input to the event queue of the server."""

    def __init__(self, task_ref_name: str, event_name: str) -> None:
        super().__init__(task_ref_name, "conductor", event_name)
