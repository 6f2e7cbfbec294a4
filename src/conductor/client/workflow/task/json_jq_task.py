"""A step that transforms JSON."""

from __future__ import annotations

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class JsonJQTask(TaskInterface):
    """Transforms its input with a jq script on the server."""

    def __init__(self, task_ref_name: str, script: str) -> None:
        super().__init__(task_ref_name, TaskType.JSON_JQ_TRANSFORM, input_parameters={"queryExpression": script})
