"""What happens when the flow reaches a task, one function for each type.

An operator gets its task half made (ids, input) and returns it as it starts: finished at once, or waiting for
something. It raises OperatorError when it cannot start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from conductor.coordinator import conditions
from conductor.coordinator.draft import Draft, SubWorkflowStart
from conductor.coordinator.durations import parse_duration_ms, parse_until_ms
from conductor.coordinator.expressions import as_text, resolve, shown
from conductor.coordinator.plan import DEFAULT_CASE, SCRIPT_EVALUATORS, TERMINATION_STATUSES, Node
from conductor.coordinator.scope import Scope
from conductor.coordinator.sizes import TooLarge, check_size
from conductor.coordinator.validation import MAX_COUNT, validate_definition
from conductor.coordinator.workflow_state import TaskState

#: The highest priority a workflow can have.
MAX_PRIORITY = 99

Start = Callable[[Draft, Node, TaskState], TaskState]


class OperatorError(Exception):
    """A task of the flow that cannot start; its message becomes the reason of the failure."""


def start_operator(draft: Draft, node: Node, task: TaskState) -> TaskState:
    """The task as it starts."""
    try:
        return OPERATORS[node.type](draft, node, task)
    except (OperatorError, conditions.ConditionError, TooLarge) as error:
        return failed(draft, task, str(error))


def failed(draft: Draft, task: TaskState, reason: str) -> TaskState:
    """A task that never started."""
    return replace(task, status="FAILED_WITH_TERMINAL_ERROR", reason=reason, ended_ms=draft.now_ms)


def _completed(draft: Draft, task: TaskState, **changes: Any) -> TaskState:
    return replace(task, status="COMPLETED", ended_ms=draft.now_ms, **changes)


def simple(_draft: Draft, _node: Node, task: TaskState) -> TaskState:
    """For a worker: it waits in the queue."""
    return replace(task, status="SCHEDULED", started_ms=0)


def switch(draft: Draft, node: Node, task: TaskState) -> TaskState:
    """Choose a case."""
    case = as_text(_switch_value(node, task.input))
    chosen: dict[str, Any] = {"case": case}
    if chosen_case(node, case):
        chosen["hasChildren"] = "true"
    output = {"caseOutput": [case]} if node.type == "DECISION" else {"evaluationResult": [case], "selectedCase": case}
    return _completed(draft, task, input={**task.input, **chosen}, output=output)


def _switch_value(node: Node, given: dict[str, Any]) -> Any:
    if node.type == "DECISION":
        script = node.task.get("caseExpression")
        return conditions.evaluate(script, given) if script else given.get(str(node.task.get("caseValueParam")))
    expression = str(node.task.get("expression"))
    if node.task.get("evaluatorType") in SCRIPT_EVALUATORS:
        return conditions.evaluate(expression, given)
    return given.get(expression)


def chosen_case(node: Node, case: Any) -> list[Node]:
    """The tasks of a case; those of the default case if it has none."""
    return list(node.cases.get(case) or node.cases[DEFAULT_CASE])


def fork(draft: Draft, node: Node, task: TaskState) -> TaskState:
    """The branches start when the task has ended, which is at once."""
    forked = [branch[0].ref for branch in node.branches]
    return _completed(draft, task, input={**task.input, "forkedTasks": forked})


def join(_draft: Draft, node: Node, task: TaskState) -> TaskState:
    """Wait for tasks of the branches; for all branches, if it is not said for which."""
    branches = node.fork.branches if node.fork else ()
    joined = list(node.task.get("joinOn") or (branch[-1].ref for branch in branches))
    return replace(task, status="IN_PROGRESS", input={**task.input, "joinOn": joined})


def do_while(_draft: Draft, _node: Node, task: TaskState) -> TaskState:
    """The first round."""
    return replace(task, status="IN_PROGRESS", iteration=1, output={"iteration": 1})


def set_variable(draft: Draft, _node: Node, task: TaskState) -> TaskState:
    """Each input is a variable from now on."""
    variables = {**draft.variables, **task.input}
    check_size("the variables of this workflow", variables)
    draft.variables = variables
    return _completed(draft, task)


def terminate(draft: Draft, _node: Node, task: TaskState) -> TaskState:
    """The end of the workflow; its output is this task's."""
    status = task.input.get("terminationStatus")
    if status not in TERMINATION_STATUSES:
        raise OperatorError(f"terminationStatus is '{shown(status)}'; it can be {', '.join(TERMINATION_STATUSES)}")
    output = task.input.get("workflowOutput")
    if output is None:
        output = {}
    return _completed(draft, task, output=output if isinstance(output, dict) else {"output": output})


def wait(draft: Draft, _node: Node, task: TaskState) -> TaskState:
    """Until a time, for a time, or until somebody updates the task."""
    duration, until = task.input.get("duration"), task.input.get("until")
    if duration and until:
        raise OperatorError("WAIT takes a duration or a time in 'until', not both")
    at_ms = None
    try:
        if duration:
            at_ms = draft.now_ms + parse_duration_ms(as_text(duration))
        elif until:
            at_ms = parse_until_ms(as_text(until))
    except (ValueError, OverflowError) as error:
        raise OperatorError(str(error)) from error
    if at_ms is not None and at_ms <= draft.now_ms:
        return _completed(draft, task)
    return replace(task, status="IN_PROGRESS", wait_until_ms=at_ms)


def sub_workflow(draft: Draft, node: Node, task: TaskState) -> TaskState:
    """Start another workflow and wait for its end."""
    parameters = node.task.get("subWorkflowParam") or {}
    resolved = resolve({key: parameters.get(key) for key in _SUB_WORKFLOW_KEYS}, Scope(draft, task.task_id))
    definition = _inline_definition(draft, parameters.get("workflowDefinition"))
    name = resolved["name"] or (definition or {}).get("name")
    if not isinstance(name, str):
        raise OperatorError(f"the name of a sub-workflow is '{shown(name)}'; it is the name of a workflow")
    given = {
        "subWorkflowName": name,
        "subWorkflowVersion": _whole_number("version", resolved["version"], MAX_COUNT) or None,
        "subWorkflowTaskToDomain": _domains(resolved["taskToDomain"]),
        "subWorkflowDefinition": definition,
        "priority": _whole_number("priority", resolved["priority"], MAX_PRIORITY),
        "workflowInput": task.input,
    }
    task = replace(task, input={key: value for key, value in given.items() if value is not None})
    if task.start_delay_ms > 0:
        return replace(task, status="SCHEDULED", started_ms=0, wait_until_ms=draft.now_ms + task.start_delay_ms)
    return start_sub_workflow(draft, task)


_SUB_WORKFLOW_KEYS = ("name", "version", "taskToDomain", "priority")


def _inline_definition(draft: Draft, definition: Any) -> dict[str, Any] | None:
    """A definition given with the task. One that comes out of data has not been looked at by anybody yet."""
    if isinstance(definition, str):
        definition = resolve(definition, Scope(draft))
        if problems := validate_definition(definition):
            raise OperatorError(f"the definition of a sub-workflow is not valid: {problems[0].message}")
    return definition  # type: ignore[no-any-return] # validated, here or at registration


def _whole_number(name: str, value: Any, at_most: int) -> int | None:
    if value is None or value == "":
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not 0 <= number <= at_most:
        raise OperatorError(
            f"the {name} of a sub-workflow is '{shown(value)}'; it is a whole number from 0 to {at_most}"
        )
    return number


def _domains(given: Any) -> dict[str, str] | None:
    """Task type → domain. What an expression found nothing for has no domain."""
    if given is None:
        return None
    for name, domain in given.items():
        if not isinstance(domain, str | None):
            raise OperatorError(
                f"taskToDomain of a sub-workflow gives '{name}' the domain '{shown(domain)}'; a domain is a string"
            )
    return {name: domain for name, domain in given.items() if domain is not None}


def start_sub_workflow(draft: Draft, task: TaskState) -> TaskState:
    """Ask for the start of a SUB_WORKFLOW task's workflow."""
    draft.decision.start_sub_workflows.append(
        SubWorkflowStart(
            task_id=task.task_id,
            name=task.input["subWorkflowName"],
            version=task.input.get("subWorkflowVersion"),
            definition=task.input.get("subWorkflowDefinition"),
            input=task.input.get("workflowInput", {}),
            task_to_domain=task.input.get("subWorkflowTaskToDomain"),
            priority=task.input.get("priority"),
        )
    )
    return replace(task, status="IN_PROGRESS", started_ms=draft.now_ms, wait_until_ms=None)


#: One for each of `TASK_TYPES`.
OPERATORS: dict[str, Start] = {
    "SIMPLE": simple,
    "SWITCH": switch,
    "DECISION": switch,
    "FORK_JOIN": fork,
    "JOIN": join,
    "DO_WHILE": do_while,
    "SUB_WORKFLOW": sub_workflow,
    "SET_VARIABLE": set_variable,
    "TERMINATE": terminate,
    "WAIT": wait,
}
