"""Starts a task that the flow has reached, with one function per task type.

An operator receives a new task with its ids and input. It returns the started task, which waits or has ended. It raises
`OperatorError` if the task cannot start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from conductor.coordinator.definitions.validation import MAX_COUNT, validate_definition
from conductor.coordinator.definitions.workflow_plan import (
    DEFAULT_CASE,
    SCRIPT_EVALUATORS,
    TERMINATION_STATUSES,
    TaskNode,
)
from conductor.coordinator.language import javascript_subset
from conductor.coordinator.language.durations import parse_duration_ms, parse_until_ms
from conductor.coordinator.language.expressions import resolve, shorten, to_text
from conductor.coordinator.language.value_sizes import TooLarge, check_size
from conductor.coordinator.limits import MAX_MESSAGE_BATCH
from conductor.coordinator.workflows.decision import Draft, ScriptNeeded, SubWorkflowStart
from conductor.coordinator.workflows.dynamic_tasks import FORKED_DEFINITIONS, FORKED_TASKS, FlowError, branches
from conductor.coordinator.workflows.scope import Scope
from conductor.coordinator.workflows.state import TaskState
from conductor.protocol.statuses import TaskStatus

#: The highest priority a workflow can have.
MAX_PRIORITY = 99

Start = Callable[[Draft, TaskNode, TaskState], TaskState]


class OperatorError(Exception):
    """A task that cannot start. The message becomes the reason of its failure."""


def start_operator(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Start a task with the operator of its type, and return the started task."""
    try:
        return OPERATORS[node.type](draft, node, task)
    except ScriptNeeded:
        return replace(task, status=TaskStatus.IN_PROGRESS, queued=True)
    except javascript_subset.ConditionError as error:
        return replace(failed(draft, task, str(error)), status=TaskStatus.FAILED)
    except (OperatorError, TooLarge) as error:
        return failed(draft, task, str(error))


def failed(draft: Draft, task: TaskState, reason: str) -> TaskState:
    """Return a task that has failed because it could not start."""
    return replace(task, status=TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=reason, ended_ms=draft.now_ms)


def raw_input(task: TaskState) -> dict[str, Any]:
    """Return the input that was resolved for a task, before its operator changed it."""
    given: dict[str, Any] = task.input.get("workflowInput", {}) if task.type == "SUB_WORKFLOW" else task.input
    return given


def _completed(draft: Draft, task: TaskState, **changes: Any) -> TaskState:
    return replace(task, status=TaskStatus.COMPLETED, ended_ms=draft.now_ms, **changes)


def simple(_draft: Draft, _node: TaskNode, task: TaskState) -> TaskState:
    """Queue the task for a worker."""
    return replace(task, status=TaskStatus.SCHEDULED, started_ms=0, queued=True)


def http(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Queue the task for the coordinator's HTTP worker.

    The input `asyncComplete` tells the worker whether the task stays open until a signal completes it.
    """
    given = {**task.input, "asyncComplete": bool(node.task.get("asyncComplete"))}
    return simple(draft, node, replace(task, input=given))


def event(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Queue the task for the coordinator's event worker, with the sink of the event."""
    given = {**task.input, "sink": resolve(node.task.get("sink"), Scope(draft, task.task_id))}
    return http(draft, node, replace(task, input=given))


def human(_draft: Draft, _node: TaskNode, task: TaskState) -> TaskState:
    """Wait until a client updates the task."""
    return replace(task, status=TaskStatus.IN_PROGRESS)


def noop(draft: Draft, _node: TaskNode, task: TaskState) -> TaskState:
    """End at once."""
    return _completed(draft, task, input={})


def switch(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Evaluate the expression, choose a case, and end at once."""
    case = to_text(_switch_value(draft, node, task))
    chosen: dict[str, Any] = {"case": case}
    if find_chosen_case(node, case):
        chosen["hasChildren"] = "true"
    output = {"caseOutput": [case]} if node.type == "DECISION" else {"evaluationResult": [case], "selectedCase": case}
    return _completed(draft, task, input={**task.input, **chosen}, output=output)


def _switch_value(draft: Draft, node: TaskNode, task: TaskState) -> Any:
    if node.type == "DECISION":
        script = node.task.get("caseExpression")
        return draft.evaluate(task, str(script), task.input) if script else task.input.get(node.task["caseValueParam"])
    expression = str(node.task.get("expression"))
    if node.task.get("evaluatorType") in SCRIPT_EVALUATORS:
        return draft.evaluate(task, expression, task.input)
    return task.input.get(expression)


def find_chosen_case(node: TaskNode, case: Any) -> list[TaskNode]:
    """Return the tasks of a case; the tasks of the default case if there is no such case."""
    return list(node.cases.get(case) or node.cases[DEFAULT_CASE])


def fork(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Complete the fork task at once. The decider starts the branches when it processes the completed task."""
    if node.next is None or node.next.type != "JOIN":
        raise FlowError("Fork task definition is not followed by a join task.  Check the blueprint")
    forked = [branch[0].ref for branch in node.branches]
    return _completed(draft, task, input={**task.input, "forkedTasks": forked})


def fork_dynamic(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Read the branches from the task's input, and complete the fork task at once.

    The decider starts the branches when it processes the completed task.
    """
    made = branches(draft, node, task.input)
    forked = {FORKED_TASKS: list(made), FORKED_DEFINITIONS: list(made.values())}
    return _completed(draft, task, input={**forked, **task.input})


def join(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Wait for the tasks in `joinOn`. If it is empty or the fork is dynamic, wait for all branches."""
    joined = list(node.task.get("joinOn") or ())
    fork = node.fork
    if fork is not None and fork.type == "FORK_JOIN_DYNAMIC":
        forked = draft.current_task(fork)
        joined = list(forked.input.get(FORKED_TASKS) or ()) if forked else []
    elif fork is not None and not joined:
        joined = [branch[-1].ref for branch in fork.branches]
    given = {**task.input, "joinOn": joined}
    return replace(task, status=TaskStatus.IN_PROGRESS, input=given, joins=frozenset(joined))


def exclusive_join(_draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Wait for the first started task in `joinOn` or, if none was started, in `defaultExclusiveJoinTask`."""
    lists = {name: list(node.task.get(name) or ()) for name in ("joinOn", "defaultExclusiveJoinTask")}
    return replace(task, status=TaskStatus.IN_PROGRESS, input={**task.input, **lists})


def do_while(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Begin the first iteration. A loop over an empty list ends at once."""
    items = find_loop_items(draft, node)
    if items is not None and not items:
        return _completed(draft, task, iteration=0, output={"iteration": 0})
    return replace(task, status=TaskStatus.IN_PROGRESS, iteration=1, output=iteration_values(1, items))


def find_loop_items(draft: Draft, node: TaskNode) -> list[Any] | None:
    """Return the list that a loop iterates over; None if the loop has only a condition."""
    asked = node.task.get("items")
    if not asked:
        return None
    # A list from the workflow input is constant and may be large, so it is resolved only once per decision.
    if not asked.startswith("${workflow.input"):
        found = resolve(asked, Scope(draft))
    elif asked in draft.known_items:
        found = draft.known_items[asked]
    else:
        found = draft.known_items[asked] = resolve(asked, Scope(draft))
    return [] if found is None else found if isinstance(found, list) else [found]


def iteration_values(number: int, items: list[Any] | None) -> dict[str, Any]:
    """Return the part of a loop's output that the tasks of an iteration can refer to."""
    now: dict[str, Any] = {"iteration": number}
    return now if items is None else {**now, "loopIndex": number - 1, "loopItem": items[number - 1]}


def dynamic(_draft: Draft, _node: TaskNode, _task: TaskState) -> TaskState:
    """Never called: the decider replaces a DYNAMIC task before it starts."""
    raise OperatorError("a DYNAMIC task does not name the task to run")


def set_variable(draft: Draft, _node: TaskNode, task: TaskState) -> TaskState:
    """Store each input as a variable of the workflow."""
    variables = {**draft.variables, **task.input}
    check_size("the variables of this workflow", variables)
    draft.variables = variables
    return _completed(draft, task)


def terminate(draft: Draft, _node: TaskNode, task: TaskState) -> TaskState:
    """End at once. The decider then ends the workflow with the output of this task."""
    status = task.input.get("terminationStatus")
    if status not in TERMINATION_STATUSES:
        raise OperatorError(
            f"terminationStatus is '{shorten(status)}'; it must be one of {', '.join(TERMINATION_STATUSES)}"
        )
    output = task.input.get("workflowOutput")
    if output is None:
        output = {}
    return _completed(draft, task, output=output if isinstance(output, dict) else {"output": output})


def wait(draft: Draft, _node: TaskNode, task: TaskState) -> TaskState:
    """Wait for a duration, until a time, or until a client updates the task."""
    duration, until = task.input.get("duration"), task.input.get("until")
    if duration and until:
        raise OperatorError("WAIT takes either 'duration' or 'until', not both")
    at_ms = None
    try:
        if duration:
            at_ms = draft.now_ms + parse_duration_ms(to_text(duration))
        elif until:
            at_ms = parse_until_ms(to_text(until))
    except (ValueError, OverflowError) as error:
        raise OperatorError(str(error)) from error
    if at_ms is not None and at_ms <= draft.now_ms:
        return _completed(draft, task)
    return replace(task, status=TaskStatus.IN_PROGRESS, wait_until_ms=at_ms)


def pull_messages(draft: Draft, _node: TaskNode, task: TaskState) -> TaskState:
    """Take the oldest messages to the workflow. Wait if there are none, unless the input `blocking` is false."""
    messages = draft.take_messages(_batch_size(task.input.get("batchSize")))
    if not messages and task.input.get("blocking") is not False:
        return replace(task, status=TaskStatus.IN_PROGRESS)
    return _completed(draft, task, output={"messages": messages, "count": len(messages)})


def _batch_size(given: Any) -> int:
    """Return how many messages a task takes. As on Conductor, a number outside 1 to 100 is replaced by the nearest."""
    if given is None:
        return 1
    try:
        number = int(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise OperatorError(
            f"batchSize is '{shorten(given)}'; it must be a number from 1 to {MAX_MESSAGE_BATCH}"
        ) from error
    return min(max(number, 1), MAX_MESSAGE_BATCH)


def sub_workflow(draft: Draft, node: TaskNode, task: TaskState) -> TaskState:
    """Start another workflow and wait for its end."""
    parameters = node.task.get("subWorkflowParam") or {}
    resolved = resolve({key: parameters.get(key) for key in _SUB_WORKFLOW_KEYS}, Scope(draft, task.task_id))
    definition = _inline_definition(draft, parameters.get("workflowDefinition"))
    name = resolved["name"] or (definition or {}).get("name")
    if not isinstance(name, str):
        raise OperatorError(f"the name of the sub-workflow is '{shorten(name)}'; it must be a string")
    given = {
        "subWorkflowName": name,
        "subWorkflowVersion": _whole_number("version", resolved["version"], MAX_COUNT) or None,
        "subWorkflowTaskToDomain": _domains(resolved["taskToDomain"]),
        "subWorkflowDefinition": definition,
        "priority": _whole_number("priority", resolved["priority"], MAX_PRIORITY),
        "idempotencyKey": _key(resolved["idempotencyKey"]),
        "idempotencyStrategy": parameters.get("idempotencyStrategy"),
        "workflowInput": task.input,
    }
    task = replace(task, input={key: value for key, value in given.items() if value is not None})
    if task.start_delay_ms > 0:
        return replace(
            task, status=TaskStatus.SCHEDULED, started_ms=0, wait_until_ms=draft.now_ms + task.start_delay_ms
        )
    return start_sub_workflow(draft, task)


_SUB_WORKFLOW_KEYS = ("name", "version", "taskToDomain", "priority", "idempotencyKey")


def _key(value: Any) -> str | None:
    """Return an idempotency key as a string; None if the value is null or empty."""
    return None if value is None or value == "" else to_text(value)


def _inline_definition(draft: Draft, definition: Any) -> dict[str, Any] | None:
    """Return the inline definition of a sub-workflow. If it is an expression, resolve and validate it."""
    if isinstance(definition, str):
        definition = resolve(definition, Scope(draft))
        if problems := validate_definition(definition, nested=True):
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
            f"the {name} of a sub-workflow is '{shorten(value)}'; it must be a whole number from 0 to {at_most}"
        )
    return number


def _domains(given: Any) -> dict[str, str] | None:
    """Return the domains by task type, without those that an expression resolved to null."""
    if given is None:
        return None
    for name, domain in given.items():
        if not isinstance(domain, str | None):
            raise OperatorError(
                f"taskToDomain of a sub-workflow gives '{name}' the domain '{shorten(domain)}'; it must be a string"
            )
    return {name: domain for name, domain in given.items() if domain is not None}


def start_sub_workflow(draft: Draft, task: TaskState) -> TaskState:
    """Add the start of a sub-workflow to the decision."""
    definition = task.input.get("subWorkflowDefinition")
    draft.decision.start_sub_workflows.append(
        SubWorkflowStart(
            task_id=task.task_id,
            name=task.input["subWorkflowName"],
            version=task.input.get("subWorkflowVersion"),
            definition=definition,
            is_definition_from_data=definition is not None and definition != _find_literal_definition(draft, task.ref),
            input=task.input.get("workflowInput", {}),
            task_to_domain=task.input.get("subWorkflowTaskToDomain"),
            priority=task.input.get("priority"),
            idempotency_key=task.input.get("idempotencyKey"),
            idempotency_strategy=task.input.get("idempotencyStrategy"),
        )
    )
    return replace(task, status=TaskStatus.IN_PROGRESS, started_ms=draft.now_ms, wait_until_ms=None)


def _find_literal_definition(draft: Draft, ref: str) -> Any:
    """Return the inline definition that the workflow definition contains for a task; None for a dynamic branch."""
    node = draft.plan.nodes.get(draft.plan.base_name(ref) or "")
    return None if node is None else (node.task.get("subWorkflowParam") or {}).get("workflowDefinition")


#: The operator of each task type.
OPERATORS: dict[str, Start] = {
    "SIMPLE": simple,
    "SWITCH": switch,
    "DECISION": switch,
    "FORK_JOIN": fork,
    "FORK_JOIN_DYNAMIC": fork_dynamic,
    "JOIN": join,
    "EXCLUSIVE_JOIN": exclusive_join,
    "DO_WHILE": do_while,
    "SUB_WORKFLOW": sub_workflow,
    "DYNAMIC": dynamic,
    "SET_VARIABLE": set_variable,
    "TERMINATE": terminate,
    "WAIT": wait,
    "HUMAN": human,
    "PULL_WORKFLOW_MESSAGES": pull_messages,
    "NOOP": noop,
    "HTTP": http,
    "INLINE": simple,
    "LAMBDA": simple,
    "JSON_JQ_TRANSFORM": simple,
    "EVENT": event,
    "START_WORKFLOW": simple,
}
