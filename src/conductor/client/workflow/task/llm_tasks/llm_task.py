"""The base classes of steps that the server runs with models, vector databases and MCP servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from conductor.client.workflow.reference import to_camel_case
from conductor.client.workflow.task.llm_tasks.utils.embedding_model import EmbeddingModel
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType

_NOT_INPUTS = frozenset({"self", "__class__", "task_ref_name", "task_name"})
#: Arguments that are not sent if they are empty or False, because the server has the same default.
_OMITTED_IF_EMPTY = frozenset(
    {
        "google_search_retrieval",
        "headers",
        "json_output",
        "metadata",
        "participants",
        "prompt_variables",
        "stop_words",
        "template_variables",
        "tools",
    }
)
#: The input names of arguments for which camelCase is wrong.
_INPUT_NAMES = {
    "instructions_template": "instructions",
    "template_variables": "promptVariables",
    "vector_db": "vectorDB",
}


class LlmTask(TaskInterface):
    """A step whose inputs are the arguments of its constructor, in camelCase. Arguments that are None are omitted.

    Args:
        task_type: The type of the step, which is also its default name.
        arguments: The arguments of the constructor of the subclass, from `locals()`.
    """

    def __init__(self, task_type: TaskType, arguments: Mapping[str, Any]) -> None:
        inputs: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in _NOT_INPUTS or value is None or (name in _OMITTED_IF_EMPTY and not value):
                continue
            if isinstance(value, EmbeddingModel):
                inputs |= {"embeddingModelProvider": value.provider, "embeddingModel": value.model}
            else:
                inputs[_INPUT_NAMES.get(name) or to_camel_case(name)] = value
        task_name = arguments["task_name"] or task_type.value.lower()
        super().__init__(arguments["task_ref_name"], task_type, task_name, input_parameters=inputs)


class PromptedTask(LlmTask):
    """A step with a prompt that has variables."""

    def prompt_variables(self, variables: dict[str, Any]) -> Self:
        """Set variables of the prompt."""
        self.input_parameters.setdefault("promptVariables", {}).update(variables)
        return self

    def prompt_variable(self, variable: str, value: Any) -> Self:
        """Set a variable of the prompt."""
        return self.prompt_variables({variable: value})
