"""The stub's definitions and schemas."""

from __future__ import annotations

from typing import TypeAlias

from conductor.testing.http11 import StubAnswer
from conductor.testing.request import JsonObject, Request
from conductor.testing.router import StubError, StubRoute, body_array, body_object, json_answer

#: Definitions by name and version.
Versioned: TypeAlias = dict[tuple[str, int], JsonObject]


class MetadataRoutes:
    """Stores task definitions, workflow definitions and schemas unchanged, as they were sent."""

    def __init__(self, *, schemas: bool) -> None:
        self._serves_schemas = schemas
        self.task_defs: dict[str, JsonObject] = {}
        self.workflow_defs: Versioned = {}
        self.schemas: Versioned = {}

    def routes(self) -> list[StubRoute]:
        """Return the endpoints. An open-source Conductor server has no schema endpoints."""
        routes = [
            StubRoute("POST", "/metadata/taskdefs", self.register_task_defs),
            StubRoute("PUT", "/metadata/taskdefs", self.update_task_def),
            StubRoute("GET", "/metadata/taskdefs", lambda _: json_answer(list(self.task_defs.values()))),
            StubRoute("GET", "/metadata/taskdefs/*", self.read_task_def),
            StubRoute("DELETE", "/metadata/taskdefs/*", self.delete_task_def),
            StubRoute("POST", "/metadata/workflow", self.register_workflow_def),
            StubRoute("PUT", "/metadata/workflow", self.update_workflow_defs),
            StubRoute("GET", "/metadata/workflow", lambda _: json_answer(list(self.workflow_defs.values()))),
            StubRoute("GET", "/metadata/workflow/*", self.read_workflow_def),
            StubRoute("DELETE", "/metadata/workflow/*/*", self.delete_workflow_def),
        ]
        if self._serves_schemas:
            routes += [
                StubRoute("POST", "/schema", self.register_schemas),
                StubRoute("GET", "/schema", lambda _: json_answer(list(self.schemas.values()))),
                StubRoute("GET", "/schema/*/*", self.read_schema),
                StubRoute("DELETE", "/schema/*/*", self.delete_schema),
            ]
        return routes

    def register_task_defs(self, request: Request) -> StubAnswer:
        self.task_defs |= {_name(definition): definition for definition in body_array(request)}
        return StubAnswer()

    def update_task_def(self, request: Request) -> StubAnswer:
        definition = body_object(request)
        name = _name(definition)
        if name not in self.task_defs:
            raise StubError(404, f"No such task by name {name}")
        self.task_defs[name] = definition
        return StubAnswer()

    def read_task_def(self, _request: Request, name: str) -> StubAnswer:
        if name not in self.task_defs:
            raise StubError(404, f"No such taskType found by name: {name}")
        return json_answer(self.task_defs[name])

    def delete_task_def(self, _request: Request, name: str) -> StubAnswer:
        if self.task_defs.pop(name, None) is None:
            raise StubError(404, f"No such task definition: {name}")
        return StubAnswer()

    def register_workflow_def(self, request: Request) -> StubAnswer:
        definition = body_object(request)
        name, version = key = _name_and_version(definition)
        if key in self.workflow_defs and request.query.get("overwrite") != "true":
            raise StubError(409, f"Workflow with {name}.{version} already exists!")
        self.workflow_defs[key] = definition
        return StubAnswer()

    def update_workflow_defs(self, request: Request) -> StubAnswer:
        definitions = {_name_and_version(definition): definition for definition in body_array(request)}
        self.workflow_defs |= definitions
        return json_answer({"bulkErrorResults": {}, "bulkSuccessfulResults": [name for name, _ in definitions]})

    def read_workflow_def(self, request: Request, name: str) -> StubAnswer:
        """Return the answer with the version that the query names, or with the latest version."""
        version = request.query.get("version")
        keys = [key for key in self.workflow_defs if key[0] == name and (not version or key[1] == int(version))]
        if not keys:
            raise StubError(404, f"No such workflow found by name: {name}, version: {version}")
        return json_answer(self.workflow_defs[max(keys)])

    def delete_workflow_def(self, _request: Request, name: str, version: str) -> StubAnswer:
        if self.workflow_defs.pop((name, int(version)), None) is None:
            raise StubError(404, f"No such workflow definition: {name} version: {version}")
        return StubAnswer()

    def register_schemas(self, request: Request) -> StubAnswer:
        schemas = body_array(request) if isinstance(request.json, list) else [body_object(request)]
        self.schemas |= {_name_and_version(schema): schema for schema in schemas}
        return StubAnswer()

    def read_schema(self, _request: Request, name: str, version: str) -> StubAnswer:
        if (name, int(version)) not in self.schemas:
            raise StubError(404, f"No such schema: {name}, version: {version}")
        return json_answer(self.schemas[name, int(version)])

    def delete_schema(self, _request: Request, name: str, version: str) -> StubAnswer:
        if self.schemas.pop((name, int(version)), None) is None:
            raise StubError(404, f"No such schema: {name}, version: {version}")
        return StubAnswer()


def _name(definition: JsonObject) -> str:
    if not definition.get("name"):
        problem = {"path": "registerTaskDef.arg0[0].name", "message": "TaskDef name cannot be null or empty"}
        raise StubError(400, "Validation failed, check below errors for detail.", validationErrors=[problem])
    return str(definition["name"])


def _name_and_version(definition: JsonObject) -> tuple[str, int]:
    return _name(definition), int(definition.get("version") or 1)
