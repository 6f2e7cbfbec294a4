"""A step that evaluates JavaScript on the server with a selectable engine."""

from __future__ import annotations

from typing import Any, Self

from conductor.client.workflow.reference import make_reference
from conductor.client.workflow.task.inline import InlineTask


class JavascriptTask(InlineTask):
    """Evaluates JavaScript on the server. `output` refers to the result of the script."""

    def __init__(self, task_ref_name: str, script: str, bindings: dict[str, str] | None = None) -> None:
        super().__init__(task_ref_name, script, bindings)

    def output(self, json_path: str | None = None) -> Any:
        """Return the expression for the result of the script or a part of it."""
        return make_reference(self.task_reference_name, "output.result", json_path)

    def evaluator_type(self, evaluator_type: str) -> Self:  # a method, as in conductor-python, not a property
        """Select the engine. The default is `graaljs`."""
        self.input_parameters["evaluatorType"] = evaluator_type
        return self
