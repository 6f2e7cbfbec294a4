"""Parts of a valid definition that are probably mistakes. Conductor accepts them, so they only cause warnings.

Each check is silent when in doubt, because users ignore warnings that are often wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import NamedTuple

from conductor.coordinator.definitions.task_defs import TaskDef
from conductor.coordinator.definitions.validation import DefinitionProblem
from conductor.coordinator.definitions.workflow_plan import (
    FORKS,
    SCRIPT_EVALUATORS,
    TASK_TYPES,
    inner_sequences,
    strip_iterations,
    task_type,
    walk_tasks,
)
from conductor.coordinator.language import javascript_subset
from conductor.coordinator.language.expressions import find_expressions, shorten
from conductor.coordinator.language.jsonpath import ExpressionError, Step, parse_path
from conductor.coordinator.language.script_engines import Language
from conductor.protocol.json_types import Json, JsonObject

#: Two names are similar if the ratio of `SequenceMatcher` is at least this. For example, `inputParams` and
#: `inputParameters` have the ratio 0.85.
SIMILAR_RATIO = 0.8
#: The search for similar names stops after this many unknown names, and after this many known names for each of them.
MAX_NAMES_COMPARED = 100
#: The search for misspelt expressions stops after this many expressions.
MAX_EXPRESSIONS_CHECKED = 1000
#: The number of names that a message lists.
MAX_NAMES_LISTED = 10
#: Only this many letters of each name are compared.
MAX_NAME_CHARS = 60
#: Names with fewer letters than this are not similar if they differ in one letter.
MIN_NAME_CHARS = 3
#: Stands for the name of an input if an expression reads the whole input. No input has an empty name.
_WHOLE_INPUT = ""
JOINS = ("JOIN", "EXCLUSIVE_JOIN")
#: The fields of workflow definitions, tasks and `subWorkflowParam` that Conductor or a product based on it knows.
WORKFLOW_FIELDS = frozenset(
    [
        "accessPolicy",
        "cacheConfig",
        "createdBy",
        "createTime",
        "description",
        "enforceSchema",
        "failureWorkflow",
        "failureWorkflowVersion",
        "inputParameters",
        "inputSchema",
        "inputTemplate",
        "maskedFields",
        "metadata",
        "name",
        "outputParameters",
        "outputSchema",
        "ownerApp",
        "ownerEmail",
        "rateLimitConfig",
        "restartable",
        "schemaVersion",
        "tags",
        "tasks",
        "timeoutPolicy",
        "timeoutSeconds",
        "updatedBy",
        "updateTime",
        "variables",
        "version",
        "workflowStatusListenerEnabled",
        "workflowStatusListenerSink",
    ]
)
TASK_FIELDS = frozenset(
    [
        "asyncComplete",
        "cacheConfig",
        "caseExpression",
        "caseValueParam",
        "decisionCases",
        "defaultCase",
        "defaultExclusiveJoinTask",
        "description",
        "dynamicForkJoinTasksParam",
        "dynamicForkTasksInputParamName",
        "dynamicForkTasksParam",
        "dynamicTaskNameParam",
        "evaluatorType",
        "expression",
        "forkTasks",
        "inputParameters",
        "items",
        "joinMode",
        "joinOn",
        "joinStatus",
        "loopCondition",
        "loopOver",
        "metadata",
        "name",
        "onStateChange",
        "optional",
        "permissive",
        "rateLimited",
        "retryCount",
        "retryDelaySeconds",
        "retryLogic",
        "scriptExpression",
        "sink",
        "startDelay",
        "subWorkflowParam",
        "taskDefinition",
        "taskReferenceName",
        "type",
        "workflowTaskType",
    ]
)
SUB_WORKFLOW_FIELDS = frozenset(
    ["idempotencyKey", "idempotencyStrategy", "name", "priority", "taskToDomain", "version", "workflowDefinition"]
)
#: The names that an expression can have after `workflow.`, and after the name of a task.
WORKFLOW_MEMBERS = frozenset(
    [
        "correlationId",
        "env",
        "input",
        "output",
        "parentWorkflowId",
        "parentWorkflowTaskId",
        "reasonForIncompletion",
        "schemaVersion",
        "secrets",
        "status",
        "variables",
        "version",
        "workflowId",
        "workflowType",
    ]
)
TASK_MEMBERS = frozenset(
    [
        "callbackAfterSeconds",
        "correlationId",
        "endTime",
        "input",
        "iteration",
        "output",
        "pollCount",
        "reasonForIncompletion",
        "referenceTaskName",
        "retryCount",
        "scheduledTime",
        "seq",
        "startTime",
        "status",
        "subWorkflowId",
        "taskDefName",
        "taskId",
        "taskType",
        "workerId",
        "workflowInstanceId",
    ]
)
TASK_DEF_FIELDS = frozenset(TaskDef.__struct_encode_fields__)


class Script(NamedTuple):
    """A script of a definition: its place, its language and the program that the engine runs."""

    path: str
    language: Language
    program: str


def find_likely_mistakes(definition: JsonObject, prefix: str = "") -> Iterator[DefinitionProblem]:
    """Return the likely mistakes in a valid workflow definition.

    Args:
        definition: The definition.
        prefix: The start of each problem's path: the place of the definition, if it belongs to an inline sub-workflow.
    """
    yield from find_similar_fields(definition, WORKFLOW_FIELDS, prefix)
    tasks = list(walk_tasks(definition["tasks"]))
    refs = {str(task["taskReferenceName"]) for task in tasks}
    for task in tasks:
        yield from _find_field_mistakes(task, prefix)
        yield from _find_type_mistake(task, prefix)
        yield from _find_switch_mistake(task, prefix)
    for sequence in _walk_sequences(definition["tasks"]):
        for task, following in zip_longest(sequence, sequence[1:]):
            yield from _find_missing_join(task, following, prefix)
        for before, task in zip([None, *sequence], sequence, strict=False):
            yield from _find_unknown_joined(before, task, refs, prefix)
    yield from _find_undeclared_inputs(definition, tasks, prefix)
    yield from _find_misspelt_expressions(definition, tasks, prefix)
    for place, inline in _find_inline_definitions(tasks, prefix):
        yield from find_likely_mistakes(inline, place)


def find_similar_fields(fields: JsonObject, known: frozenset[str], path: str) -> Iterator[DefinitionProblem]:
    """Yield a problem for each unknown field with a name similar to a known one. Conductor ignores unknown fields."""
    for name in islice((name for name in fields if name not in known), MAX_NAMES_COMPARED):
        meant = find_similar(name, known)
        if meant is not None:
            message = f"there is no field '{shorten(name)}', so it has no effect; did you mean '{meant}'?"
            yield DefinitionProblem(f"{path}{name}", message)


def find_scripts(definition: JsonObject, prefix: str = "") -> Iterator[Script]:
    """Return the scripts whose syntax an engine can check before the workflow runs.

    A script that contains `${...}` is left out, because its text is complete only when its task is scheduled.
    """
    tasks = list(walk_tasks(definition["tasks"]))
    for task in tasks:
        place = f"{prefix}{task['taskReferenceName']}."
        parameters = task.get("inputParameters") or {}
        evaluator = task.get("evaluatorType")
        texts: list[tuple[str, Language, Json, str]] = []
        match task_type(task):
            case "SWITCH" if evaluator in SCRIPT_EVALUATORS:
                texts.append(("expression", "javascript", task.get("expression"), "{}"))
            case "DECISION":
                texts.append(("caseExpression", "javascript", task.get("caseExpression"), "{}"))
            case "DO_WHILE":
                texts.append(("loopCondition", "javascript", task.get("loopCondition"), "{}"))
            case "INLINE" if (parameters.get("evaluatorType") or "javascript") in SCRIPT_EVALUATORS:
                texts.append(("inputParameters.expression", "javascript", parameters.get("expression"), "{}"))
            case "LAMBDA":
                body = parameters.get("scriptExpression")
                texts.append(("inputParameters.scriptExpression", "javascript", body, "function scriptFun(){{{}\n}}"))
            case "JSON_JQ_TRANSFORM":
                texts.append(("inputParameters.queryExpression", "jq", parameters.get("queryExpression"), "{}"))
        for name, language, text, program in texts:
            if isinstance(text, str) and text.strip() and not _needs_no_check(text, language):
                yield Script(place + name, language, program.format(text))
    for place, inline in _find_inline_definitions(tasks, prefix):
        yield from find_scripts(inline, place)


def _needs_no_check(text: str, language: Language) -> bool:
    if "${" in text:
        return True
    if language != "javascript":
        return False
    try:
        javascript_subset.parse(text)
    except javascript_subset.EngineNeeded:
        return False
    except javascript_subset.ConditionError:
        return False
    return True


# -- names ---------------------------------------------------------------------------------------------------------


def _find_field_mistakes(task: JsonObject, prefix: str) -> Iterator[DefinitionProblem]:
    place = f"{prefix}{task['taskReferenceName']}."
    yield from find_similar_fields(task, TASK_FIELDS, place)
    if isinstance(parameters := task.get("subWorkflowParam"), dict):
        yield from find_similar_fields(parameters, SUB_WORKFLOW_FIELDS, f"{place}subWorkflowParam.")
    if isinstance(embedded := task.get("taskDefinition"), dict):
        yield from find_similar_fields(embedded, TASK_DEF_FIELDS, f"{place}taskDefinition.")


def _find_type_mistake(task: JsonObject, prefix: str) -> Iterator[DefinitionProblem]:
    kind = task_type(task)
    meant = None if kind in TASK_TYPES else _find_one_letter_away(kind)
    if meant is not None:
        message = f"'{shorten(kind)}' is a custom task type, which needs a worker of that name; did you mean '{meant}'?"
        yield DefinitionProblem(f"{prefix}{task['taskReferenceName']}.type", message)


def find_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar of the first `MAX_NAMES_COMPARED` known names, without regard to case and underscores."""
    matcher = SequenceMatcher(None, "", _normalize_name(name[:MAX_NAME_CHARS]), autojunk=False)
    best, best_ratio = None, SIMILAR_RATIO
    for one in islice(known, MAX_NAMES_COMPARED):
        if len(name) >= MIN_NAME_CHARS and _is_one_letter_away(_normalize_name(name), _normalize_name(one)):
            return one
        matcher.set_seq1(_normalize_name(one[:MAX_NAME_CHARS]))
        # `real_quick_ratio` and `quick_ratio` are upper bounds of `ratio`, and much cheaper.
        if matcher.real_quick_ratio() >= best_ratio and matcher.quick_ratio() >= best_ratio:
            ratio = matcher.ratio()
            best, best_ratio = (one, ratio) if ratio >= best_ratio else (best, best_ratio)
    return best


def _find_one_letter_away(kind: str) -> str | None:
    plain = _normalize_name(kind)
    return next((one for one in TASK_TYPES if _is_one_letter_away(plain, _normalize_name(one))), None)


def _is_one_letter_away(one: str, other: str) -> bool:
    """Return whether two names are equal or differ by one change.

    A change replaces, adds or removes one letter, or swaps two neighbouring letters.
    """
    if abs(len(one) - len(other)) > 1:
        return False
    equal = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    first, second = one[equal:], other[equal:]
    is_swapped = first[:2] == second[1::-1] and first[2:] == second[2:]
    return is_swapped or first[1:] == second[1:] or first[1:] == second or first == second[1:]


def _normalize_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


# -- forks and joins -----------------------------------------------------------------------------------------------


def _find_missing_join(task: JsonObject, following: JsonObject | None, prefix: str) -> Iterator[DefinitionProblem]:
    if task_type(task) not in FORKS or (following is not None and task_type(following) in JOINS):
        return
    ref = task["taskReferenceName"]
    message = f"no JOIN follows {task_type(task)} '{shorten(ref)}', so the workflow fails there; add a JOIN after it"
    yield DefinitionProblem(f"{prefix}{ref}", message)


def _find_unknown_joined(
    before: JsonObject | None, task: JsonObject, refs: set[str], prefix: str
) -> Iterator[DefinitionProblem]:
    """Yield a problem for each unknown task in `joinOn`.

    A JOIN after a dynamic fork is skipped, because it may name tasks that the fork creates later.
    """
    if task_type(task) not in JOINS or (before is not None and task_type(before) == "FORK_JOIN_DYNAMIC"):
        return
    for ref in task.get("joinOn") or ():
        if ref not in refs and not any(base in refs for base in strip_iterations(ref)):
            meant = find_similar(ref, refs)
            others = ", ".join(sorted(refs - {task["taskReferenceName"]})[:MAX_NAMES_LISTED])
            advice = f"did you mean '{shorten(meant)}'?" if meant else f"there are {shorten(others)}"
            message = (
                f"joinOn names '{shorten(ref)}', which is not a task of this workflow, so the JOIN cannot complete; "
                f"{advice}"
            )
            yield DefinitionProblem(f"{prefix}{task['taskReferenceName']}.joinOn", message)


def _walk_sequences(tasks: list[JsonObject]) -> Iterator[list[JsonObject]]:
    """Return every sequence of tasks: the top-level one, and the cases, branches and loop bodies inside tasks."""
    yield tasks
    for task in tasks:
        for sequence in inner_sequences(task):
            yield from _walk_sequences(list(map(dict, sequence)))


def _find_switch_mistake(task: JsonObject, prefix: str) -> Iterator[DefinitionProblem]:
    name, parameters = str(task.get("expression")), task.get("inputParameters") or {}
    if task_type(task) != "SWITCH" or task.get("evaluatorType") != "value-param" or name in parameters:
        return
    meant = find_similar(name, parameters)
    advice = f"; did you mean '{shorten(meant)}'?" if meant else ""
    message = f"'{shorten(name)}' is not in inputParameters, so the switch always takes the default case{advice}"
    yield DefinitionProblem(f"{prefix}{task['taskReferenceName']}.expression", message)


# -- inputs --------------------------------------------------------------------------------------------------------


def _find_undeclared_inputs(
    definition: JsonObject, tasks: list[JsonObject], prefix: str
) -> Iterator[DefinitionProblem]:
    """Yield a problem for each input that an expression reads and the definition does not declare.

    Many authors list only some inputs in `inputParameters`, so an unlisted name alone is not reported. It is reported
    if a schema names the inputs, if a listed name is similar, or if a listed name is never read.
    """
    listed, has_schema = _find_declared_inputs(definition)
    if not listed:
        return
    template = definition.get("inputTemplate")
    declared = listed | template.keys() if isinstance(template, dict) else listed
    reads = dict(_find_input_reads(definition, tasks))
    has_unread = reads.pop(_WHOLE_INPUT, None) is None and not listed <= reads.keys()
    for name, where in islice(reads.items(), MAX_NAMES_COMPARED):
        meant = find_similar(name, declared)
        if name not in declared and (has_schema or meant is not None or has_unread):
            advice = f"did you mean '{meant}'?" if meant else f"declared are {', '.join(sorted(declared)[:10])}"
            message = f"the workflow declares no input '{shorten(name)}', but reads it; {shorten(advice)}"
            yield DefinitionProblem(prefix + where, message)


def _find_declared_inputs(definition: JsonObject) -> tuple[set[str], bool]:
    """Return the names of the declared inputs, and whether a schema declares them."""
    schema = definition.get("inputSchema")
    if isinstance(schema, dict):
        data = schema.get("data")
        properties = data.get("properties") if isinstance(data, dict) else None
        return (set(properties), True) if isinstance(properties, dict) else (set(), False)
    names = definition.get("inputParameters")
    return ({name for name in names if isinstance(name, str)} if isinstance(names, list) else set()), False


def _find_input_reads(definition: JsonObject, tasks: list[JsonObject]) -> Iterator[tuple[str, str]]:
    """Return the name of each input that an expression reads, and its place."""
    for where, _, steps in _find_paths(definition, tasks):
        if (name := _read_input_name(steps)) is not None:
            yield name, where


def _find_paths(definition: JsonObject, tasks: list[JsonObject]) -> Iterator[tuple[str, str, tuple[Step, ...]]]:
    """Return the expressions of a definition: the place, the text and the steps of each valid one."""
    templates = [("outputParameters", definition.get("outputParameters"))]
    for task in tasks:
        for field in ("inputParameters", "items", "subWorkflowParam", "sink"):
            template = task.get(field)
            if field == "subWorkflowParam" and isinstance(template, dict):
                template = {**template, "workflowDefinition": None}
            templates.append((f"{task['taskReferenceName']}.{field}", template))
    for path, template in templates:
        for where, text in find_expressions(template, path):
            try:
                steps = parse_path(text)
            except ExpressionError:
                continue
            yield where, text, tuple(steps)


def _read_input_name(steps: tuple[Step, ...]) -> str | None:
    """Return the name of the input that an expression reads, `_WHOLE_INPUT` for all of it, or None."""
    if steps == ("workflow", "input"):
        return _WHOLE_INPUT
    is_input = len(steps) > 2 and steps[:2] == ("workflow", "input")
    return steps[2] if is_input and isinstance(steps[2], str) else None


def _find_misspelt_expressions(
    definition: JsonObject, tasks: list[JsonObject], prefix: str
) -> Iterator[DefinitionProblem]:
    """Yield a problem for each expression with a name that is similar to a known one, such as `workflow.secret`."""
    refs = {str(task["taskReferenceName"]) for task in tasks}
    # Validation reports unknown tasks in inputs. In outputs, they may be tasks that a dynamic fork makes.
    may_be_made = any(task_type(task) == "FORK_JOIN_DYNAMIC" for task in tasks)
    variables = set(definition.get("variables") or {})
    for task in tasks:
        if task_type(task) == "SET_VARIABLE":
            variables |= (task.get("inputParameters") or {}).keys()
    for where, text, (name, *rest) in islice(_find_paths(definition, tasks), MAX_EXPRESSIONS_CHECKED):
        members = WORKFLOW_MEMBERS if name == "workflow" else TASK_MEMBERS
        wrong: Step | None = None
        known: Iterable[str] = ()
        if name == "workflow" or name in refs:
            if rest and rest[0] not in members:
                wrong, known = rest[0], members
            elif (name, *rest[:1]) == ("workflow", "variables") and rest[1:] and rest[1] not in variables:
                wrong, known = rest[1], variables
        elif where.startswith("outputParameters") and not may_be_made and refs.isdisjoint(strip_iterations(str(name))):
            wrong, known = name, ["workflow", *refs]
        meant = find_similar(wrong, known) if isinstance(wrong, str) else None
        if meant is not None:
            message = f"${{{shorten(text)}}} is null, because there is no '{shorten(str(wrong))}'"
            yield DefinitionProblem(prefix + where, f"{message}; did you mean '{shorten(meant)}'?")


def _find_inline_definitions(tasks: Iterable[Mapping[str, Json]], prefix: str) -> Iterator[tuple[str, JsonObject]]:
    """Return the inline definitions of sub-workflows, each with the prefix for the paths of its problems."""
    for task in tasks:
        parameters = task.get("subWorkflowParam")
        inline = parameters.get("workflowDefinition") if isinstance(parameters, dict) else None
        if task_type(task) == "SUB_WORKFLOW" and isinstance(inline, dict):
            yield f"{prefix}{task['taskReferenceName']}.subWorkflowParam.workflowDefinition.", inline
