"""Dry runs of workflows, on the coordinator and on a Conductor server."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.client.http.errors import NotFoundException
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.http.models.workflow_test_request import TaskMock, WorkflowTestRequest
from tests.acceptance.server_session import Session

pytestmark = pytest.mark.targets("coordinator", "conductor-sqlite")


async def tried(session: Session, *steps: WorkflowTask, **mocks: list[TaskMock]) -> Workflow:
    """A test run of a workflow of these steps, whose definition comes with the request."""
    definition = WorkflowDef(name=session.named("tried"), version=1, tasks=list(steps))
    asked = WorkflowTestRequest(name=definition.name, version=1, workflow_def=definition, task_ref_to_mock_output=mocks)
    return await session.workflows.test_workflow(asked)


def step(ref: str, kind: str = "SIMPLE", **inputs: Any) -> WorkflowTask:
    return WorkflowTask(name=ref, task_reference_name=ref, type=kind, input_parameters=inputs)


def attempts(workflow: Workflow) -> list[tuple[str | None, str | None, Any]]:
    return [(task.reference_task_name, task.status, task.output_data) for task in workflow.tasks]


async def test_each_attempt_ends_as_its_mock_says(session: Session) -> None:
    mocks = [TaskMock(status="FAILED", output={"r": 5}), TaskMock(status="COMPLETED", output={"r": 6})]
    found = await tried(session, step("t"), t=mocks)
    assert (found.status, found.output) == ("COMPLETED", {"r": 6})
    assert attempts(found) == [("t", "FAILED", {"r": 5}), ("t", "COMPLETED", {"r": 6})]


async def test_a_task_without_a_mock_stays_open(session: Session) -> None:
    found = await tried(session, step("a"), step("b", given="${a.output.x}"), a=[TaskMock(output={"x": 1})])
    assert (found.status, attempts(found)) == ("RUNNING", [("a", "COMPLETED", {"x": 1}), ("b", "SCHEDULED", {})])
    assert found.tasks[1].input_data == {"given": 1}


async def test_waits_end_by_their_mocks_too(session: Session) -> None:
    found = await tried(session, step("w", "WAIT"), w=[TaskMock(status="COMPLETED", output={"q": 1})])
    assert found.status == "COMPLETED"


async def test_an_unknown_workflow_is_not_found(session: Session) -> None:
    with pytest.raises(NotFoundException):
        await session.workflows.test_workflow(WorkflowTestRequest(name=session.named("nowhere"), version=1))
