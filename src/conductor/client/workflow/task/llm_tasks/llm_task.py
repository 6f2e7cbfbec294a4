"""What the steps that ask a model have in common."""

from __future__ import annotations

from typing import Any, Self

from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class LlmTask(TaskInterface):
    """A step that the server does with a model; without a name it is called like its type."""

    def __init__(
        self, task_ref_name: str, task_type: TaskType, task_name: str | None, input_parameters: dict[str, Any]
    ) -> None:
        super().__init__(task_ref_name, task_type, task_name or task_type.value.lower(), None, None, input_parameters)


class PromptedTask(LlmTask):
    """A step with a prompt that has variables."""

    def prompt_variables(self, variables: dict[str, Any]) -> Self:
        """Give values for variables of the prompt."""
        self.input_parameters.setdefault("promptVariables", {}).update(variables)
        return self

    def prompt_variable(self, variable: str, value: Any) -> Self:
        """Give the value for one variable of the prompt."""
        return self.prompt_variables({variable: value})
