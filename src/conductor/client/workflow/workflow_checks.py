"""The checks at the end of a `with workflow:` block."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from conductor.client.workflow.authoring_errors import UnknownOutput, WorkflowError, suggest_name
from conductor.client.workflow.each_step import EachTask, list_steps
from conductor.client.workflow.reference import Reference, list_texts
from conductor.client.workflow.step_blocks import STEP_REFERENCE, describe_target, step_owners, unused_steps

if TYPE_CHECKING:
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow

_INPUT = re.compile(r"\$\{\s*workflow\.input\.([^{}\s]+?)\s*\}")
_VARIABLE = re.compile(r"\$\{\s*workflow\.variables\.([^.\[\]{}\s]+)")


def check_workflow(workflow: ConductorWorkflow) -> None:
    """Check references and outputs, which are only known at the end of the block.

    Raises:
        WorkflowError: A reference has no target, or the output differs from its declaration.
    """
    if not workflow.steps():
        raise WorkflowError(f"workflow {workflow.name!r} has no steps")
    _check_owners(workflow)
    names = workflow.reference_names()
    variables = _list_variables(workflow)
    for where, text in _list_texts(workflow):
        for name in STEP_REFERENCE.findall(text):
            if name != "workflow" and name not in names:
                owner = step_owners.get(name)
                if owner is not None and owner != workflow.name:
                    raise _make_owner_error(where, workflow, f"step {name!r}", owner)
                raise WorkflowError(
                    f"{where} of workflow {workflow.name!r} refers to {name!r}, which is not one of its steps; "
                    f"{suggest_name(name, names)}"
                )
        for name in _VARIABLE.findall(text):
            if name not in variables:
                raise WorkflowError(
                    f"{where} of workflow {workflow.name!r} refers to the variable {name!r}, which is never set; "
                    f"{suggest_name(name, variables)}"
                )
    _check_blocks_of_elements(workflow)
    for problem in list_input_problems(workflow):
        raise WorkflowError(problem)
    _check_output(workflow)


def warn_about_steps_outside(workflow: ConductorWorkflow) -> None:
    """Warn about calls of workers below the block that use its values: they are not part of the workflow."""
    for number, step in list(unused_steps.items()):
        if workflow.name in step.uses:
            del unused_steps[number]
            warnings.warn_explicit(
                f"step {step.description} refers to {step.uses[workflow.name]}, but is called outside the `with` block "
                f"of workflow {workflow.name!r}, which therefore does not contain it: indent the call",
                UserWarning,
                step.file,
                step.line,
            )


def _check_owners(workflow: ConductorWorkflow) -> None:
    """Check that no reference belongs to another workflow, even if this workflow has a step or input of that name."""
    for where, text in _list_texts(workflow):
        if isinstance(text, Reference) and text._owner not in (None, workflow.name):
            raise _make_owner_error(where, workflow, describe_target(text), str(text._owner))


def _make_owner_error(where: str, workflow: ConductorWorkflow, target: str, owner: str) -> WorkflowError:
    advice = f"return it there, and call {owner!r} as a step"
    if not target.startswith("step "):
        advice = f"use an input of {workflow.name!r}"
    return WorkflowError(f"{where} of workflow {workflow.name!r} refers to {target} of workflow {owner!r}: {advice}")


def _check_blocks_of_elements(workflow: ConductorWorkflow) -> None:
    """Check that steps outside an `each` block refer neither to its element nor directly to its steps."""
    for block in [step for step in workflow.steps() if isinstance(step, EachTask)]:
        ref, inner = block.task_reference_name, list(list_steps(block._steps))
        names = {step.task_reference_name for step in inner}
        for where, text in _list_texts(workflow, omit={*names, ref}):
            if _uses(ref, "item", text):
                raise WorkflowError(f"{where} refers to the element of {ref!r} outside its block")
            for name in names.intersection(STEP_REFERENCE.findall(text)):
                raise WorkflowError(
                    f"{where} refers to {name!r}, which runs once for each element of {ref!r}: use collect(...)"
                )


def _uses(ref: str, part: str, text: str) -> bool:
    return re.search(rf"\$\{{\s*{re.escape(ref)}\.{part}\b", text) is not None


def list_input_problems(workflow: ConductorWorkflow) -> list[str]:
    """Return a message for each `${workflow.input.…}` in a text that names no declared input."""
    value_type = None if workflow._inputs is None else workflow._inputs.value_type
    if value_type is None:
        return []
    found = []
    for where, text in _list_texts(workflow):
        for path in _INPUT.findall(text):
            try:
                value_type.at(path, f"the input of workflow {workflow.name!r}")
            except UnknownOutput as error:
                found.append(f"{where} refers to ${{workflow.input.{path}}}, but {error}")
    return found


def _list_variables(workflow: ConductorWorkflow) -> set[str]:
    set_by_steps = [step._input_parameters for step in workflow.steps() if step._task_type == "SET_VARIABLE"]
    return {*workflow._variables, *(name for inputs in set_by_steps for name in inputs)}


def _list_texts(workflow: ConductorWorkflow, omit: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Return the texts and references of the steps and of the output, each with its place."""
    for step in workflow.steps():
        if step.task_reference_name not in omit:
            for text in list_texts(step._input_parameters):
                yield f"step {step._task_reference_name!r}", text
    for text in list_texts(workflow._output_parameters):
        yield "the output", text


def _check_output(workflow: ConductorWorkflow) -> None:
    gives = workflow._output_type
    properties = (
        gives.value_type.schema.get("properties") if gives is not None and gives.value_type is not None else None
    )
    if gives is None or gives.value_type is None or not properties:
        return
    owner = f"workflow {workflow.name!r}"
    for name in workflow._output_parameters:
        if name not in properties:
            raise WorkflowError(
                f"{owner} returns {name!r}, which is not in its declared output; {suggest_name(name, properties)}"
            )
    missing = [n for n in gives.value_type.schema.get("required", ()) if n not in workflow._output_parameters]
    if missing:
        raise WorkflowError(f"{owner} does not return {' and '.join(map(repr, missing))}: add it with returns(...)")
