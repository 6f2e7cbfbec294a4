"""Tasks that are created at run time: the branches of a FORK_JOIN_DYNAMIC, and the replacement of a DYNAMIC task.

Such a task carries its own definition (`state.RuntimeDefinition`). It is retried, shown and joined like any other task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from conductor.coordinator.definitions.validation import find_runtime_task_problem
from conductor.coordinator.definitions.workflow_plan import TASK_TYPES, TaskNode, task_type
from conductor.coordinator.language.expressions import escape_expressions, shorten
from conductor.coordinator.language.value_sizes import check_size
from conductor.coordinator.limits import MAX_BRANCHES
from conductor.coordinator.workflows.decision import Draft
from conductor.coordinator.workflows.state import RuntimeDefinition

#: The input parameter with one entry per branch, for a dynamic fork whose branches differ only in their input.
_ALIKE = "forkTaskInputs"
#: A SIMPLE task with one of these names becomes a system task, as on Conductor.
_SYSTEM_NAMES = frozenset(TASK_TYPES) - {"SIMPLE", "DYNAMIC"}
#: The keys under which the input of a dynamic fork stores the names and the definitions of its branches.
FORKED_TASKS, FORKED_DEFINITIONS = "forkedTasks", "forkedTaskDefs"


class FlowError(Exception):
    """The workflow cannot continue and fails as a whole. The message becomes its failure reason."""


# -- a dynamic fork


def branches(draft: Draft, node: TaskNode, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the branches of a dynamic fork by reference name. Each branch is one task.

    Raises:
        FlowError: The input of the fork is invalid.
    """
    if node.next is None or node.next.type != "JOIN":
        raise FlowError("Dynamic join definition is not followed by a join task.  Check the workflow definition.")
    alike = isinstance(given.get(_ALIKE), list)
    made = _make_alike(node, given) if alike else _read_tasks_and_inputs(node, given)
    for index, task in enumerate(made):
        if not (alike and index):  # one check is enough if the branches differ only in their input and their number
            _check_definition(node, task)
        _check_reference(draft, node, task["taskReferenceName"])
    found: dict[str, dict[str, Any]] = {}
    for task in made:
        found.setdefault(task["taskReferenceName"], task)
    check_size(f"the branches of {node.ref}", list(found.values()))
    return found


def _check_number(node: TaskNode, branches: list[Any]) -> list[Any]:
    if len(branches) > MAX_BRANCHES:
        raise FlowError(f"the dynamic fork {node.ref} has {len(branches)} branches; at most {MAX_BRANCHES} are allowed")
    return branches


def _check_definition(node: TaskNode, task: dict[str, Any]) -> None:
    problem = find_runtime_task_problem(_with_type(task))
    if problem is not None:
        ref = task["taskReferenceName"]
        raise FlowError(f"the task '{shorten(ref)}' of the dynamic fork {node.ref} is invalid: {problem}")


def _check_reference(draft: Draft, node: TaskNode, ref: str) -> None:
    """Reject a branch named like a task of the definition, because the branch would receive the task's secrets."""
    if draft.plan.base_name(ref) is not None:
        raise FlowError(
            f"the dynamic fork {node.ref} has a task '{shorten(ref)}', but the workflow definition already has a task "
            "with this reference name"
        )


def _make_alike(node: TaskNode, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the branches that run one task type or one sub-workflow with many inputs."""
    workflow, kind = given.get("forkTaskWorkflow"), given.get("forkTaskType") or "SIMPLE"
    name = given.get("forkTaskName") or (kind if kind != "SIMPLE" else node.ref)
    made = []
    for index, one in enumerate(_check_number(node, _as_literal(given[_ALIKE]))):
        parameters = {**(one if isinstance(one, dict) else {"input": one}), "__index": index}
        task: dict[str, Any] = {
            "name": name if workflow is None else workflow,
            "taskReferenceName": f"_{name}_{index}",
            "type": kind if workflow is None else "SUB_WORKFLOW",
            "inputParameters": parameters,
        }
        if workflow is not None:
            task["subWorkflowParam"] = _make_sub_workflow_parameters(
                workflow, given.get("forkTaskWorkflowVersion"), one
            )
        if node.optional:
            task["optional"] = True
        made.append(task)
    return made


def _make_sub_workflow_parameters(name: Any, version: Any, one: Any) -> dict[str, Any]:
    parameters = {"name": name, "version": int(version) if str(version).isdecimal() else None}
    if isinstance(one, dict) and isinstance(one.get("taskToDomain"), dict):
        parameters["taskToDomain"] = one["taskToDomain"]
    return {key: value for key, value in parameters.items() if value is not None}


def _read_tasks_and_inputs(node: TaskNode, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the branches from a list of tasks and a map of their inputs."""
    named = node.task.get("dynamicForkTasksParam")
    if named is None:
        return _read_task_list(node, given)
    tasks, inputs = given.get(named), given.get(str(node.task.get("dynamicForkTasksInputParamName")))
    if not isinstance(tasks, list) or not all(_has_reference(task) for task in tasks):
        raise FlowError(
            f"Input '{named}' is invalid. Cannot deserialize a list of Workflow Tasks from "
            f"'{shorten(_format_null(tasks))}'"
        )
    if not isinstance(inputs, dict):
        raise FlowError(
            "Input to the dynamically forked tasks is not a map -> expecting a map of K,V  but found "
            f"{shorten(_format_null(inputs))}"
        )
    inputs = _as_literal(inputs)
    return [_with_input(task, inputs.get(task["taskReferenceName"])) for task in _check_number(node, tasks)]


def _read_task_list(node: TaskNode, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the branches from the oldest input format: a list of tasks that contain their inputs."""
    named = node.task.get("dynamicForkJoinTasksParam")
    found = given.get(str(named))
    tasks = found.get("dynamicTasks") if isinstance(found, dict) else None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise FlowError(
            f"Dynamic tasks could not be created. The value of {_format_null(named)} from task's input "
            f"{shorten(dict(given))} has no dynamic tasks to be scheduled"
        )
    return [
        _with_input(
            {
                "name": task.get("taskName"),
                "taskReferenceName": task.get("referenceName") or "",
                "type": task.get("type") or "SIMPLE",
            },
            _as_literal(task.get("input")),
        )
        for task in _check_number(node, tasks)
    ]


def _as_literal(data: Any) -> Any:
    """Return the inputs of branches with escaped expressions, so that these are not resolved.

    Otherwise, a client that chooses the input of a workflow could read its secrets with `${workflow.secrets.X}`.
    """
    return escape_expressions(data) if b"${" in msgspec.json.encode(data) else data


def _has_reference(task: Any) -> bool:
    return isinstance(task, dict) and isinstance(task.get("taskReferenceName"), str)


def _with_input(task: dict[str, Any], given: Any) -> dict[str, Any]:
    if not isinstance(given, dict | None):
        ref = task["taskReferenceName"]
        raise FlowError(
            f"Tasks could not be dynamically forked due to invalid input: the input of {shorten(ref)} is "
            f"'{shorten(given)}'"
        )
    parameters = task.get("inputParameters")
    return {**task, "inputParameters": {**(parameters if isinstance(parameters, dict) else {}), **(given or {})}}


def _with_type(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task with its type and its name.

    A task without a type whose name is `HTTP` is an HTTP task. A task without a name gets its type as the name.
    """
    kind, name = task_type(task), task.get("name")
    if kind == "SIMPLE" and isinstance(name, str) and name in _SYSTEM_NAMES:
        kind = name
    elif name is None and kind != "SIMPLE":
        name = kind
    made = {**task, "name": name, "type": kind}
    parameters = task.get("inputParameters")
    if kind == "EVENT" and not task.get("sink") and isinstance(parameters, dict):
        made["sink"] = parameters.get("sink")
    return made


def _format_null(value: Any) -> Any:
    """Return "null" for None, as Conductor's messages do."""
    return "null" if value is None else value


def branch_node(draft: Draft, fork: TaskNode, task: Mapping[str, Any]) -> tuple[TaskNode, RuntimeDefinition]:
    """Return the node of a branch, and its definition, which contains the task definition that is registered now."""
    own = RuntimeDefinition(task=_with_definition(draft, _with_type(task)), fork=fork.ref)
    return draft.plan.make_runtime_node(own.task, task_type(own.task), fork), own


# -- a DYNAMIC task


def dynamic_node(draft: Draft, node: TaskNode, given: Mapping[str, Any]) -> tuple[TaskNode, RuntimeDefinition]:
    """Return the node and the definition of the task that replaces a DYNAMIC task with this input.

    Raises:
        FlowError: The input has no task name, or a system task cannot be created from it.
    """
    parameter = node.task.get("dynamicTaskNameParam")
    name = given.get(str(parameter))
    if name is None or not str(name).strip():
        raise FlowError(
            "Cannot map a dynamic task based on the parameter and input. "
            f"Parameter= {parameter}, input= {shorten(dict(given))}"
        )
    named = {**node.task, "name": str(name)}
    made = _with_type({**named, "type": "SIMPLE"})
    kind = task_type(made)
    if kind != "SIMPLE":
        named = made
        if problem := find_runtime_task_problem(made):
            raise FlowError(f"the DYNAMIC task {node.ref} cannot be a {kind}: {problem}")
    fork = node.parent.ref if node.parent and node.parent.type == "FORK_JOIN_DYNAMIC" else None
    own = RuntimeDefinition(task=_with_definition(draft, named), fork=fork)
    return draft.plan.make_runtime_node(own.task, kind, node), own


def _with_definition(draft: Draft, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a task. If it contains no task definition, add the registered one."""
    registered = None if task.get("taskDefinition") else draft.state.registered(str(task["name"]))
    return {**task, "taskDefinition": registered} if registered else dict(task)
