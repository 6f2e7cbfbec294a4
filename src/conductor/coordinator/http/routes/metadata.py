"""Register and read task and workflow definitions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from conductor.coordinator.audit import Action
from conductor.coordinator.definitions import task_defs, workflow_defs
from conductor.coordinator.definitions.likely_mistakes import (
    TASK_DEF_FIELDS,
    Script,
    find_scripts,
    find_similar_fields,
)
from conductor.coordinator.http.answer import DONE, Answer, as_json
from conductor.coordinator.http.permissions import check_readable
from conductor.coordinator.http.request import ApiRequest, whole_number
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.limits import MAX_SCRIPTS_CHECKED, MAX_WARNINGS_NAMED
from conductor.coordinator.request_errors import ApiError, bad_request, invalid, not_found
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import Json, JsonObject
from conductor.protocol.wire import MAX_REASON_CHARS, WARNING_HEADER

logger = logging.getLogger(__name__)


class Warned(NamedTuple):
    """A warning about a workflow definition. The log names the workflow; the header of the answer has only the text."""

    text: str
    workflow: str


def warning_headers(warnings: Sequence[Warned | str]) -> tuple[tuple[str, str], ...]:
    """Log warnings about definitions, and return them as headers of the answer."""
    headers = []
    for warning in warnings[:MAX_WARNINGS_NAMED]:
        text, workflow = warning if isinstance(warning, Warned) else (warning, "")
        text = " ".join(text.split())[:MAX_REASON_CHARS]
        logger.warning("Definition accepted with a warning: %s%s", f"{workflow}: " * bool(workflow), text)
        headers.append((WARNING_HEADER, _as_header_value(text)))
    if len(warnings) > MAX_WARNINGS_NAMED:
        text = f"there are {len(warnings) - MAX_WARNINGS_NAMED} more warnings"
        logger.warning("Definition accepted with a warning: %s", text)
        headers.append((WARNING_HEADER, text))
    return tuple(headers)


def _as_header_value(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else "?" for letter in text)
    return printable.encode("ascii", "backslashreplace").decode()


class _CheckedDefinition(NamedTuple):
    """A valid definition with its defaults, the warnings about it, and its scripts."""

    definition: JsonObject
    warnings: list[str]
    scripts: list[Script]


def _check(raw: JsonObject) -> _CheckedDefinition:
    """Check a definition, and return it with its warnings and scripts. Raises a 400 if it is invalid."""
    definition = workflow_defs.check_workflow_def(raw)
    scripts = list(islice(find_scripts(definition), MAX_SCRIPTS_CHECKED))
    return _CheckedDefinition(definition, workflow_defs.find_workflow_def_warnings(definition), scripts)


async def _find_warnings(request: ApiRequest, checked: Sequence[_CheckedDefinition]) -> list[Warned]:
    """Return all warnings about definitions, including those of the script engines."""
    named = [(str(one.definition["name"]), one) for one in checked]
    scripts = [(name, script) for name, one in named for script in one.scripts][:MAX_SCRIPTS_CHECKED]
    errors = await request.core.find_syntax_errors([script for _, script in scripts])
    circles = await request.reader.read(
        lambda tx: [(name, circle) for name, one in named for circle in workflow_defs.find_circles(tx, one.definition)]
    )
    warnings = [(name, warning) for name, one in named for warning in one.warnings]
    warnings += circles
    warnings += [
        (name, f"{script.path}: the script cannot be parsed, so the task fails when it runs: {error}")
        for (name, script), error in zip(scripts, errors, strict=True)
        if error is not None
    ]
    return [Warned(warning, name) for name, warning in warnings]


def _parse_with_warnings(raw: Json, path: str) -> tuple[task_defs.TaskDef, list[str]]:
    """Return a task definition, and the warnings about it. Raises a 400 if it is invalid."""
    found = task_defs.parse_task_def(raw, path)
    similar = find_similar_fields(raw, TASK_DEF_FIELDS, f"{found.name}.") if isinstance(raw, dict) else ()
    return found, [*task_defs.find_task_def_warnings(found), *(f"{where}: {text}" for where, text in similar)]


def describe_version(definition: JsonObject) -> str:
    """Return the subject of an audit entry about a workflow definition."""
    return f"{definition['name']} version {definition.get('version', 1)}"


async def register_task_defs(request: ApiRequest) -> Answer:
    """POST /metadata/taskdefs: create or replace each definition of an array."""
    raw = request.json(list[Any])
    if not raw:
        raise invalid([("registerTaskDef.taskDefinitions", "TaskDefList cannot be empty or null")])

    parsed = await request.offload_if_large(
        lambda: [_parse_with_warnings(item, f"registerTaskDef.taskDefinitions[{i}]") for i, item in enumerate(raw)]
    )

    def register(tx: Tx) -> None:
        task_defs.register_task_defs(tx, [found for found, _ in parsed])
        for task_def, _ in parsed:
            request.audit(tx, Action.REGISTER_TASK_DEFINITION, task_def.name)

    await request.write(register)
    return DONE._replace(headers=warning_headers([warning for _, warnings in parsed for warning in warnings]))


async def update_task_def(request: ApiRequest) -> Answer:
    """PUT /metadata/taskdefs[/{name}]: replace an existing definition."""
    raw = request.json(JsonObject)
    name = request.params.get("name")
    if name is not None and raw.setdefault("name", name) != name:
        raise bad_request(f"the path names task definition {name!r}, but the body names {raw['name']!r}")
    task_def, warnings = await request.offload_if_large(
        lambda: _parse_with_warnings(raw, "updateTaskDef.taskDefinition")
    )

    def change(tx: Tx) -> None:
        task_defs.update_task_def(tx, task_def)
        request.audit(tx, Action.UPDATE_TASK_DEFINITION, task_def.name)

    await request.write(change)
    return DONE._replace(headers=warning_headers(warnings))


async def list_task_defs(request: ApiRequest) -> Answer:
    """GET /metadata/taskdefs: return all task definitions."""
    return as_json(await request.reader.read(task_defs.all_task_defs))


async def get_task_def(request: ApiRequest) -> Answer:
    """GET /metadata/taskdefs/{name}: return a task definition."""
    name = request.params["name"]
    check_readable(request, name)
    found = await request.reader.read(lambda tx: task_defs.get_task_def(tx, name))
    if found is None:
        raise not_found(f"No such taskType found by name: {name}")
    return as_json(found.wire())


async def remove_task_def(request: ApiRequest) -> Answer:
    """DELETE /metadata/taskdefs/{name}: delete a task definition."""
    name = request.params["name"]

    def change(tx: Tx) -> None:
        task_defs.drop_task_def(tx, name)
        request.audit(tx, Action.DELETE_TASK_DEFINITION, name)

    await request.write(change)
    return DONE


async def register_workflow_def(request: ApiRequest) -> Answer:
    """POST /metadata/workflow: create a definition; 409 if it exists, unless overwrite=true."""
    raw = request.json(JsonObject)
    checked = await request.offload_if_large(lambda: _check(raw))
    overwrite = request.query_flag("overwrite", default=False)

    def change(tx: Tx) -> None:
        workflow_defs.put_workflow_def(tx, checked.definition, overwrite=overwrite)
        request.audit(
            tx,
            Action.REGISTER_WORKFLOW_DEFINITION,
            describe_version(checked.definition),
        )

    await request.write(change)
    return DONE._replace(headers=warning_headers(await _find_warnings(request, [checked])))


async def validate_workflow_def(request: ApiRequest) -> Answer:
    """POST /metadata/workflow/validate: check a definition without storing it."""
    raw = request.json(JsonObject)
    checked = await request.offload_if_large(lambda: _check(raw))
    return DONE._replace(headers=warning_headers(await _find_warnings(request, [checked])))


async def update_workflow_defs(request: ApiRequest) -> Answer:
    """PUT /metadata/workflow: create or replace each definition of an array."""
    raw = request.json(list[JsonObject])
    checked = await request.offload_if_large(lambda: [_check(item) for item in raw])

    def put_all(tx: Tx) -> None:
        for one in checked:
            workflow_defs.put_workflow_def(tx, one.definition, overwrite=True)
            request.audit(tx, Action.REGISTER_WORKFLOW_DEFINITION, describe_version(one.definition))

    await request.write(put_all)
    answer = {"bulkErrorResults": {}, "bulkSuccessfulResults": [one.definition["name"] for one in checked]}
    return as_json(answer, *warning_headers(await _find_warnings(request, checked)))


async def get_workflow_def(request: ApiRequest) -> Answer:
    """GET /metadata/workflow/{name}?version=: return a version of a definition, or the latest."""
    name, version = request.params["name"], request.query_int("version", 0)
    found = await request.reader.read(lambda tx: workflow_defs.get_workflow_def(tx, name, version or None))
    if found is None:
        raise ApiError(404, f"No such workflow found by name: {name}, version: {version or 'null'}")
    return as_json(found)


async def view_warnings(request: ApiRequest) -> Answer:
    """GET /view/definition/{name}/warnings?version=: return the warnings about a stored definition."""
    name, version = request.params["name"], request.query_int("version", 0)
    found = await request.reader.read(lambda tx: workflow_defs.get_workflow_def(tx, name, version or None))
    if found is None:
        raise ApiError(404, f"No such workflow found by name: {name}, version: {version or 'null'}")
    return as_json({"warnings": [warned.text for warned in await _find_warnings(request, [_check(found)])]})


async def list_workflow_defs(request: ApiRequest) -> Answer:
    """GET /metadata/workflow: return all versions of all definitions."""
    return as_json(await request.reader.read(workflow_defs.all_workflow_defs))


async def list_names_and_versions(request: ApiRequest) -> Answer:
    """GET /metadata/workflow/names-and-versions: return the versions of each name, and their creation times."""
    found: dict[str, list[JsonObject]] = {}
    for definition in await request.reader.read(workflow_defs.all_workflow_defs):
        known: JsonObject = {name: definition[name] for name in ("name", "version", "createTime") if name in definition}
        found.setdefault(definition["name"], []).append(known)
    return as_json(found)


async def list_names(request: ApiRequest) -> Answer:
    """GET /metadata/workflow/names: return the names of all definitions."""
    found = await request.reader.read(workflow_defs.all_workflow_defs)
    return as_json(sorted({definition["name"] for definition in found}))


async def list_latest_versions(request: ApiRequest) -> Answer:
    """GET /metadata/workflow/latest-versions: return the latest version of each definition."""
    found = await request.reader.read(workflow_defs.all_workflow_defs)
    return as_json(list({definition["name"]: definition for definition in found}.values()))


async def list_versions(request: ApiRequest) -> Answer:
    """GET /metadata/workflow/{name}/versions: return all versions of a definition."""
    name = request.params["name"]
    return as_json(await request.reader.read(lambda tx: workflow_defs.versions_of(tx, name)))


async def remove_workflow_def(request: ApiRequest) -> Answer:
    """DELETE /metadata/workflow/{name}/{version}: delete a definition; running workflows keep their copy."""
    name, text = request.params["name"], request.params["version"]
    version = whole_number("a version", text)

    def change(tx: Tx) -> None:
        workflow_defs.drop_workflow_def(tx, name, version)
        request.audit(tx, Action.DELETE_WORKFLOW_DEFINITION, f"{name} version {version}")

    await request.write(change)
    return DONE


ROUTES = [
    Route("POST", "/api/metadata/taskdefs", register_task_defs, Access.ADMIN, body=list[task_defs.TaskDef]),
    Route("PUT", "/api/metadata/taskdefs", update_task_def, Access.ADMIN, body=task_defs.TaskDef),
    Route("GET", "/api/metadata/taskdefs", list_task_defs, Access.READ),
    Route("PUT", "/api/metadata/taskdefs/{name}", update_task_def, Access.ADMIN, body=task_defs.TaskDef),
    Route("GET", "/api/metadata/taskdefs/{name}", get_task_def, Access.READ_TASK),
    Route("DELETE", "/api/metadata/taskdefs/{name}", remove_task_def, Access.ADMIN),
    Route(
        "POST",
        "/api/metadata/workflow",
        register_workflow_def,
        Access.ADMIN,
        query={"overwrite": "boolean"},
        body=JsonObject,
    ),
    Route("PUT", "/api/metadata/workflow", update_workflow_defs, Access.ADMIN, body=list[JsonObject]),
    Route("GET", "/api/metadata/workflow", list_workflow_defs, Access.READ),
    Route("POST", "/api/metadata/workflow/validate", validate_workflow_def, Access.READ, body=JsonObject),
    Route("GET", "/api/metadata/workflow/names", list_names, Access.READ),
    Route("GET", "/api/metadata/workflow/names-and-versions", list_names_and_versions, Access.READ),
    Route("GET", "/api/metadata/workflow/latest-versions", list_latest_versions, Access.READ),
    Route("GET", "/api/metadata/workflow/{name}", get_workflow_def, Access.READ, query={"version": "integer"}),
    Route("GET", "/api/metadata/workflow/{name}/versions", list_versions, Access.READ),
    Route("DELETE", "/api/metadata/workflow/{name}/{version}", remove_workflow_def, Access.ADMIN),
    Route("GET", "/api/view/definition/{name}/warnings", view_warnings, Access.READ, query={"version": "integer"}),
]
