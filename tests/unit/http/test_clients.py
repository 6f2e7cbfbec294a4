"""The blocking clients: the same operations from blocking code and from threads, on one connection."""

import asyncio
import inspect
import threading
from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.task_resource_api import TaskResourceApi
from conductor.client.http.api_client import ApiClient
from conductor.client.http.async_rest import NotFoundException
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.rest import ApiException, AuthorizationException
from conductor.client.metadata_client import AsyncMetadataClient, MetadataClient
from conductor.client.orkes_clients import OrkesClients
from conductor.client.schema_client import AsyncSchemaClient, SchemaClient
from conductor.client.task_client import AsyncTaskClient, TaskClient
from conductor.client.workflow_client import AsyncWorkflowClient, WorkflowClient
from tests.unit.http.raw_server import answer

PAIRS = [
    (TaskClient, AsyncTaskClient),
    (MetadataClient, AsyncMetadataClient),
    (SchemaClient, AsyncSchemaClient),
    (WorkflowClient, AsyncWorkflowClient),
]


def script(seen: Any) -> Any:
    if seen.method == "POST":
        return answer(200, "an-id")
    if seen.target.endswith("/missing"):
        return answer(404, {"message": "Task not found for taskId: missing"})
    return answer(200, {"taskId": seen.target.rpartition("/")[2], "workflowId": "w"})


@pytest.fixture
async def server(serve: Any) -> Any:
    return await serve(script)


async def plainly(function: Any, *args: Any) -> Any:
    """Call from a thread without an event loop, as a plain program would, while the test's server goes on."""
    return await asyncio.to_thread(function, *args)


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_every_operation_has_both_faces(blocking: Any, asynchronous: Any) -> None:
    operations = {n for n, m in inspect.getmembers(asynchronous, inspect.iscoroutinefunction) if not n.startswith("_")}
    for name in operations:
        method, twin = getattr(blocking, name), getattr(asynchronous, name)
        assert not inspect.iscoroutinefunction(method)
        assert inspect.signature(method) == inspect.signature(twin)
        assert method.__doc__ == twin.__doc__
        assert method.__doc__


async def test_plain_code_calls_and_waits(server: Any) -> None:
    def program() -> tuple[str, str]:
        with TaskClient(Configuration(server.url)) as tasks:
            return tasks.get_task("t1").task_id, tasks.update_task(TaskResult(task_id="t1", workflow_instance_id="w"))

    assert await plainly(program) == ("t1", "an-id")


async def test_errors_reach_the_caller(server: Any) -> None:
    def program() -> None:
        with TaskClient(Configuration(server.url)) as tasks:
            tasks.get_task("missing")

    with pytest.raises(ApiException, match="GET /tasks/missing answered 404: Task not found for taskId: missing"):
        await plainly(program)
    assert issubclass(AuthorizationException, ApiException)


async def test_many_threads_may_share_a_client(server: Any) -> None:
    got: list[str] = []

    def program() -> None:
        with TaskClient(Configuration(server.url)) as tasks:
            threads = [
                threading.Thread(target=lambda n=n: got.append(tasks.get_task(f"t{n}").task_id)) for n in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    await plainly(program)
    assert sorted(got) == [f"t{n}" for n in range(8)]


async def test_orkes_clients_hand_out_clients_on_shared_connections(server: Any) -> None:
    clients = OrkesClients(Configuration(server.url))

    def program() -> list[object]:
        return [
            clients.get_task_client().get_task("t").task_id,
            clients.get_workflow_client().start_workflow_by_name("wf", {"a": 1}),
            clients.get_workflow_client().get_workflow("w").workflow_id,
            clients.get_metadata_client().get_task_def("d").name,
            clients.get_schema_client().get_schema("s", 1).version,
        ]

    assert await plainly(program) == ["t", "an-id", "w", "", 1]
    assert server.connections == 1
    assert isinstance(clients.get_task_client().asynchronous, AsyncTaskClient)
    await plainly(clients.get_task_client().close)


async def test_the_task_resource_as_the_design_shows_it(server: Any) -> None:
    def program() -> list[str]:
        seen = []
        for api in (TaskResourceApi(Configuration(server.url)), TaskResourceApi(ApiClient(Configuration(server.url)))):
            seen.append(api.get_task("t").task_id)
            api.close()
        return seen

    assert await plainly(program) == ["t", "t"]


async def test_api_client_reads_and_writes_models() -> None:
    client = ApiClient(Configuration())
    assert client.deserialize_model({"taskId": "t"}, Task).task_id == "t"


def test_clients_stand_on_the_environment_without_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_SERVER_URL", "https://conductor.example")
    assert OrkesClients().configuration.host == "https://conductor.example/api"
    assert TaskClient().asynchronous.api_client.configuration.host == "https://conductor.example/api"


async def test_an_update_by_a_wrong_reference_says_which(serve: Any) -> None:
    """A server answers 200 with nothing when it finds no open task of that name."""
    server = await serve(lambda seen: answer(200, ""))
    async with AsyncTaskClient(Configuration(server.url)) as tasks:
        with pytest.raises(NotFoundException, match="workflow 'w1' has no open task with the reference name 'wrong'"):
            await tasks.update_task_by_ref_name("w1", "wrong", "COMPLETED", {})
