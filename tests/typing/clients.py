"""Types of the clients. Checked by mypy, never run."""

from typing import assert_type

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.workflow import Workflow
from conductor.client.orkes_clients import OrkesClients
from conductor.client.task_client import AsyncTaskClient


def blocking(clients: OrkesClients) -> None:
    tasks = clients.get_task_client()
    assert_type(tasks.get_task("id"), Task)
    assert_type(tasks.poll_task("type", worker_id="me"), Task | None)
    assert_type(tasks.batch_poll_tasks("type", count=5), list[Task])
    assert_type(tasks.update_task(TaskResult()), str)
    tasks.get_task(5)  # type: ignore[arg-type]
    tasks.get_task("id", nonsense=1)  # type: ignore[call-arg]
    workflows = clients.get_workflow_client()
    assert_type(workflows.get_workflow("id", include_tasks=False), Workflow)
    assert_type(workflows.start_workflow_by_name("name", {"a": 1}), str)
    metadata = clients.get_metadata_client()
    assert_type(metadata.get_task_def("name"), TaskDef)
    metadata.register_task_def(TaskDef(name="name"))


async def asynchronous() -> None:
    async with AsyncTaskClient(Configuration("http://localhost:8080/api")) as tasks:
        assert_type(tasks, AsyncTaskClient)
        assert_type(await tasks.get_task("id"), Task)
