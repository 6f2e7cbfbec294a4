"""A step that evaluates JavaScript on the server."""

from __future__ import annotations

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class InlineTask(TaskInterface):
    """Evaluates a JavaScript expression on the server. The expression sees the `bindings` as `$.name`."""

    def __init__(self, task_ref_name: str, script: str, bindings: dict[str, str] | None = None) -> None:
        inputs = {"evaluatorType": "graaljs", "expression": script, **(bindings or {})}
        super().__init__(task_ref_name, TaskType.INLINE, input_parameters=inputs)
