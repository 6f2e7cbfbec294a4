"""A tool that a model may use."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import omit_empty


class ToolSpec:
    """A tool that a model may use: a task type, its description and its schemas."""

    def __init__(
        self,
        name: str,
        type: str = "SIMPLE",  # noqa: A002
        description: str | None = None,
        config_params: dict[str, Any] | None = None,
        integration_names: dict[str, str] | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.description = description
        self.config_params = config_params or {}
        self.integration_names = integration_names or {}
        self.input_schema = input_schema or {}
        self.output_schema = output_schema or {}

    def to_dict(self) -> dict[str, Any]:
        """Return the tool as the server expects it."""
        return {"name": self.name, "type": self.type} | omit_empty(
            description=self.description,
            config_params=self.config_params,
            integration_names=self.integration_names,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
        )
