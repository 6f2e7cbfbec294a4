"""A workflow as a step of another workflow."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from conductor.client.workflow.authoring_errors import WorkflowError
from conductor.client.workflow.reference import Reference, open_blocks
from conductor.client.workflow.step_signature import StepParameter, StepSignature
from conductor.client.workflow.task.sub_workflow_task import InlineSubWorkflowTask
from conductor.client.workflow.value_type import ValueType
from conductor.client.workflow.worker_step import TypedStep

if TYPE_CHECKING:
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow


class SubWorkflowStep(TypedStep, InlineSubWorkflowTask):
    """A sub-workflow that is created by calling a workflow. The parent contains its definition."""

    def __init__(self, task_ref_name: str, workflow: ConductorWorkflow) -> None:
        super().__init__(task_ref_name, workflow)
        self._workflow_signature = _make_signature(workflow)

    @cached_property
    def _signature(self) -> StepSignature:
        return self._workflow_signature

    def _describe(self) -> str:
        return f"{self._task_reference_name!r} (workflow {self._workflow_name!r})"


def make_sub_workflow_step(workflow: ConductorWorkflow, kwargs: dict[str, Any]) -> SubWorkflowStep:
    """Make the step for a call of a workflow, and add it to the innermost open block.

    Raises:
        WorkflowError: The inputs are wrong, or the workflow contains itself.
    """
    given = dict(kwargs)
    ref = given.pop("task_ref_name", None)
    blocks = open_blocks.get()
    if any(block.workflow is workflow for block in blocks):
        raise WorkflowError(
            f"workflow {workflow.name!r} cannot contain itself: start the registered workflow with "
            f"sub_workflow({workflow.name!r}, ...)"
        )
    if ref is None:
        ref = blocks[-1].make_unused_name(workflow.name) if blocks else workflow.name
    step = SubWorkflowStep(ref, workflow)
    step._input_parameters = {**workflow._input_template, **given}
    step._signature.check(step._describe(), step._input_parameters)
    step._typed = True
    if blocks:
        blocks[-1].append(step)
    return step


def _make_signature(workflow: ConductorWorkflow) -> StepSignature:
    declared = workflow._inputs
    parameters: dict[str, StepParameter] = {}
    if declared is not None and declared.value_type is not None:
        required = declared.value_type.schema.get("required", ())
        definitions = declared.value_type.definitions
        parameters = {
            name: StepParameter(name in required, ValueType(schema, definitions), partial(declared.read, name))
            for name, schema in declared.properties.items()
        }
    return StepSignature(parameters, not parameters, _find_output_type(workflow), wrapped=False)


def _find_output_type(workflow: ConductorWorkflow) -> ValueType | None:
    if workflow._output_type is not None:
        return workflow._output_type.value_type
    if not workflow._output_parameters:
        return None  # the workflow returns the output of its last step
    known = {name: _shape(value) for name, value in workflow._output_parameters.items()}
    properties = {name: value_type.schema if value_type else {} for name, value_type in known.items()}
    definitions = {k: v for value_type in known.values() if value_type for k, v in value_type.definitions.items()}
    return ValueType({"type": "object", "properties": properties}, definitions)


def _shape(value: Any) -> ValueType | None:
    if isinstance(value, TypedStep):
        value = value.as_reference()
    return value.value_type if isinstance(value, Reference) else None
