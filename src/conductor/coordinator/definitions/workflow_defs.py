"""Workflow definitions: their validation, their defaults and their storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

import msgspec

from conductor.coordinator.definitions.likely_mistakes import find_likely_mistakes
from conductor.coordinator.definitions.task_defs import find_task_def_warnings, parse_task_def
from conductor.coordinator.definitions.validation import find_definition_warnings, validate_definition
from conductor.coordinator.definitions.workflow_plan import inner_sequences, task_type, walk_tasks
from conductor.coordinator.limits import MAX_LIKELY_MISTAKES, MAX_PROBLEMS_NAMED, MAX_SUB_WORKFLOWS_CHECKED
from conductor.coordinator.request_errors import conflict, invalid, not_found
from conductor.coordinator.store.statements import (
    DROP_WORKFLOW_DEFINITION,
    LATEST_WORKFLOW_DEFINITION,
    SET_WORKFLOW_DEFINITION,
    WORKFLOW_DEFINITION,
    WORKFLOW_DEFINITION_VERSIONS,
    WORKFLOW_DEFINITIONS,
)
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import Json, JsonObject


def check_workflow_def(raw: JsonObject, path: str = "workflowDef", *, nested: bool = False) -> JsonObject:
    """Validate a definition and return it with its defaults.

    Args:
        raw: The definition.
        path: The name of the definition in messages.
        nested: Whether this is the definition of a sub-workflow.

    Raises:
        ApiError: The definition is invalid or not supported (400). The error lists all problems.
    """
    problems = validate_definition(raw, nested=nested)
    if problems:
        named = [(f"{path}.{where}" if where else path, message) for where, message in problems[:MAX_PROBLEMS_NAMED]]
        more = len(problems) - len(named)
        raise invalid([*named, *([(path, f"there are {more} more problems")] if more else [])])
    for task in walk_tasks(raw["tasks"]):
        embedded = task.get("taskDefinition")
        if embedded:
            where = f"{path}.taskDefinition of {task['taskReferenceName']}"
            parse_task_def({**embedded, "name": task["name"]}, where, embedded=True)
    return with_defaults(raw)


def find_workflow_def_warnings(definition: JsonObject) -> list[str]:
    """Return which parts of a valid definition have no effect, will fail when used, or are probably mistakes."""
    likely = islice(find_likely_mistakes(definition), MAX_LIKELY_MISTAKES)
    found = [f"{where}: {message}" for where, message in (*find_definition_warnings(definition), *likely)]
    for task in walk_tasks(definition["tasks"]):
        if embedded := task.get("taskDefinition"):
            found += find_task_def_warnings(parse_task_def({**embedded, "name": task["name"]}, embedded=True))
    return found


def get_workflow_def(tx: Tx, name: str, version: int | None = None) -> JsonObject | None:
    """Return one version of a definition, by default the latest, or None."""
    body = workflow_def_body(tx, name, version)
    return None if body is None else msgspec.json.decode(body, type=JsonObject)


def workflow_def_body(tx: Tx, name: str, version: int | None) -> bytes | None:
    """Return the JSON of one version of a definition, by default the latest, or None."""
    if version:
        return tx.cached_first(WORKFLOW_DEFINITION, name, version)
    return tx.cached_first(LATEST_WORKFLOW_DEFINITION, name)


def find_circles(tx: Tx, definition: JsonObject) -> list[str]:
    """Return a warning for each sub-workflow that starts this workflow again, directly or through other workflows.

    Sub-workflows in a SWITCH are ignored, because a circle with a condition can end. At most
    `MAX_SUB_WORKFLOWS_CHECKED` definitions are read.
    """
    name, version = definition["name"], definition["version"]
    found = []
    read: set[tuple[str, int | None]] = set()
    for ref, first, first_version in islice(_list_sub_workflows(definition), MAX_SUB_WORKFLOWS_CHECKED):
        waiting: deque[tuple[tuple[str, ...], int | None]] = deque([((name, first), first_version)])
        while waiting:
            path, called_version = waiting.popleft()
            called = path[-1]
            if called == name and _is_version(tx, name, called_version, version):
                found.append(f"{ref}: {_describe_circle(*path)}")
                break
            if (called, called_version) in read or len(read) == MAX_SUB_WORKFLOWS_CHECKED:
                continue
            read.add((called, called_version))
            inner = get_workflow_def(tx, called, called_version)
            steps = () if inner is None else islice(_list_sub_workflows(inner), MAX_SUB_WORKFLOWS_CHECKED)
            waiting.extend(((*path, called), called_version) for _, called, called_version in steps)
    return found


def find_self_circles(definition: JsonObject) -> list[str]:
    """Return a warning for each sub-workflow that is this workflow itself, without a condition."""
    name, version = definition["name"], definition["version"]
    return [
        f"{ref}: {_describe_circle(name, name)}"
        for ref, called, called_version in _list_sub_workflows(definition)
        if called == name and called_version in (None, version)
    ]


def _list_sub_workflows(definition: JsonObject) -> Iterator[tuple[str, str, int | None]]:
    """Yield reference name, workflow and version of the registered sub-workflows that every execution starts."""
    tasks = list(walk_tasks(definition["tasks"]))
    if any(task_type(task) == "TERMINATE" for task in tasks):
        return
    conditional = {
        id(inner)
        for task in tasks
        if task_type(task) in ("SWITCH", "DECISION")
        for case in inner_sequences(task)
        for inner in walk_tasks(case)
    }
    for task in tasks:
        parameters = task.get("subWorkflowParam") or {}
        if (
            task_type(task) == "SUB_WORKFLOW"
            and id(task) not in conditional
            and not parameters.get("workflowDefinition")
        ):
            version = parameters.get("version")
            yield task["taskReferenceName"], str(parameters.get("name")), version if isinstance(version, int) else None


def _is_version(tx: Tx, name: str, wanted: int | None, version: int) -> bool:
    """Return whether a sub-workflow with the version `wanted`, or the latest if it is None, runs `version`."""
    if wanted:
        return wanted == version
    latest = get_workflow_def(tx, name)
    return latest is None or latest["version"] <= version


def _describe_circle(*names: str) -> str:
    return (
        f"the sub-workflows are a circle without a condition ({' → '.join(names)}), so the workflow fails when they "
        "are nested too deeply; put one of them into a SWITCH"
    )


def put_workflow_def(tx: Tx, definition: JsonObject, *, overwrite: bool) -> None:
    """Register a definition; 409 if it exists and `overwrite` is false."""
    name, version = definition["name"], definition["version"]
    before = tx.first(WORKFLOW_DEFINITION, name, version)
    if before is not None and not overwrite:
        raise conflict(f"Workflow with {name}.{version} already exists!")
    created = msgspec.json.decode(before).get("createTime", tx.now_ms) if before is not None else tx.now_ms
    stamped = {**definition, "createTime": created, "updateTime": tx.now_ms}
    tx.define(SET_WORKFLOW_DEFINITION, name, version, msgspec.json.encode(stamped), tx.now_ms, tx.now_ms)


def drop_workflow_def(tx: Tx, name: str, version: int) -> None:
    """Remove one version of a definition. Running workflows keep their snapshot of it."""
    if not tx.define(DROP_WORKFLOW_DEFINITION, name, version):
        raise not_found(f"No such workflow definition: {name} version: {version}")


def all_workflow_defs(tx: Tx) -> list[JsonObject]:
    """Return every version of every registered definition."""
    return [msgspec.json.decode(body) for body in tx.rows(WORKFLOW_DEFINITIONS)]


def versions_of(tx: Tx, name: str) -> list[JsonObject]:
    """Return every version of one definition."""
    return [msgspec.json.decode(body) for body in tx.rows(WORKFLOW_DEFINITION_VERSIONS, name)]


def with_defaults(raw: JsonObject) -> JsonObject:
    """Return a definition with Conductor's defaults, also for its top-level tasks."""
    filled = {
        "version": 1,
        "schemaVersion": 2,
        "restartable": True,
        "workflowStatusListenerEnabled": False,
        "timeoutPolicy": "ALERT_ONLY",
        "timeoutSeconds": 0,
        "inputParameters": [],
        "outputParameters": {},
        "variables": {},
        "inputTemplate": {},
        "enforceSchema": True,
        **{key: value for key, value in raw.items() if value is not None},
    }
    filled["tasks"] = [_task_with_defaults(task) for task in filled.get("tasks") or []]
    return filled


def _task_with_defaults(raw: Json) -> Json:
    if not isinstance(raw, dict):
        return raw  # the validation of the definition reports that this is not a task
    return {
        "inputParameters": {},
        "type": "SIMPLE",
        "startDelay": 0,
        "optional": False,
        "asyncComplete": False,
        **{key: value for key, value in raw.items() if value is not None},
    }
