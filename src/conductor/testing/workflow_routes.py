"""The stub's `/workflow`: it remembers what was started and runs nothing."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.workflow import Workflow
from conductor.common.clock import Clock
from conductor.testing.http11 import StubAnswer
from conductor.testing.request import Request
from conductor.testing.router import StubRoute, body_object, json_answer, text_answer
from conductor.testing.stub_errors import StubError


class WorkflowRoutes:
    """Starts, shows and ends workflows without tasks; tasks are added by the test."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.workflows: dict[str, Workflow] = {}

    def routes(self) -> list[StubRoute]:
        """The endpoints."""
        return [
            StubRoute("POST", "/workflow", self.start),
            StubRoute("POST", "/workflow/*", self.start_by_name),
            StubRoute("GET", "/workflow/*", self.read),
            StubRoute("GET", "/workflow/*/status", self.read_status),
            StubRoute("DELETE", "/workflow/*", self.terminate),
            StubRoute("PUT", "/workflow/*/pause", self.pause),
            StubRoute("PUT", "/workflow/*/resume", self.resume),
        ]

    def start(self, request: Request) -> StubAnswer:
        wish = StartWorkflowRequest.from_dict(body_object(request))
        if not wish.name:
            raise StubError(400, "Validation failed, check below errors for detail.")
        return self._start(wish.name, wish.version, wish.input, wish.correlation_id)

    def start_by_name(self, request: Request, name: str) -> StubAnswer:
        version = request.query.get("version")
        return self._start(
            name, int(version) if version else None, body_object(request), request.query.get("correlationId")
        )

    def _start(self, name: str, version: int | None, given: dict[str, Any], correlation_id: str | None) -> StubAnswer:
        now_ms = self._clock.wall_ms()
        workflow = Workflow(
            workflow_id=str(uuid4()),
            workflow_name=name,
            workflow_version=version or 1,
            status="RUNNING",
            input=given,
            correlation_id=correlation_id,
            create_time=now_ms,
            start_time=now_ms,
        )
        self.workflows[workflow.workflow_id] = workflow
        return text_answer(workflow.workflow_id)

    def read(self, request: Request, workflow_id: str) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        return json_answer(self._find(workflow_id))

    def read_status(self, request: Request, workflow_id: str) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        return json_answer({"workflowId": workflow_id, "status": self._find(workflow_id).status})

    def terminate(self, request: Request, workflow_id: str) -> StubAnswer:
        workflow = self._find(workflow_id)
        if workflow.status == "COMPLETED":
            raise StubError(409, f"Workflow {workflow_id} is already COMPLETED")
        workflow.reason_for_incompletion = request.query.get("reason")
        return self._become(workflow, "TERMINATED")

    def pause(self, request: Request, workflow_id: str) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        return self._become(self._find(workflow_id), "PAUSED")

    def resume(self, request: Request, workflow_id: str) -> StubAnswer:  # noqa: ARG002 - a handler's signature
        return self._become(self._find(workflow_id), "RUNNING")

    def _become(self, workflow: Workflow, status: str) -> StubAnswer:
        workflow.status = status
        workflow.update_time = self._clock.wall_ms()
        return StubAnswer()

    def _find(self, workflow_id: str) -> Workflow:
        if workflow_id not in self.workflows:
            raise StubError(404, f"No such workflow found by id: {workflow_id}")
        return self.workflows[workflow_id]
