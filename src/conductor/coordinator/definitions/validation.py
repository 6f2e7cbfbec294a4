"""Decides which workflow definitions can be registered. Unsupported parts are rejected here, never ignored later."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from conductor.coordinator.definitions.json_schemas import find_schema_form_problem, find_schema_problem
from conductor.coordinator.definitions.task_defs import parse_task_def
from conductor.coordinator.definitions.workflow_plan import (
    SCRIPT_EVALUATORS,
    TASK_TYPES,
    TERMINATION_STATUSES,
    strip_iterations,
    task_type,
)
from conductor.coordinator.language import javascript_subset
from conductor.coordinator.language.durations import parse_duration_ms, parse_until_ms
from conductor.coordinator.language.expressions import (
    TASK_ID_NAME,
    count_expressions,
    find_expressions,
    find_unclosed,
    shorten,
)
from conductor.coordinator.language.jsonpath import ExpressionError, parse_path
from conductor.coordinator.language.script_engines import Language, missing_engine
from conductor.coordinator.limits import MAX_EXPRESSIONS
from conductor.coordinator.request_errors import ApiError
from conductor.protocol.json_types import Json, JsonObject

#: Cases, branches, loops and inline sub-workflows that are nested more deeply are rejected.
MAX_NESTING = 30
#: Fields that products based on Conductor use. The coordinator stores them without effect, and warns if they are set.
UNUSED_TASK_FIELDS = ("cacheConfig", "onStateChange", "joinStatus")
UNUSED_WORKFLOW_FIELDS = ("cacheConfig",)
#: Reactions to a second start with the same idempotency key.
IDEMPOTENCY_STRATEGIES = ("FAIL", "FAIL_ON_RUNNING", "RETURN_EXISTING")
#: When Conductor evaluates a JOIN. The coordinator always evaluates it as soon as one of its tasks ends.
JOIN_MODES = ("SYNC", "ASYNC")
#: The fields of a rate limit, and the policies for a workflow above the limit.
RATE_LIMIT_FIELDS = ("rateLimitKey", "concurrentExecLimit", "policy")
RATE_LIMIT_POLICIES = ("QUEUE", "REJECT")
#: Types that contain other tasks or wait for them. A task made at run time cannot have one of these types.
CONTAINER_TYPES = ("SWITCH", "DECISION", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "DO_WHILE")
_OUTPUT = "outputParameters"
#: Conductor rejects unknown names in `${...}` only in the input of top-level tasks.
_TOP_LEVEL_INPUT = re.compile(r"tasks\[\d+\]\.inputParameters")
#: The largest number of seconds, attempts or versions: the largest Java int, as in Conductor.
MAX_COUNT = 2**31 - 1
TIMEOUT_POLICIES = ("ALERT_ONLY", "TIME_OUT_WF")
#: Fields of an HTTP request that only Conductor or products based on it support → what to do instead.
UNSUPPORTED_HTTP_FIELDS = {
    "vipAddress": "there is no service discovery; write the address of the service into uri",
    "hedgingConfig": "requests are not duplicated; retry the task with retryCount",
}
_USE_WORKER = "use a SIMPLE task and a worker that does it"
_NO_AI = f"there are no AI integrations; {_USE_WORKER}"
#: Types that only Conductor or products based on it support → what to do instead.
FOREIGN_TYPES = {
    **dict.fromkeys(("KAFKA_PUBLISH", "JDBC", "GET_DOCUMENT"), _USE_WORKER),
    "HTTP_POLL": "use an HTTP task in a DO_WHILE with a WAIT",
    "WAIT_FOR_WEBHOOK": "use a WAIT or a HUMAN task, and complete it over the API when the webhook is called",
    **dict.fromkeys(("AGENT", "GET_AGENT_CARD", "CANCEL_AGENT", "LIST_API_TOOLS", "PLAN_AND_COMPILE"), _NO_AI),
    **dict.fromkeys(("LIST_MCP_TOOLS", "CALL_MCP_TOOL"), _NO_AI),
}
#: Prefixes of further unsupported types.
AI_TYPES = ("LLM_", "GENERATE_")


class DefinitionProblem(NamedTuple):
    """A problem or a warning, and its place in the definition."""

    path: str
    message: str


def find_runtime_task_problem(task: JsonObject) -> str | None:
    """Return why a task that was made at run time is invalid, or None."""
    kind = task_type(task)
    if kind in CONTAINER_TYPES:
        return f"a {kind} contains or waits for other tasks; put it into a SUB_WORKFLOW"
    checker = _Checker()
    checker.check_task(_Task(task, ""))
    if checker.problems:
        return checker.problems[0].message
    if task.get("taskDefinition"):
        try:
            parse_task_def({**task["taskDefinition"], "name": task["name"]}, embedded=True)
        except ApiError as error:
            return "; ".join(message for _, message in error.problems) or error.message
    return None


def validate_definition(definition: Json, *, nested: bool = False) -> list[DefinitionProblem]:
    """Return all problems of a workflow definition in the order of its text; an empty list if it is valid.

    `nested` is true for the definition of a sub-workflow, in which Conductor accepts unknown names in expressions.
    """
    checker = _Checker(nested=nested)
    checker.check_definition(definition)
    return checker.problems


def find_definition_warnings(definition: Json) -> list[DefinitionProblem]:
    """Return which parts of a workflow definition have no effect, or will fail when they are used."""
    checker = _Checker()
    checker.check_definition(definition)
    return checker.warnings


class _Task(NamedTuple):
    """A task, and its place in the definition."""

    fields: JsonObject
    path: str
    in_loop: bool = False
    depth: int = 0

    def get(self, name: str) -> Json:
        return self.fields.get(name)

    def at(self, name: str) -> str:
        return f"{self.path}.{name}"

    @property
    def parameters(self) -> JsonObject:
        parameters = self.get("inputParameters")
        return parameters if isinstance(parameters, dict) else {}

    @property
    def title(self) -> str:
        return f"{task_type(self.fields)} '{self.get('taskReferenceName')}'"


@dataclass
class _Checker:
    """Checks one definition; an inline sub-workflow gets its own checker."""

    prefix: str = ""
    depth: int = 0
    #: Whether this is the definition of a sub-workflow.
    nested: bool = False
    problems: list[DefinitionProblem] = field(default_factory=list)
    warnings: list[DefinitionProblem] = field(default_factory=list)
    #: Reference name → whether the task is inside a loop.
    refs: dict[str, bool] = field(default_factory=dict)
    #: Values with expressions, each with its path.
    templates: list[tuple[str, Json]] = field(default_factory=list)

    def problem(self, path: str, message: str) -> None:
        self.problems.append(DefinitionProblem(self.prefix + path, message))

    def warn(self, path: str, message: str) -> None:
        self.warnings.append(DefinitionProblem(self.prefix + path, message))

    # -- values

    def check_object(self, path: str, value: Json) -> None:
        if not isinstance(value, dict | None):
            self.problem(path, f"a JSON object is expected, not {_describe_type(value)}")

    def check_count(self, path: str, value: Json, at_least: int = 0) -> None:
        if value is None:
            return
        if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= MAX_COUNT:
            self.problem(path, f"'{shorten(value)}' is not a whole number from {at_least} to {MAX_COUNT}")

    def check_choice(self, path: str, value: Json, choices: Sequence[str]) -> None:
        if value is not None and value not in choices:
            self.problem(path, f"{path.rpartition('.')[2]} is '{shorten(value)}'; it can be {', '.join(choices)}")

    def check_time(self, path: str, text: str, parse: Callable[[str], int]) -> None:
        try:
            parse(text)
        except (ValueError, OverflowError) as error:
            self.problem(path, str(error))

    def check_condition(self, path: str, text: Json) -> None:
        try:
            javascript_subset.parse(text if isinstance(text, str) else repr(text))
        except javascript_subset.ConditionError as error:
            missing = missing_engine("javascript")
            if missing is not None or not isinstance(text, str):
                self.problem(path, f"{error}; any other JavaScript {missing or 'must be written as a text'}")

    def require(self, task: _Task, name: str) -> bool:
        """Report a missing field of a task. Return whether the field is present."""
        if task.get(name) not in (None, "", [], {}):
            return True
        message = f"{name} field is required for taskType: {task_type(task.fields)} taskName: {task.get('name')}"
        self.problem(task.at(name), message)
        return False

    # -- the workflow

    def check_definition(self, definition: Json) -> None:
        if not isinstance(definition, dict):
            self.problem("", f"a workflow definition must be a JSON object, not {_describe_type(definition)}")
            return
        if not _is_name(definition.get("name")):
            self.problem("name", "WorkflowDef name cannot be null or empty")
        if definition.get("schemaVersion", 2) != 2:
            self.problem("schemaVersion", f"schemaVersion is {definition['schemaVersion']}; only 2 is supported")
        self.check_workflow_fields(definition)
        self.check_sequence("tasks", definition.get("tasks"), self.depth)
        self.templates.append((_OUTPUT, definition.get("outputParameters")))
        self.templates.append(("failureWorkflow", definition.get("failureWorkflow")))
        self.check_iteration_names()
        self.check_expressions()

    def check_workflow_fields(self, definition: JsonObject) -> None:
        self.check_count("version", definition.get("version"), at_least=1)
        self.check_count("timeoutSeconds", definition.get("timeoutSeconds"))
        self.check_count("failureWorkflowVersion", definition.get("failureWorkflowVersion"))
        self.check_choice("timeoutPolicy", definition.get("timeoutPolicy"), TIMEOUT_POLICIES)
        for name in ("outputParameters", "inputTemplate", "variables"):
            self.check_object(name, definition.get(name))
        if not isinstance(definition.get("failureWorkflow"), str | None):
            self.problem("failureWorkflow", "failureWorkflow must be the name of a workflow")
        schema = definition.get("inputSchema") if definition.get("enforceSchema") is not False else None
        if (wrong := find_schema_form_problem(schema)) is not None:
            self.problem("inputSchema", f"the input schema cannot be used: {wrong}")
        elif (wrong := find_schema_problem(schema)) is not None:
            self.warn("inputSchema", f"the input schema cannot be used, so no workflow can start: {wrong}")
        self.check_rate_limit("rateLimitConfig", definition.get("rateLimitConfig"))
        for name in UNUSED_WORKFLOW_FIELDS:
            if definition.get(name):
                self.warn(name, f"{name} is stored and has no effect")

    def check_rate_limit(self, path: str, config: Json) -> None:
        self.check_object(path, config)
        if not isinstance(config, dict):
            return
        key = config.get("rateLimitKey")
        if not isinstance(key, str | None):
            self.problem(f"{path}.rateLimitKey", "rateLimitKey must be a text such as ${workflow.input.customer}")
        self.check_count(f"{path}.concurrentExecLimit", config.get("concurrentExecLimit"))
        self.check_choice(f"{path}.policy", config.get("policy"), RATE_LIMIT_POLICIES)
        for name in config.keys() - set(RATE_LIMIT_FIELDS):
            self.problem(f"{path}.{name}", f"{name} of rateLimitConfig is not supported by the coordinator")
        self.templates.append((path, key))
        for _, text in find_expressions(key):
            if not text.strip().startswith("workflow."):
                message = f"${{{shorten(text)}}} is unknown when a workflow starts; use its input"
                self.problem(f"{path}.rateLimitKey", message)

    # -- the tasks of the workflow

    def check_sequence(
        self, path: str, tasks: Json, depth: int, *, in_loop: bool = False, may_be_empty: bool = False
    ) -> None:
        if may_be_empty and tasks in (None, []):
            return
        if not isinstance(tasks, list):
            self.problem(path, f"a list of tasks is expected, not {_describe_type(tasks)}")
        elif not tasks:
            self.problem(path, "there must be at least one task")
        elif depth > MAX_NESTING:
            self.problem(path, f"tasks are nested more than {MAX_NESTING} deep; use a SUB_WORKFLOW")
        else:
            for index, fields in enumerate(tasks):
                if isinstance(fields, dict):
                    self.check_task(_Task(fields, f"{path}[{index}]", in_loop, depth))
                else:
                    self.problem(f"{path}[{index}]", f"a task must be a JSON object, not {_describe_type(fields)}")

    def check_inner_sequence(self, task: _Task, name: str, tasks: Json) -> None:
        """Check the tasks of a case or a branch, which may be empty."""
        self.check_sequence(task.at(name), tasks, task.depth + 1, in_loop=task.in_loop, may_be_empty=True)

    def check_task(self, task: _Task) -> None:
        if not _is_name(task.get("name")):
            self.problem(task.at("name"), "WorkflowTask name cannot be empty or null")
        self.check_reference(task)
        self.check_task_fields(task)
        kind: Json = task_type(task.fields)
        if kind not in TASK_TYPES:
            self.check_custom_type(task, kind)
        elif check := _CHECKS.get(kind):
            check(self, task)

    def check_custom_type(self, task: _Task, kind: Json) -> None:
        """Accept an unknown type, which workers poll by its name, unless it has a meaning in other products."""
        instead = FOREIGN_TYPES.get(kind) if isinstance(kind, str) else "a type must be a name"
        if isinstance(kind, str) and kind.startswith(AI_TYPES):
            instead = _NO_AI
        if instead is not None:
            message = f"task type {kind} of '{task.get('taskReferenceName')}' is not supported by the coordinator"
            self.problem(task.at("type"), f"{message}: {instead}")

    def check_reference(self, task: _Task) -> None:
        path, ref = task.at("taskReferenceName"), task.get("taskReferenceName")
        if not _is_name(ref):
            self.problem(path, "WorkflowTask taskReferenceName name cannot be empty or null")
        elif ref in ("workflow", TASK_ID_NAME):
            self.problem(path, f"a task cannot have the reference name '{ref}': ${{{ref}}} is reserved")
        elif ref in self.refs:
            self.problem(path, f"taskReferenceName: {ref} should be unique across tasks for a given workflow")
        else:
            self.refs[ref] = task.in_loop

    def check_task_fields(self, task: _Task) -> None:
        self.templates.append((task.at("inputParameters"), task.get("inputParameters")))
        for name in ("inputParameters", "taskDefinition", "onStateChange"):
            self.check_object(task.at(name), task.get(name))
        for name in ("startDelay", "retryCount"):
            self.check_count(task.at(name), task.get(name))
        for name in ("optional", "permissive"):
            if not isinstance(task.get(name), bool | None):
                self.problem(task.at(name), f"{name} must be true or false, not {_describe_type(task.get(name))}")
        for name in UNUSED_TASK_FIELDS:
            if task.get(name):
                self.warn(task.at(name), f"{name} of {task.title} is stored and has no effect")

    # -- checks of each type

    def check_switch(self, task: _Task) -> None:
        if self.require(task, "evaluatorType") and self.require(task, "expression"):
            evaluator = task.get("evaluatorType")
            if evaluator in SCRIPT_EVALUATORS:
                self.check_condition(task.at("expression"), task.get("expression"))
            elif evaluator != "value-param":
                self.reject_evaluator(task, task.at("evaluatorType"), evaluator)
        self.check_cases(task)

    def reject_evaluator(self, task: _Task, path: str, evaluator: Json) -> None:
        message = f"evaluatorType {evaluator} of {task.title} is not supported by the coordinator"
        self.problem(path, f"{message}; supported: {', '.join(('value-param', *SCRIPT_EVALUATORS))}")

    def check_decision(self, task: _Task) -> None:
        if task.get("caseExpression"):
            self.check_condition(task.at("caseExpression"), task.get("caseExpression"))
        else:
            self.require(task, "caseValueParam")
        self.check_cases(task)

    def check_cases(self, task: _Task) -> None:
        if not self.require(task, "decisionCases"):
            return
        cases = task.get("decisionCases")
        self.check_object(task.at("decisionCases"), cases)
        for case, tasks in cases.items() if isinstance(cases, dict) else ():
            self.check_inner_sequence(task, f"decisionCases.{case}", tasks)
        self.check_inner_sequence(task, "defaultCase", task.get("defaultCase"))

    def check_fork(self, task: _Task) -> None:
        if not self.require(task, "forkTasks"):
            return
        branches = task.get("forkTasks")
        if not isinstance(branches, list) or not any(branches):
            self.problem(task.at("forkTasks"), "forkTasks must be a list of lists of tasks")
            return
        for index, branch in enumerate(branches):
            self.check_inner_sequence(task, f"forkTasks[{index}]", branch)

    def check_join(self, task: _Task) -> None:
        for name in ("joinOn", "defaultExclusiveJoinTask"):
            refs = task.get(name)
            if not isinstance(refs, list | None) or not all(isinstance(ref, str) for ref in refs or ()):
                self.problem(task.at(name), f"{name} must be a list of task reference names")
        self.check_choice(task.at("joinMode"), task.get("joinMode"), JOIN_MODES)

    def check_exclusive_join(self, task: _Task) -> None:
        self.require(task, "joinOn")
        self.check_join(task)

    def check_dynamic(self, task: _Task) -> None:
        self.require(task, "dynamicTaskNameParam")

    def check_dynamic_fork(self, task: _Task) -> None:
        if "forkTaskInputs" in task.parameters:
            return
        if task.get("dynamicForkTasksParam") is not None:
            self.require(task, "dynamicForkTasksInputParamName")
        else:
            self.require(task, "dynamicForkJoinTasksParam")

    def check_loop(self, task: _Task) -> None:
        items = task.get("items")
        if not isinstance(items, str | None):
            message = f"items must be an expression such as ${{workflow.input.list}}, not {_describe_type(items)}"
            self.problem(task.at("items"), message)
        self.templates.append((task.at("items"), items))
        if task.get("loopCondition") not in (None, ""):  # without a condition, a loop runs once or over its items
            self.check_condition(task.at("loopCondition"), task.get("loopCondition"))
        if self.require(task, "loopOver"):
            self.check_sequence(task.at("loopOver"), task.get("loopOver"), task.depth + 1, in_loop=True)

    def check_sub_workflow(self, task: _Task) -> None:
        if not self.require(task, "subWorkflowParam"):
            return
        path, parameters = task.at("subWorkflowParam"), task.get("subWorkflowParam")
        self.check_object(path, parameters)
        if not isinstance(parameters, dict):
            return
        inline = parameters.get("workflowDefinition")
        if inline is None and not _is_name(parameters.get("name")):
            self.problem(f"{path}.name", "SubWorkflowParams name cannot be null or empty")
        self.check_object(f"{path}.taskToDomain", parameters.get("taskToDomain"))
        strategy = parameters.get("idempotencyStrategy")
        self.check_choice(f"{path}.idempotencyStrategy", strategy, IDEMPOTENCY_STRATEGIES)
        self.templates.append((path, {**parameters, "workflowDefinition": inline if isinstance(inline, str) else None}))
        if inline is not None and not isinstance(inline, str):
            prefix = f"{self.prefix}{path}.workflowDefinition."
            checker = _Checker(prefix=prefix, depth=task.depth + 1, nested=True)
            checker.check_definition(inline)
            self.problems += checker.problems
            self.warnings += checker.warnings

    def check_terminate(self, task: _Task) -> None:
        status = task.parameters.get("terminationStatus")
        if not _is_expression(status) and status not in TERMINATION_STATUSES:
            message = f"terminationStatus is '{status}'; it can be {', '.join(TERMINATION_STATUSES)}"
            self.problem(task.at("inputParameters.terminationStatus"), message)
        if task.get("optional"):
            self.problem(task.at("optional"), f"{task.title} cannot be optional")

    def check_wait(self, task: _Task) -> None:
        path, parameters = task.at("inputParameters"), task.parameters
        if parameters.get("duration") and parameters.get("until"):
            self.problem(path, "Both 'duration' and 'until' specified. Please provide only one input")
        for name, parse in (("duration", parse_duration_ms), ("until", parse_until_ms)):
            value = parameters.get(name)
            if value and not _is_expression(value):
                self.check_time(f"{path}.{name}", str(value), parse)

    # -- system tasks

    def check_http(self, task: _Task) -> None:
        path, request = task.at("inputParameters"), task.parameters.get("http_request")
        if request is None and task.parameters.get("uri") is None:
            required = "inputParameters.http_request or inputParameters.uri field is required"
            self.problem(path, f"{required} for taskType: HTTP taskName: {task.get('name')}")
            return
        fields = task.parameters if request is None else request
        for name, instead in UNSUPPORTED_HTTP_FIELDS.items():
            if isinstance(fields, dict) and fields.get(name):
                message = f"{name} of {task.title} is not supported by the coordinator: {instead}"
                self.problem(f"{path}.{name}", message)

    def check_inline_script(self, task: _Task) -> None:
        evaluator = task.parameters.get("evaluatorType") or SCRIPT_EVALUATORS[0]
        if evaluator in SCRIPT_EVALUATORS or task_type(task.fields) == "LAMBDA":
            self.check_engine(task, "javascript")
        elif evaluator != "value-param" and not _is_expression(evaluator):
            self.reject_evaluator(task, task.at("inputParameters.evaluatorType"), evaluator)

    def check_jq(self, task: _Task) -> None:
        if task.parameters.get("queryExpression") in (None, ""):
            required = "inputParameters.queryExpression field is required"
            message = f"{required} for taskType: JSON_JQ_TRANSFORM taskName: {task.get('name')}"
            self.problem(task.at("inputParameters"), message)
        self.check_engine(task, "jq")

    def check_engine(self, task: _Task, language: Language) -> None:
        missing = missing_engine(language)
        if missing is not None:
            self.problem(task.at("type"), f"{task.title} {missing}")

    def check_event(self, task: _Task) -> None:
        # The sink is checked when the task runs, as in Conductor; an unsupported sink fails the task.
        if self.require(task, "sink"):
            self.templates.append((task.at("sink"), task.get("sink")))

    # -- names

    def check_iteration_names(self) -> None:
        """Reject the reference name `a__2` if `a` is in a loop, where its second iteration has this name."""
        for ref in self.refs:
            for base in strip_iterations(ref):
                if self.refs.get(base):
                    self.problem(
                        "tasks", f"taskReferenceName '{ref}' is the name of '{base}' in an iteration of its loop"
                    )

    def check_expressions(self) -> None:
        count = sum(count_expressions(template) for _, template in self.templates)
        if count > MAX_EXPRESSIONS:
            self.problem("", f"there are {count} expressions; a definition can have at most {MAX_EXPRESSIONS}")
            return
        for path, template in self.templates:
            for where, text in find_unclosed(template, path):
                self.problem(where, f"the ${{ in '{shorten(text)}' is never closed; write $${{ for a literal ${{")
            for where, text in find_expressions(template, path):
                self.check_expression(where, text)

    def check_expression(self, path: str, text: str) -> None:
        if not text.strip():
            return  # Conductor reads ${} as an empty string
        try:
            name = str(parse_path(text)[0])
        except ExpressionError as error:
            self.problem(path, f"expression {error}")
            return
        is_iteration = any(self.refs.get(base, False) for base in strip_iterations(name))
        if path.startswith(_OUTPUT):
            return  # an unknown name is null, as on Conductor: it may be the task of a dynamic fork
        if name in ("workflow", TASK_ID_NAME) or name in self.refs or is_iteration:
            return
        message = f"${{{shorten(text)}}} names '{shorten(name)}', which is not a task of this workflow"
        if _TOP_LEVEL_INPUT.match(path) and not self.nested:
            self.problem(path, message)
        else:
            self.warn(path, f"{message}: its value is null unless a dynamic fork makes a task of that name")


_CHECKS: dict[str, Callable[[_Checker, _Task], None]] = {
    "SWITCH": _Checker.check_switch,
    "DECISION": _Checker.check_decision,
    "FORK_JOIN": _Checker.check_fork,
    "FORK_JOIN_DYNAMIC": _Checker.check_dynamic_fork,
    "JOIN": _Checker.check_join,
    "EXCLUSIVE_JOIN": _Checker.check_exclusive_join,
    "DYNAMIC": _Checker.check_dynamic,
    "DO_WHILE": _Checker.check_loop,
    "SUB_WORKFLOW": _Checker.check_sub_workflow,
    "TERMINATE": _Checker.check_terminate,
    "WAIT": _Checker.check_wait,
    "HTTP": _Checker.check_http,
    "INLINE": _Checker.check_inline_script,
    "LAMBDA": _Checker.check_inline_script,
    "JSON_JQ_TRANSFORM": _Checker.check_jq,
    "EVENT": _Checker.check_event,
}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_expression(value: object) -> bool:
    return isinstance(value, str) and "${" in value


def _describe_type(value: Json) -> str:
    return {dict: "an object", list: "a list", str: "a string", type(None): "null"}.get(type(value), f"'{value}'")
