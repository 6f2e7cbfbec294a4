"""A call of a tool by a model."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import omit_empty


class ToolCall:
    """A call of a tool by a model, with its input and output."""

    def __init__(
        self,
        name: str,
        task_reference_name: str | None = None,
        integration_names: dict[str, str] | None = None,
        type: str = "SIMPLE",  # noqa: A002
        input_parameters: dict[str, Any] | None = None,
        output: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.task_reference_name = task_reference_name
        self.integration_names = integration_names or {}
        self.type = type
        self.input_parameters = input_parameters or {}
        self.output = output or {}

    def to_dict(self) -> dict[str, Any]:
        """Return the call as the server expects it."""
        return {"name": self.name, "type": self.type} | omit_empty(
            task_reference_name=self.task_reference_name,
            integration_names=self.integration_names,
            input_parameters=self.input_parameters,
            output=self.output,
        )
