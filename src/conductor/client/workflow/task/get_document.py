"""A step that fetches a document."""

from __future__ import annotations

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class GetDocument(TaskInterface):
    """Fetches a document, on servers that support it."""

    def __init__(self, task_name: str, task_ref_name: str, url: str, media_type: str) -> None:
        inputs = {"url": url, "mediaType": media_type}
        super().__init__(task_ref_name, TaskType.GET_DOCUMENT, task_name=task_name, input_parameters=inputs)
