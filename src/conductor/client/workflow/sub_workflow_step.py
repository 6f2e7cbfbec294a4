"""A workflow as a step of another one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.called_step import CheckedStep
from conductor.client.workflow.contract import Contract, Parameter
from conductor.client.workflow.reference import Reference, open_blocks
from conductor.client.workflow.shape import Shape
from conductor.client.workflow.task.sub_workflow_task import InlineSubWorkflowTask

if TYPE_CHECKING:
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow


class SubWorkflowStep(CheckedStep, InlineSubWorkflowTask):
    """A sub-workflow made by calling a workflow: its definition travels inside of the other one."""

    def __init__(self, task_ref_name: str, workflow: ConductorWorkflow) -> None:
        super().__init__(task_ref_name, workflow)
        self._workflow_contract = _contract_of(workflow)

    @cached_property
    def _contract(self) -> Contract:
        return self._workflow_contract

    def _called(self) -> str:
        return f"{self._task_reference_name!r} (workflow {self._workflow_name!r})"


def sub_workflow_of_call(workflow: ConductorWorkflow, kwargs: dict[str, Any]) -> SubWorkflowStep:
    """The step that a call of a workflow makes; inside of a `with` block it is added there."""
    given = dict(kwargs)
    ref = given.pop("task_ref_name", None)
    blocks = open_blocks.get()
    if any(block.workflow is workflow for block in blocks):
        raise WorkflowError(
            f"workflow {workflow.name!r} cannot have itself inside: start the registered one with "
            f"sub_workflow({workflow.name!r}, ...)"
        )
    if ref is None:
        ref = blocks[-1].unused(workflow.name) if blocks else workflow.name
    step = SubWorkflowStep(ref, workflow)
    step._input_parameters = {**workflow._input_template, **given}
    step._contract.check(step._called(), step._input_parameters)
    step._typed = True
    if blocks:
        blocks[-1].append(step)
    return step


def _contract_of(workflow: ConductorWorkflow) -> Contract:
    takes = workflow._takes
    parameters: dict[str, Parameter] = {}
    if takes is not None:
        required = takes.schema.get("required", ())
        properties = takes.schema.get("properties", {})
        parameters = {n: Parameter(n in required, Shape(s, takes.definitions)) for n, s in properties.items()}
    return Contract(parameters, not parameters, _output_shape(workflow), wrapped=False)


def _output_shape(workflow: ConductorWorkflow) -> Shape | None:
    if workflow._gives is not None:
        return workflow._gives.shape
    if not workflow._output_parameters:
        return None  # the last step's output
    known = {name: _shape(value) for name, value in workflow._output_parameters.items()}
    properties = {name: shape.schema if shape else {} for name, shape in known.items()}
    definitions = {k: v for shape in known.values() if shape for k, v in shape.definitions.items()}
    return Shape({"type": "object", "properties": properties}, definitions)


def _shape(value: Any) -> Shape | None:
    if isinstance(value, CheckedStep):
        value = value.as_reference()
    return value.shape if isinstance(value, Reference) else None
