"""A tool that a model asked for."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import said


class ToolCall:
    """A tool that a model asked for, with what it gave and what came back."""

    def __init__(
        self,
        name: str,
        task_reference_name: str | None = None,
        integration_names: dict[str, str] | None = None,
        type: str = "SIMPLE",  # noqa: A002 (the name users know)
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
        """The call as the server gets it."""
        return {"name": self.name, "type": self.type} | said(
            task_reference_name=self.task_reference_name,
            integration_names=self.integration_names,
            input_parameters=self.input_parameters,
            output=self.output,
        )
