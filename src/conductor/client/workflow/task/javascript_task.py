"""A step that the server computes, with a choice of the engine."""

from __future__ import annotations

from typing import Any, Self

from conductor.client.workflow.reference import make_reference
from conductor.client.workflow.task.inline import InlineTask


class JavascriptTask(InlineTask):
    """Evaluates JavaScript on the server; `output` is what the script returns."""

    def __init__(self, task_ref_name: str, script: str, bindings: dict[str, str] | None = None) -> None:
        super().__init__(task_ref_name, script, bindings)

    def output(self, json_path: str | None = None) -> Any:
        """The expression for what the script returns, or for a part of it."""
        return make_reference(self.task_reference_name, "output.result", json_path)

    def evaluator_type(self, evaluator_type: str) -> Self:  # a method in conductor-python, too
        """Choose the engine: `graaljs` unless another one is named here."""
        self.input_parameters["evaluatorType"] = evaluator_type
        return self
