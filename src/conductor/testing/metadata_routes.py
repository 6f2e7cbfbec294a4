"""The stub's definitions and schemas."""

from __future__ import annotations

from typing import Any

from conductor.testing.http11 import StubAnswer
from conductor.testing.request import Request
from conductor.testing.router import StubRoute, body_array, body_object, json_answer
from conductor.testing.stub_errors import StubError


class MetadataRoutes:
    """Keeps task definitions, workflow definitions and, if asked to, schemas, just as they were sent."""

    def __init__(self, *, schemas: bool) -> None:
        self._with_schemas = schemas
        self.task_defs: dict[str, dict[str, Any]] = {}
        self.workflow_defs: dict[tuple[str, int], dict[str, Any]] = {}
        self.schemas: dict[tuple[str, int], dict[str, Any]] = {}

    def routes(self) -> list[StubRoute]:
        """The endpoints. An open-source Conductor has none for schemas."""
        task_defs = [
            StubRoute("POST", "/metadata/taskdefs", self.register_task_defs),
            StubRoute("PUT", "/metadata/taskdefs", self.update_task_def),
            StubRoute("GET", "/metadata/taskdefs", self.all_task_defs),
            StubRoute("GET", "/metadata/taskdefs/*", self.read_task_def),
            StubRoute("DELETE", "/metadata/taskdefs/*", self.delete_task_def),
        ]
        workflow_defs = [
            StubRoute("POST", "/metadata/workflow", self.register_workflow_def),
            StubRoute("PUT", "/metadata/workflow", self.update_workflow_defs),
            StubRoute("GET", "/metadata/workflow", self.all_workflow_defs),
            StubRoute("GET", "/metadata/workflow/*", self.read_workflow_def),
            StubRoute("DELETE", "/metadata/workflow/*/*", self.delete_workflow_def),
        ]
        schemas = [
            StubRoute("POST", "/schema", self.register_schemas),
            StubRoute("GET", "/schema", self.all_schemas),
            StubRoute("GET", "/schema/*/*", self.read_schema),
            StubRoute("DELETE", "/schema/*/*", self.delete_schema),
        ]
        return task_defs + workflow_defs + (schemas if self._with_schemas else [])

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

    def all_task_defs(self, request: Request) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        return json_answer(list(self.task_defs.values()))

    def read_task_def(self, request: Request, name: str) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        if name not in self.task_defs:
            raise StubError(404, f"No such taskType found by name: {name}")
        return json_answer(self.task_defs[name])

    def delete_task_def(self, request: Request, name: str) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        if self.task_defs.pop(name, None) is None:
            raise StubError(404, f"No such task definition: {name}")
        return StubAnswer()

    def register_workflow_def(self, request: Request) -> StubAnswer:
        definition = body_object(request)
        key = _versioned(definition)
        if key in self.workflow_defs and request.query.get("overwrite") != "true":
            raise StubError(409, f"Workflow with {key[0]}.{key[1]} already exists!")
        self.workflow_defs[key] = definition
        return StubAnswer()

    def update_workflow_defs(self, request: Request) -> StubAnswer:
        definitions = {_versioned(definition): definition for definition in body_array(request)}
        self.workflow_defs |= definitions
        return json_answer({"bulkErrorResults": {}, "bulkSuccessfulResults": [name for name, _ in definitions]})

    def all_workflow_defs(self, request: Request) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        return json_answer(list(self.workflow_defs.values()))

    def read_workflow_def(self, request: Request, name: str) -> StubAnswer:
        version = request.query.get("version")
        found = self.latest_workflow_def(name, int(version) if version else None)
        if found is None:
            raise StubError(404, f"No such workflow found by name: {name}, version: {version}")
        return json_answer(found)

    def latest_workflow_def(self, name: str, version: int | None) -> dict[str, Any] | None:
        """The definition of that version, or the newest."""
        versions = [key for key in self.workflow_defs if key[0] == name and version in (None, key[1])]
        return self.workflow_defs[max(versions)] if versions else None

    def delete_workflow_def(self, request: Request, name: str, version: str) -> StubAnswer:  # noqa: ARG002
        if self.workflow_defs.pop((name, int(version)), None) is None:
            raise StubError(404, f"No such workflow definition: {name} version: {version}")
        return StubAnswer()

    def register_schemas(self, request: Request) -> StubAnswer:
        schemas = body_array(request) if isinstance(request.json, list) else [body_object(request)]
        self.schemas |= {_versioned(schema): schema for schema in schemas}
        return StubAnswer()

    def all_schemas(self, request: Request) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        return json_answer(list(self.schemas.values()))

    def read_schema(self, request: Request, name: str, version: str) -> StubAnswer:  # noqa: ARG002
        if (name, int(version)) not in self.schemas:
            raise StubError(404, f"No such schema: {name}, version: {version}")
        return json_answer(self.schemas[name, int(version)])

    def delete_schema(self, request: Request, name: str, version: str) -> StubAnswer:  # noqa: ARG002
        if self.schemas.pop((name, int(version)), None) is None:
            raise StubError(404, f"No such schema: {name}, version: {version}")
        return StubAnswer()


def _name(definition: dict[str, Any]) -> str:
    if not definition.get("name"):
        raise StubError(400, "Validation failed, check below errors for detail.", validationErrors=_NAMELESS)
    return str(definition["name"])


def _versioned(definition: dict[str, Any]) -> tuple[str, int]:
    return _name(definition), int(definition.get("version") or 1)


_NAMELESS = [{"path": "registerTaskDef.arg0[0].name", "message": "TaskDef name cannot be null or empty"}]
