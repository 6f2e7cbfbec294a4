"""The stub's `/workflow`: the endpoints that a client needs to start and watch workflows."""

from __future__ import annotations

from uuid import uuid4

from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.workflow import Workflow
from conductor.common.clock import Clock
from conductor.protocol.statuses import WorkflowStatus
from conductor.testing.http11 import StubAnswer
from conductor.testing.request import JsonObject, Request
from conductor.testing.router import StubError, StubRoute, body_object, json_answer, text_answer


class WorkflowRoutes:
    """Starts, shows and ends workflows without tasks; the test adds the tasks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.workflows: dict[str, Workflow] = {}

    def routes(self) -> list[StubRoute]:
        return [
            StubRoute("POST", "/workflow", self.start),
            StubRoute("POST", "/workflow/*", self.start_by_name),
            StubRoute("GET", "/workflow/*", lambda _, id_: json_answer(self._find(id_))),
            StubRoute("GET", "/workflow/*/status", self.read_status),
            StubRoute("DELETE", "/workflow/*", self.terminate),
            StubRoute("PUT", "/workflow/*/pause", lambda _, id_: self._set_status(id_, WorkflowStatus.PAUSED)),
            StubRoute(
                "PUT",
                "/workflow/*/resume",
                lambda _, id_: self._set_status(id_, WorkflowStatus.RUNNING),
            ),
        ]

    def start(self, request: Request) -> StubAnswer:
        start = StartWorkflowRequest.from_dict(body_object(request))
        if not start.name:
            raise StubError(400, "Validation failed, check below errors for detail.")
        return self._start(start.name, start.version, start.input, start.correlation_id)

    def start_by_name(self, request: Request, name: str) -> StubAnswer:
        version = request.query.get("version")
        correlation_id = request.query.get("correlationId")
        return self._start(name, int(version) if version else None, body_object(request), correlation_id)

    def _start(
        self, name: str, version: int | None, workflow_input: JsonObject, correlation_id: str | None
    ) -> StubAnswer:
        now_ms = self._clock.wall_ms()
        workflow = Workflow(
            workflow_id=str(uuid4()),
            workflow_name=name,
            workflow_version=version or 1,
            status=WorkflowStatus.RUNNING,
            input=workflow_input,
            correlation_id=correlation_id,
            create_time=now_ms,
            start_time=now_ms,
        )
        self.workflows[workflow.workflow_id] = workflow
        return text_answer(workflow.workflow_id)

    def read_status(self, _request: Request, workflow_id: str) -> StubAnswer:
        return json_answer({"workflowId": workflow_id, "status": self._find(workflow_id).status})

    def terminate(self, request: Request, workflow_id: str) -> StubAnswer:
        workflow = self._find(workflow_id)
        if workflow.status == WorkflowStatus.COMPLETED:
            raise StubError(409, f"Workflow {workflow_id} is already COMPLETED")
        workflow.reason_for_incompletion = request.query.get("reason")
        return self._set_status(workflow_id, WorkflowStatus.TERMINATED)

    def _set_status(self, workflow_id: str, status: str) -> StubAnswer:
        workflow = self._find(workflow_id)
        workflow.status = status
        workflow.update_time = self._clock.wall_ms()
        return StubAnswer()

    def _find(self, workflow_id: str) -> Workflow:
        if workflow_id not in self.workflows:
            raise StubError(404, f"No such workflow found by id: {workflow_id}")
        return self.workflows[workflow_id]
