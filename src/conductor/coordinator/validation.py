"""Which workflow definitions can be registered. What is not supported is refused here by name, never ignored later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from conductor.coordinator import conditions
from conductor.coordinator.durations import parse_duration_ms, parse_until_ms
from conductor.coordinator.expressions import ExpressionError, expressions, parse_path, shown
from conductor.coordinator.plan import SCRIPT_EVALUATORS, TASK_TYPES, TERMINATION_STATUSES, task_type
from conductor.coordinator.scope import TASK_ID_NAME

#: Cases, branches, loops and inline sub-workflows deeper than this are refused.
MAX_NESTING = 30
#: Fields that Conductor or its relatives act on and we do not: refused unless empty.
UNSUPPORTED_TASK_FIELDS = ("cacheConfig", "onStateChange", "joinStatus", "items")
UNSUPPORTED_WORKFLOW_FIELDS = ("rateLimitConfig", "cacheConfig")
#: The largest number of seconds, attempts or versions: Java's int, as in Conductor.
MAX_COUNT = 2**31 - 1
TIMEOUT_POLICIES = ("ALERT_ONLY", "TIME_OUT_WF")


class Problem(NamedTuple):
    """Why a definition is refused, and where in it."""

    path: str
    message: str


def validate_definition(definition: Any) -> list[Problem]:
    """All that is wrong with a workflow definition, in the order it is written; empty if it can be registered."""
    checker = _Checker()
    checker.check_definition(definition)
    return checker.problems


@dataclass
class _Place:
    """Where in a definition we are."""

    path: str
    #: The reference name of the enclosing DO_WHILE.
    loop: str | None = None
    depth: int = 0

    def inside(self, path: str, loop: str | None = None) -> _Place:
        return _Place(f"{self.path}.{path}" if self.path else path, loop or self.loop, self.depth + 1)


@dataclass
class _Checker:
    """One definition; an inline sub-workflow gets a checker of its own."""

    prefix: str = ""
    depth: int = 0
    problems: list[Problem] = field(default_factory=list)
    #: Reference name → whether it is inside a loop.
    refs: dict[str, bool] = field(default_factory=dict)
    #: (where, what holds expressions)
    templates: list[tuple[str, Any]] = field(default_factory=list)

    def problem(self, path: str, message: str) -> None:
        self.problems.append(Problem(self.prefix + path, message))

    # -- the workflow

    def check_definition(self, definition: Any) -> None:
        if not isinstance(definition, dict):
            self.problem("", f"a workflow definition is a JSON object, not {_kind(definition)}")
            return
        if not _is_name(definition.get("name")):
            self.problem("name", "WorkflowDef name cannot be null or empty")
        if definition.get("schemaVersion", 2) != 2:
            self.problem("schemaVersion", f"schemaVersion is {definition['schemaVersion']}; only 2 is supported")
        self.check_workflow_fields(definition)
        self.check_sequence(definition.get("tasks"), _Place("tasks", depth=self.depth))
        self.templates.append(("outputParameters", definition.get("outputParameters")))
        self.templates.append(("failureWorkflow", definition.get("failureWorkflow")))
        self.check_round_names()
        self.check_expressions()

    def check_workflow_fields(self, definition: Mapping[str, Any]) -> None:
        self.check_count("version", definition.get("version"), at_least=1)
        self.check_count("timeoutSeconds", definition.get("timeoutSeconds"))
        policy = definition.get("timeoutPolicy")
        if policy is not None and policy not in TIMEOUT_POLICIES:
            self.problem("timeoutPolicy", f"timeoutPolicy is '{policy}'; it can be {' or '.join(TIMEOUT_POLICIES)}")
        for name in ("outputParameters", "inputTemplate", "variables"):
            self.check_object(name, definition.get(name))
        if not isinstance(definition.get("failureWorkflow"), str | None):
            self.problem("failureWorkflow", "failureWorkflow is the name of a workflow")
        for name in UNSUPPORTED_WORKFLOW_FIELDS:
            if definition.get(name):
                self.problem(name, f"{name} is not supported by the coordinator")

    # -- its tasks

    def check_sequence(self, tasks: Any, place: _Place, *, may_be_empty: bool = False) -> None:
        if may_be_empty and tasks in (None, []):
            return
        if not isinstance(tasks, list):
            self.problem(place.path, f"a list of tasks is expected, not {_kind(tasks)}")
        elif not tasks:
            self.problem(place.path, "there must be at least one task")
        elif place.depth > MAX_NESTING:
            self.problem(place.path, f"tasks are nested more than {MAX_NESTING} deep; use a SUB_WORKFLOW")
        else:
            for index, task in enumerate(tasks):
                neighbours = (tasks[index - 1] if index else None, tasks[index + 1 : index + 2])
                here = _Place(f"{place.path}[{index}]", place.loop, place.depth)
                self.check_task(task, here, previous=neighbours[0], following=next(iter(neighbours[1]), None))

    def check_task(self, task: Any, place: _Place, *, previous: Any, following: Any) -> None:
        if not isinstance(task, dict):
            self.problem(place.path, f"a task is a JSON object, not {_kind(task)}")
            return
        if not _is_name(task.get("name")):
            self.problem(f"{place.path}.name", "WorkflowTask name cannot be empty or null")
        self.check_reference(task.get("taskReferenceName"), place)
        self.check_task_fields(task, place)
        kind: Any = task_type(task)
        if kind not in TASK_TYPES:
            self.problem(
                f"{place.path}.type",
                f"task type {kind} of '{task.get('taskReferenceName')}' is not supported by the coordinator; "
                f"supported: {', '.join(TASK_TYPES)}",
            )
        elif check := _CHECKS.get(kind):
            check(self, task, place)
        if kind == "FORK_JOIN" and _type_of(following) != "JOIN":
            self.problem(place.path, f"{_titled(task)} must be followed by a JOIN")
        if kind == "JOIN":
            self.check_join(task, place, previous)

    def check_reference(self, ref: Any, place: _Place) -> None:
        path = f"{place.path}.taskReferenceName"
        if not _is_name(ref):
            self.problem(path, "WorkflowTask taskReferenceName name cannot be empty or null")
        elif ref in ("workflow", TASK_ID_NAME):
            self.problem(path, f"a task cannot have the reference name '{ref}': ${{{ref}}} has a meaning of its own")
        elif ref in self.refs:
            self.problem(path, f"taskReferenceName: {ref} should be unique across tasks for a given workflow")
        else:
            self.refs[ref] = place.loop is not None

    def check_task_fields(self, task: Mapping[str, Any], place: _Place) -> None:
        parameters = task.get("inputParameters")
        self.check_object(f"{place.path}.inputParameters", parameters)
        self.templates.append((f"{place.path}.inputParameters", parameters))
        for name in ("startDelay", "retryCount"):
            self.check_count(f"{place.path}.{name}", task.get(name))
        for name in ("optional", "permissive"):
            if not isinstance(task.get(name), bool | None):
                self.problem(f"{place.path}.{name}", f"{name} is true or false, not {_kind(task[name])}")
        self.check_object(f"{place.path}.taskDefinition", task.get("taskDefinition"))
        for name in UNSUPPORTED_TASK_FIELDS:
            if task.get(name):
                self.problem(f"{place.path}.{name}", f"{name} of {_titled(task)} is not supported by the coordinator")

    def check_object(self, path: str, value: Any) -> None:
        if not isinstance(value, dict | None):
            self.problem(path, f"a JSON object is expected, not {_kind(value)}")

    def check_count(self, path: str, value: Any, at_least: int = 0) -> None:
        if value is None:
            return
        if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= MAX_COUNT:
            self.problem(path, f"'{shown(value)}' is not a whole number from {at_least} to {MAX_COUNT}")

    def required(self, task: Mapping[str, Any], place: _Place, name: str) -> bool:
        if task.get(name) not in (None, "", [], {}):
            return True
        self.problem(
            f"{place.path}.{name}",
            f"{name} field is required for taskType: {task_type(task)} taskName: {task.get('name')}",
        )
        return False

    # -- what each type needs

    def check_switch(self, task: Mapping[str, Any], place: _Place) -> None:
        if self.required(task, place, "evaluatorType") and self.required(task, place, "expression"):
            evaluator = task["evaluatorType"]
            if evaluator in SCRIPT_EVALUATORS:
                self.check_condition(f"{place.path}.expression", task["expression"])
            elif evaluator != "value-param":
                known = ", ".join(("value-param", *SCRIPT_EVALUATORS))
                message = f"evaluatorType {evaluator} of {_titled(task)} is not supported by the coordinator"
                self.problem(f"{place.path}.evaluatorType", f"{message}; supported: {known}")
        self.check_cases(task, place)

    def check_decision(self, task: Mapping[str, Any], place: _Place) -> None:
        if task.get("caseExpression"):
            self.check_condition(f"{place.path}.caseExpression", task["caseExpression"])
        else:
            self.required(task, place, "caseValueParam")
        self.check_cases(task, place)

    def check_cases(self, task: Mapping[str, Any], place: _Place) -> None:
        if not self.required(task, place, "decisionCases"):
            return
        cases = task["decisionCases"]
        self.check_object(f"{place.path}.decisionCases", cases)
        for case, tasks in cases.items() if isinstance(cases, dict) else ():
            self.check_sequence(tasks, place.inside(f"decisionCases.{case}"), may_be_empty=True)
        self.check_sequence(task.get("defaultCase"), place.inside("defaultCase"), may_be_empty=True)

    def check_condition(self, path: str, text: Any) -> None:
        try:
            conditions.parse(text if isinstance(text, str) else repr(text))
        except conditions.ConditionError as error:
            self.problem(path, f"{error}; only a small part of JavaScript is supported by the coordinator")

    def check_fork(self, task: Mapping[str, Any], place: _Place) -> None:
        if not self.required(task, place, "forkTasks"):
            return
        branches = task["forkTasks"]
        if not isinstance(branches, list) or not any(branches):
            self.problem(f"{place.path}.forkTasks", "forkTasks is a list of lists of tasks")
            return
        for index, branch in enumerate(branches):
            self.check_sequence(branch, place.inside(f"forkTasks[{index}]"), may_be_empty=True)

    def check_join(self, task: Mapping[str, Any], place: _Place, previous: Any) -> None:
        joined = task.get("joinOn")
        if not isinstance(joined, list | None) or not all(isinstance(ref, str) for ref in joined or ()):
            self.problem(f"{place.path}.joinOn", "joinOn is a list of task reference names")
        elif _type_of(previous) != "FORK_JOIN":
            self.problem(place.path, f"{_titled(task)} must stand directly behind its FORK_JOIN")
        else:
            known = set(_refs_inside(previous))
            for ref in joined or ():
                if ref not in known:
                    self.problem(
                        f"{place.path}.joinOn",
                        f"{_titled(task)} waits for '{ref}', which is not in the branches of {_titled(previous)}",
                    )

    def check_loop(self, task: Mapping[str, Any], place: _Place) -> None:
        if place.loop:
            self.problem(
                place.path,
                f"{_titled(task)} is inside DO_WHILE '{place.loop}'; loops in loops are not supported by the "
                "coordinator, put the inner one into a SUB_WORKFLOW",
            )
        if self.required(task, place, "loopCondition"):
            self.check_condition(f"{place.path}.loopCondition", task["loopCondition"])
        if self.required(task, place, "loopOver"):
            self.check_sequence(task["loopOver"], place.inside("loopOver", loop=str(task.get("taskReferenceName"))))

    def check_sub_workflow(self, task: Mapping[str, Any], place: _Place) -> None:
        if not self.required(task, place, "subWorkflowParam"):
            return
        path, parameters = f"{place.path}.subWorkflowParam", task["subWorkflowParam"]
        self.check_object(path, parameters)
        if not isinstance(parameters, dict):
            return
        inline = parameters.get("workflowDefinition")
        if inline is None and not _is_name(parameters.get("name")):
            self.problem(f"{path}.name", "SubWorkflowParams name cannot be null or empty")
        self.check_object(f"{path}.taskToDomain", parameters.get("taskToDomain"))
        self.templates.append((path, {**parameters, "workflowDefinition": inline if isinstance(inline, str) else None}))
        if inline is not None and not isinstance(inline, str):
            self.check_inline(inline, f"{path}.workflowDefinition", place.depth + 1)

    def check_inline(self, definition: Any, path: str, depth: int) -> None:
        inner = _Checker(prefix=f"{self.prefix}{path}.", depth=depth)
        inner.check_definition(definition)
        self.problems += inner.problems

    def check_terminate(self, task: Mapping[str, Any], place: _Place) -> None:
        path = f"{place.path}.inputParameters.terminationStatus"
        parameters = task.get("inputParameters")
        status = parameters.get("terminationStatus") if isinstance(parameters, dict) else None
        if not _is_expression(status) and status not in TERMINATION_STATUSES:
            self.problem(path, f"terminationStatus is '{status}'; it can be {', '.join(TERMINATION_STATUSES)}")
        if task.get("optional"):
            self.problem(f"{place.path}.optional", f"{_titled(task)} cannot be optional")

    def check_wait(self, task: Mapping[str, Any], place: _Place) -> None:
        parameters = task.get("inputParameters")
        if not isinstance(parameters, dict):
            return
        if parameters.get("duration") and parameters.get("until"):
            message = "Both 'duration' and 'until' specified. Please provide only one input"
            self.problem(f"{place.path}.inputParameters", message)
        for name, parse in (("duration", parse_duration_ms), ("until", parse_until_ms)):
            value = parameters.get(name)
            if value and not _is_expression(value):
                self.check_time(f"{place.path}.inputParameters.{name}", str(value), parse)

    def check_time(self, path: str, text: str, parse: Callable[[str], int]) -> None:
        try:
            parse(text)
        except (ValueError, OverflowError) as error:
            self.problem(path, str(error))

    # -- names

    def check_round_names(self) -> None:
        """In a loop, round 2 of task `a` is called `a__2`: nothing else may be."""
        for ref in self.refs:
            base, found, number = ref.rpartition("__")
            if found and number.isdigit() and self.refs.get(base):
                self.problem("tasks", f"taskReferenceName '{ref}' is what '{base}' is called in a round of its loop")

    def check_expressions(self) -> None:
        for path, template in self.templates:
            for where, text in expressions(template, path):
                self.check_expression(where, text)

    def check_expression(self, path: str, text: str) -> None:
        if not text.strip():
            return  # Conductor reads ${} as an empty string
        try:
            name = str(parse_path(text)[0])
        except ExpressionError as error:
            self.problem(path, f"expression {error}")
            return
        base, _, number = name.rpartition("__")
        in_round = number.isdigit() and self.refs.get(base, False)
        if name not in ("workflow", TASK_ID_NAME) and name not in self.refs and not in_round:
            self.problem(path, f"${{{text}}} names '{name}', which is no task of this workflow")


_CHECKS: dict[str, Callable[[_Checker, Mapping[str, Any], _Place], None]] = {
    "SWITCH": _Checker.check_switch,
    "DECISION": _Checker.check_decision,
    "FORK_JOIN": _Checker.check_fork,
    "DO_WHILE": _Checker.check_loop,
    "SUB_WORKFLOW": _Checker.check_sub_workflow,
    "TERMINATE": _Checker.check_terminate,
    "WAIT": _Checker.check_wait,
}


def _refs_inside(task: Any) -> Iterator[str]:
    """The reference names of all tasks in the branches of a FORK_JOIN, however deep."""
    pending: list[Any] = [task.get("forkTasks")]
    while pending:
        at = pending.pop()
        if isinstance(at, list):
            pending += at
        elif isinstance(at, dict):
            yield str(at.get("taskReferenceName"))
            cases = at.get("decisionCases")
            pending += [
                at.get("forkTasks"),
                at.get("defaultCase"),
                *(cases.values() if isinstance(cases, dict) else ()),
            ]


def _titled(task: Mapping[str, Any]) -> str:
    return f"{task_type(task)} '{task.get('taskReferenceName')}'"


def _type_of(task: Any) -> str | None:
    return task_type(task) if isinstance(task, dict) else None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_expression(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a string", type(None): "null"}.get(type(value), f"'{value}'")
