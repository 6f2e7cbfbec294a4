"""Register and read task and workflow definitions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from conductor.coordinator.definitions import task_defs, workflow_defs
from conductor.coordinator.http.answer import DONE, Answer, as_json
from conductor.coordinator.http.request import ApiRequest, whole_number
from conductor.coordinator.http.routing import Route
from conductor.coordinator.limits import MAX_WARNINGS_NAMED
from conductor.coordinator.request_errors import ApiError, bad_request, invalid, not_found
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import MAX_REASON_CHARS, WARNING_HEADER

logger = logging.getLogger(__name__)


def warning_headers(warnings: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Log warnings about definitions, and return them as headers of the answer."""
    texts = [" ".join(warning.split())[:MAX_REASON_CHARS] for warning in warnings[:MAX_WARNINGS_NAMED]]
    if len(warnings) > len(texts):
        texts.append(f"there are {len(warnings) - len(texts)} more warnings")
    for warning in texts:
        logger.warning("Definition accepted with a warning: %s", warning)
    return tuple((WARNING_HEADER, _as_header_value(warning)) for warning in texts)


def _as_header_value(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else "?" for letter in text)
    return printable.encode("ascii", "backslashreplace").decode()


def _check_with_warnings(raw: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return a definition with its defaults, and the warnings about it; raise a 400 if it is invalid."""
    definition = workflow_defs.check_workflow_def(raw)
    return definition, workflow_defs.find_workflow_def_warnings(definition)


async def register_task_defs(request: ApiRequest) -> Answer:
    """POST /metadata/taskdefs: create or replace each definition of an array."""
    raw = request.json(list[Any])
    if not raw:
        raise invalid([("registerTaskDef.taskDefinitions", "TaskDefList cannot be empty or null")])

    def parse_all() -> tuple[list[task_defs.TaskDef], list[str]]:
        found = [task_defs.parse_task_def(item, f"registerTaskDef.taskDefinitions[{i}]") for i, item in enumerate(raw)]
        return found, [warning for one in found for warning in task_defs.find_task_def_warnings(one)]

    parsed, warnings = await request.offload_if_large(parse_all)
    await request.write(lambda tx: task_defs.register_task_defs(tx, parsed))
    return DONE._replace(headers=warning_headers(warnings))


async def update_task_def(request: ApiRequest) -> Answer:
    """PUT /metadata/taskdefs[/{name}]: replace an existing definition."""
    raw = request.json(JsonObject)
    name = request.params.get("name")
    if name is not None and raw.setdefault("name", name) != name:
        raise bad_request(f"the path names {name!r}, the body {raw['name']!r}")
    task_def = await request.offload_if_large(lambda: task_defs.parse_task_def(raw, "updateTaskDef.taskDefinition"))
    warnings = await request.offload_if_large(lambda: task_defs.find_task_def_warnings(task_def))
    await request.write(lambda tx: task_defs.update_task_def(tx, task_def))
    return DONE._replace(headers=warning_headers(warnings))


async def list_task_defs(request: ApiRequest) -> Answer:
    """GET /metadata/taskdefs: return all task definitions."""
    return as_json(await request.reader.read(task_defs.all_task_defs))


async def get_task_def(request: ApiRequest) -> Answer:
    """GET /metadata/taskdefs/{name}: return a task definition."""
    name = request.params["name"]
    found = await request.reader.read(lambda tx: task_defs.get_task_def(tx, name))
    if found is None:
        raise not_found(f"No such taskType found by name: {name}")
    return as_json(found.wire())


async def remove_task_def(request: ApiRequest) -> Answer:
    """DELETE /metadata/taskdefs/{name}: delete a task definition."""
    name = request.params["name"]
    await request.write(lambda tx: task_defs.drop_task_def(tx, name))
    return DONE


async def register_workflow_def(request: ApiRequest) -> Answer:
    """POST /metadata/workflow: create a definition; 409 if it exists, unless overwrite=true."""
    raw = request.json(JsonObject)
    definition, warnings = await request.offload_if_large(lambda: _check_with_warnings(raw))
    overwrite = request.query_flag("overwrite", default=False)
    await request.write(lambda tx: workflow_defs.put_workflow_def(tx, definition, overwrite=overwrite))
    return DONE._replace(headers=warning_headers(warnings))


async def validate_workflow_def(request: ApiRequest) -> Answer:
    """POST /metadata/workflow/validate: check a definition without storing it."""
    raw = request.json(JsonObject)
    _, warnings = await request.offload_if_large(lambda: _check_with_warnings(raw))
    return DONE._replace(headers=warning_headers(warnings))


async def update_workflow_defs(request: ApiRequest) -> Answer:
    """PUT /metadata/workflow: create or replace each definition of an array."""
    raw = request.json(list[JsonObject])
    checked = await request.offload_if_large(lambda: [_check_with_warnings(item) for item in raw])

    def put_all(tx: Tx) -> None:
        for definition, _ in checked:
            workflow_defs.put_workflow_def(tx, definition, overwrite=True)

    await request.write(put_all)
    answer = {"bulkErrorResults": {}, "bulkSuccessfulResults": [definition["name"] for definition, _ in checked]}
    return as_json(answer, *warning_headers([warning for _, warnings in checked for warning in warnings]))


async def get_workflow_def(request: ApiRequest) -> Answer:
    """GET /metadata/workflow/{name}?version=: return a version of a definition, or the latest."""
    name, version = request.params["name"], request.query_int("version", 0)
    found = await request.reader.read(lambda tx: workflow_defs.get_workflow_def(tx, name, version or None))
    if found is None:
        raise ApiError(404, f"No such workflow found by name: {name}, version: {version or 'null'}")
    return as_json(found)


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
    await request.write(lambda tx: workflow_defs.drop_workflow_def(tx, name, version))
    return DONE


ROUTES = [
    Route("POST", "/api/metadata/taskdefs", register_task_defs, body=list[task_defs.TaskDef]),
    Route("PUT", "/api/metadata/taskdefs", update_task_def, body=task_defs.TaskDef),
    Route("GET", "/api/metadata/taskdefs", list_task_defs),
    Route("PUT", "/api/metadata/taskdefs/{name}", update_task_def, body=task_defs.TaskDef),
    Route("GET", "/api/metadata/taskdefs/{name}", get_task_def),
    Route("DELETE", "/api/metadata/taskdefs/{name}", remove_task_def),
    Route("POST", "/api/metadata/workflow", register_workflow_def, query={"overwrite": "boolean"}, body=JsonObject),
    Route("PUT", "/api/metadata/workflow", update_workflow_defs, body=list[JsonObject]),
    Route("GET", "/api/metadata/workflow", list_workflow_defs),
    Route("POST", "/api/metadata/workflow/validate", validate_workflow_def, body=JsonObject),
    Route("GET", "/api/metadata/workflow/names", list_names),
    Route("GET", "/api/metadata/workflow/names-and-versions", list_names_and_versions),
    Route("GET", "/api/metadata/workflow/latest-versions", list_latest_versions),
    Route("GET", "/api/metadata/workflow/{name}", get_workflow_def, query={"version": "integer"}),
    Route("GET", "/api/metadata/workflow/{name}/versions", list_versions),
    Route("DELETE", "/api/metadata/workflow/{name}/{version}", remove_workflow_def),
]
