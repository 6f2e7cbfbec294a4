"""Every typed call: its request, and its reading of the answer."""

from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi, PollAnswer
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import ApiException, MalformedAnswer, NotFoundException, RequestTimeout
from conductor.client.http.models.rerun_workflow_request import RerunWorkflowRequest
from conductor.client.http.models.schema_def import SchemaDef
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.schema_client import AsyncSchemaClient
from conductor.client.task_client import AsyncTaskClient
from conductor.client.workflow_client import AsyncWorkflowClient
from tests.unit.http.raw_server import RESET, SILENCE, answer
from tests.unit.http.test_optional_resources import OPERATIONS

#: The cases of these resources are in `test_optional_resources`.
OPTIONAL = OPERATIONS | {"update_state", "getWorkflowRateLimit", "setWorkflowRateLimit", "removeWorkflowRateLimit"}
RESULT = TaskResult(task_id="t", workflow_instance_id="w")
START = StartWorkflowRequest(name="wf", input={"a": 1})

#: client, call, method, target, body sent (None = not looked at), answer, and what the call makes of it.
CASES = {
    "poll_task": (
        AsyncTaskClient,
        lambda c: c.poll_task("a/b", worker_id="me", domain="d"),
        ("GET", "/tasks/poll/a%2Fb?workerid=me&domain=d", None),
        (answer(200, {"taskId": "t"}), lambda r: r.task_id == "t"),
    ),
    "poll_task, nothing there": (
        AsyncTaskClient,
        lambda c: c.poll_task("a"),
        ("GET", "/tasks/poll/a", None),
        (answer(204), lambda r: r is None),
    ),
    "batch_poll_tasks": (
        AsyncTaskClient,
        lambda c: c.batch_poll_tasks("a", "me", 5, 0, "d"),
        ("GET", "/tasks/poll/batch/a?workerid=me&domain=d&count=5&timeout=0", None),
        (answer(200, [{"taskId": "t"}]), lambda r: [task.task_id for task in r] == ["t"]),
    ),
    "batch_poll_tasks, defaults": (
        AsyncTaskClient,
        lambda c: c.batch_poll_tasks("a", domain=""),
        ("GET", "/tasks/poll/batch/a?count=1&timeout=100", None),
        (answer(200, []), lambda r: r == []),
    ),
    "get_task": (
        AsyncTaskClient,
        lambda c: c.get_task("t 1"),
        ("GET", "/tasks/t%201", None),
        (answer(200, {"taskId": "t 1"}), lambda r: r.task_id == "t 1"),
    ),
    "update_task": (
        AsyncTaskClient,
        lambda c: c.update_task(RESULT),
        ("POST", "/tasks", {"taskId": "t", "workflowInstanceId": "w", "status": "COMPLETED"}),
        (answer(200, "t"), lambda r: r == "t"),
    ),
    "update_task_v2": (
        AsyncTaskClient,
        lambda c: c.update_task_v2(RESULT),
        ("POST", "/tasks/update-v2", {"taskId": "t", "workflowInstanceId": "w", "status": "COMPLETED"}),
        (answer(200, {"taskId": "next"}), lambda r: r.task_id == "next"),
    ),
    "update_task_v2, nothing more": (
        AsyncTaskClient,
        lambda c: c.update_task_v2(RESULT),
        ("POST", "/tasks/update-v2", None),
        (answer(204), lambda r: r is None),
    ),
    "update_task_by_ref_name": (
        AsyncTaskClient,
        lambda c: c.update_task_by_ref_name("w", "ref", "COMPLETED", {"a": 1}, "me"),
        ("POST", "/tasks/w/ref/COMPLETED?workerid=me", {"a": 1}),
        (answer(200, "t"), lambda r: r == "t"),
    ),
    "update_task_sync": (
        AsyncTaskClient,
        lambda c: c.update_task_sync("w", "ref", "FAILED", {}),
        ("POST", "/tasks/w/ref/FAILED/sync", {}),
        (answer(200, {"workflowId": "w"}), lambda r: r.workflow_id == "w"),
    ),
    "add_task_log": (
        AsyncTaskClient,
        lambda c: c.add_task_log("t", 'said "hé"'),
        ("POST", "/tasks/t/log", 'said "hé"'.encode()),
        (answer(200), lambda r: r is None),
    ),
    "get_task_logs": (
        AsyncTaskClient,
        lambda c: c.get_task_logs("t"),
        ("GET", "/tasks/t/log", None),
        (answer(200, [{"log": "x", "createdTime": 5}]), lambda r: (r[0].log, r[0].created_time) == ("x", 5)),
    ),
    "get_task_logs, none": (
        AsyncTaskClient,
        lambda c: c.get_task_logs("t"),
        ("GET", "/tasks/t/log", None),
        (answer(204), lambda r: r == []),
    ),
    "get_task_steps": (
        AsyncTaskClient,
        lambda c: c.get_task_steps("t", 7),
        ("GET", "/tasks/t/steps?after=7", None),
        (answer(200, {"steps": [{"name": "charge"}], "next": 9}), lambda r: (r.steps[0].key, r.next) == ("charge", 9)),
    ),
    "get_queue_size_for_task": (
        AsyncTaskClient,
        lambda c: c.get_queue_size_for_task("a", domain="d"),
        ("GET", "/tasks/queue/size?taskType=a&domain=d", None),
        (answer(200, "3"), lambda r: r == 3),
    ),
    "get_queue_sizes": (
        AsyncTaskClient,
        lambda c: c.get_queue_sizes(["a", "b"]),
        ("GET", "/tasks/queue/sizes?taskType=a&taskType=b", None),
        (answer(200, {"a": 1, "b": 0}), lambda r: r == {"a": 1, "b": 0}),
    ),
    "get_all_queue_sizes": (
        AsyncTaskClient,
        lambda c: c.get_all_queue_sizes(),
        ("GET", "/tasks/queue/all", None),
        (answer(200, {"a": 1}), lambda r: r == {"a": 1}),
    ),
    "get_task_poll_data": (
        AsyncTaskClient,
        lambda c: c.get_task_poll_data("a"),
        ("GET", "/tasks/queue/polldata?taskType=a", None),
        (answer(200, [{"queueName": "a", "workerId": "w", "lastPollTime": 1}]), lambda r: r[0].worker_id == "w"),
    ),
    "get_all_poll_data": (
        AsyncTaskClient,
        lambda c: c.get_all_poll_data(),
        ("GET", "/tasks/queue/polldata/all", None),
        (answer(200, []), lambda r: r == []),
    ),
    "requeue_pending_tasks": (
        AsyncTaskClient,
        lambda c: c.requeue_pending_tasks("a"),
        ("POST", "/tasks/queue/requeue/a", None),
        (answer(200, "4"), lambda r: r == "4"),
    ),
    "search tasks": (
        AsyncTaskClient,
        lambda c: c.search(size=5, query="status=FAILED"),
        ("GET", "/tasks/search?start=0&size=5&freeText=%2A&query=status%3DFAILED", None),
        (answer(200, {"totalHits": 1, "results": [{"taskId": "t"}]}), lambda r: r.results[0].task_id == "t"),
    ),
    "register_task_def": (
        AsyncMetadataClient,
        lambda c: c.register_task_def({"name": "a"}),
        ("POST", "/metadata/taskdefs", [{"name": "a"}]),
        (answer(200), lambda r: r is None),
    ),
    "update_task_def": (
        AsyncMetadataClient,
        lambda c: c.update_task_def({"name": "a"}),
        ("PUT", "/metadata/taskdefs", {"name": "a"}),
        (answer(200), lambda r: r is None),
    ),
    "get_task_def": (
        AsyncMetadataClient,
        lambda c: c.get_task_def("a b"),
        ("GET", "/metadata/taskdefs/a%20b", None),
        (answer(200, {"name": "a b", "retryCount": 7}), lambda r: (r.name, r.retry_count) == ("a b", 7)),
    ),
    "get_all_task_defs": (
        AsyncMetadataClient,
        lambda c: c.get_all_task_defs(),
        ("GET", "/metadata/taskdefs", None),
        (answer(200, [{"name": "a"}]), lambda r: isinstance(r[0], TaskDef)),
    ),
    "unregister_task_def": (
        AsyncMetadataClient,
        lambda c: c.unregister_task_def("a"),
        ("DELETE", "/metadata/taskdefs/a", None),
        (answer(200), lambda r: r is None),
    ),
    "register_workflow_def": (
        AsyncMetadataClient,
        lambda c: c.register_workflow_def({"name": "w", "tasks": []}),
        ("POST", "/metadata/workflow?overwrite=true", {"name": "w", "tasks": []}),
        (answer(200), lambda r: r is None),
    ),
    "update_workflow_def": (
        AsyncMetadataClient,
        lambda c: c.update_workflow_def({"name": "w"}),
        ("PUT", "/metadata/workflow", [{"name": "w"}]),
        (answer(200, {"bulkErrorResults": {}, "bulkSuccessfulResults": ["w"]}), lambda r: r is None),
    ),
    "update_workflow_def, not over another": (
        AsyncMetadataClient,
        lambda c: c.update_workflow_def({"name": "w"}, overwrite=False),
        ("POST", "/metadata/workflow?overwrite=false", {"name": "w"}),
        (answer(200), lambda r: r is None),
    ),
    "validate_workflow_def": (
        AsyncMetadataClient,
        lambda c: c.validate_workflow_def({"name": "w"}),
        ("POST", "/metadata/workflow/validate", {"name": "w"}),
        (answer(200), lambda r: r is None),
    ),
    "get_workflow_def": (
        AsyncMetadataClient,
        lambda c: c.get_workflow_def("w", 2),
        ("GET", "/metadata/workflow/w?version=2", None),
        (answer(200, {"name": "w", "version": 2}), lambda r: isinstance(r, WorkflowDef) and r.version == 2),
    ),
    "get_all_workflow_defs": (
        AsyncMetadataClient,
        lambda c: c.get_all_workflow_defs(),
        ("GET", "/metadata/workflow", None),
        (answer(200, [{"name": "w"}]), lambda r: r[0].name == "w"),
    ),
    "unregister_workflow_def": (
        AsyncMetadataClient,
        lambda c: c.unregister_workflow_def("w", 1),
        ("DELETE", "/metadata/workflow/w/1", None),
        (answer(200), lambda r: r is None),
    ),
    "register_schema": (
        AsyncSchemaClient,
        lambda c: c.register_schema(SchemaDef(name="s", version=1, data={"type": "object"})),
        ("POST", "/schema", {"name": "s", "version": 1, "type": "JSON", "data": {"type": "object"}}),
        (answer(200), lambda r: r is None),
    ),
    "get_schema": (
        AsyncSchemaClient,
        lambda c: c.get_schema("s", 1),
        ("GET", "/schema/s/1", None),
        (answer(200, {"name": "s", "version": 1}), lambda r: r.name == "s"),
    ),
    "get_all_schemas": (
        AsyncSchemaClient,
        lambda c: c.get_all_schemas(),
        ("GET", "/schema", None),
        (answer(200, [{"name": "s"}]), lambda r: r[0].name == "s"),
    ),
    "delete_schema": (
        AsyncSchemaClient,
        lambda c: c.delete_schema("s", 1),
        ("DELETE", "/schema/s/1", None),
        (answer(200), lambda r: r is None),
    ),
    "delete_schema_by_name": (
        AsyncSchemaClient,
        lambda c: c.delete_schema_by_name("s"),
        ("DELETE", "/schema/s", None),
        (answer(200), lambda r: r is None),
    ),
    "start_workflow": (
        AsyncWorkflowClient,
        lambda c: c.start_workflow(START),
        ("POST", "/workflow", {"name": "wf", "input": {"a": 1}}),
        (answer(200, "id-1"), lambda r: r == "id-1"),
    ),
    "start_workflow_by_name": (
        AsyncWorkflowClient,
        lambda c: c.start_workflow_by_name("wf", {"a": 1}, version=2, correlationId="c", priority=3),
        ("POST", "/workflow/wf?version=2&correlationId=c&priority=3", {"a": 1}),
        (answer(200, "id-1"), lambda r: r == "id-1"),
    ),
    "start_workflow_by_name, no input": (
        AsyncWorkflowClient,
        lambda c: c.start_workflow_by_name("wf"),
        ("POST", "/workflow/wf", {}),
        (answer(200, "id-1"), lambda r: r == "id-1"),
    ),
    "execute_workflow": (
        AsyncWorkflowClient,
        lambda c: c.execute_workflow(START, request_id="r", wait_until_task_ref="t", wait_for_seconds=3),
        ("POST", "/workflow/execute/wf/0?requestId=r&waitUntilTaskRef=t&waitForSeconds=3", None),
        (answer(200, {"workflowId": "w", "status": "COMPLETED"}), lambda r: r.is_terminal),
    ),
    "get_workflow": (
        AsyncWorkflowClient,
        lambda c: c.get_workflow("w", include_tasks=False),
        ("GET", "/workflow/w?includeTasks=false", None),
        (answer(200, {"workflowId": "w", "tasks": []}), lambda r: r.workflow_id == "w"),
    ),
    "get_workflow_status": (
        AsyncWorkflowClient,
        lambda c: c.get_workflow_status("w", include_output=True),
        ("GET", "/workflow/w/status?includeOutput=true", None),
        (answer(200, {"workflowId": "w", "status": "RUNNING"}), lambda r: r.status == "RUNNING"),
    ),
    "terminate_workflow": (
        AsyncWorkflowClient,
        lambda c: c.terminate_workflow("w", "no use"),
        ("DELETE", "/workflow/w?reason=no+use&triggerFailureWorkflow=false", None),
        (answer(200), lambda r: r is None),
    ),
    "delete_workflow": (
        AsyncWorkflowClient,
        lambda c: c.delete_workflow("w", archive_workflow=False),
        ("DELETE", "/workflow/w/remove?archiveWorkflow=false", None),
        (answer(200), lambda r: r is None),
    ),
    "remove_workflow": (
        AsyncWorkflowClient,
        lambda c: c.remove_workflow("w"),
        ("DELETE", "/workflow/w/remove?archiveWorkflow=true", None),
        (answer(200), lambda r: r is None),
    ),
    "pause_workflow": (
        AsyncWorkflowClient,
        lambda c: c.pause_workflow("w"),
        ("PUT", "/workflow/w/pause", None),
        (answer(200), lambda r: r is None),
    ),
    "resume_workflow": (
        AsyncWorkflowClient,
        lambda c: c.resume_workflow("w"),
        ("PUT", "/workflow/w/resume", None),
        (answer(200), lambda r: r is None),
    ),
    "restart_workflow": (
        AsyncWorkflowClient,
        lambda c: c.restart_workflow("w", use_latest_def=True),
        ("POST", "/workflow/w/restart?useLatestDefinitions=true", None),
        (answer(204), lambda r: r is None),
    ),
    "retry_workflow": (
        AsyncWorkflowClient,
        lambda c: c.retry_workflow("w"),
        ("POST", "/workflow/w/retry?resumeSubworkflowTasks=false", None),
        (answer(204), lambda r: r is None),
    ),
    "reset_callbacks": (
        AsyncWorkflowClient,
        lambda c: c.reset_callbacks("w"),
        ("POST", "/workflow/w/resetcallbacks", None),
        (answer(204), lambda r: r is None),
    ),
    "rerun_workflow": (
        AsyncWorkflowClient,
        lambda c: c.rerun_workflow("w", RerunWorkflowRequest(re_run_from_task_id="t")),
        ("POST", "/workflow/w/rerun", {"reRunFromTaskId": "t"}),
        (answer(200, "w"), lambda r: r == "w"),
    ),
    "skip_task_from_workflow": (
        AsyncWorkflowClient,
        lambda c: c.skip_task_from_workflow("w", "ref"),
        ("PUT", "/workflow/w/skiptask/ref", {}),
        (answer(200), lambda r: r is None),
    ),
    "search workflows": (
        AsyncWorkflowClient,
        lambda c: c.search(query="workflowType='x'"),
        ("GET", "/workflow/search?start=0&size=100&freeText=%2A&query=workflowType%3D%27x%27", None),
        (answer(200, {"totalHits": 1, "results": [{"workflowId": "w"}]}), lambda r: r.results[0].workflow_id == "w"),
    ),
    "get_by_correlation_ids": (
        AsyncWorkflowClient,
        lambda c: c.get_by_correlation_ids("wf", ["a"]),
        ("POST", "/workflow/wf/correlated?includeClosed=false&includeTasks=false", ["a"]),
        (answer(200, {"a": [{"workflowId": "w"}]}), lambda r: r["a"][0].workflow_id == "w"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_call_on_the_wire(serve: Any, case: Any) -> None:
    client_class, call, (method, target, body), (reply, is_right) = case
    server = await serve(lambda seen: reply)
    async with client_class(Configuration(server.url)) as client:
        result = await call(client)
    (seen,) = server.requests
    assert (seen.method, seen.target) == (method, "/api" + target)
    if isinstance(body, bytes):
        assert seen.body == body
    elif body is not None:
        assert seen.json == body
    assert is_right(result), result


def test_no_operation_is_without_a_case() -> None:
    called = {name.partition(",")[0] for name in CASES} | {"search", "close", "only_on"} | OPTIONAL
    called.add("start_workflows")  # test_bulk_starts.py
    called.add("register_task_defs")  # the case of register_task_def
    for client in (AsyncTaskClient, AsyncMetadataClient, AsyncSchemaClient, AsyncWorkflowClient):
        operations = {name for name in dir(client) if not name.startswith("_")}
        assert operations <= called


@pytest.fixture
async def tasks_of(serve: Any) -> Any:
    opened = []

    async def make(script: Any) -> Any:
        server = await serve(script)
        opened.append(AsyncTaskResourceApi(AsyncApiClient(Configuration(server.url))))
        return opened[-1], server

    yield make
    for api in opened:
        await api.close()


async def test_a_poll_tells_what_the_server_can_do(tasks_of: Any) -> None:
    headers = {"Conductor_Features": "leases, batch-reports"}
    tasks, _ = await tasks_of(lambda seen: answer(200, [{"taskId": "t", "leaseId": "l"}], **headers))
    polled = await tasks.poll_for_worker("a", worker_id=None, domain=None, count=1, timeout_ms=0)
    assert polled.tasks[0].lease_id == "l"
    assert polled.features == {"leases", "batch-reports"}


async def test_a_conductor_server_announces_nothing(tasks_of: Any) -> None:
    tasks, _ = await tasks_of(lambda seen: answer(200, []))
    assert await tasks.poll_for_worker("a", worker_id=None, domain=None, count=1, timeout_ms=0) == PollAnswer(
        [], frozenset()
    )


@pytest.mark.parametrize("body", ["nonsense", '{"a":1}', '[{"taskId":5}]'])
async def test_a_malformed_poll_is_said_so(tasks_of: Any, body: Any) -> None:
    tasks, _ = await tasks_of(lambda seen: answer(200, body))
    with pytest.raises(MalformedAnswer, match="GET /tasks/poll/batch/a answered 200 with a body that is not a list"):
        await tasks.batch_poll("a")


async def test_a_poll_waits_as_long_as_it_asked_and_a_little(tasks_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.client.http.api.async_task_resource_api.POLL_GRACE_S", 0.1)
    tasks, _ = await tasks_of(lambda seen: SILENCE)
    with pytest.raises(RequestTimeout, match=r"no answer within 0.3 s"):
        await tasks.batch_poll("a", timeout=200)


async def test_a_large_batch_is_waited_for_longer(tasks_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Conductor server a poll that is given up takes its tasks along."""
    monkeypatch.setattr("conductor.client.http.api.async_task_resource_api.POLL_GRACE_S", 0.1)
    monkeypatch.setattr("conductor.client.http.api.async_task_resource_api.GRACE_PER_TASK_S", 0.01)
    tasks, _ = await tasks_of(lambda seen: SILENCE)
    with pytest.raises(RequestTimeout, match=r"no answer within 0.5 s"):
        await tasks.batch_poll("a", count=50, timeout=100)


async def test_reports_are_sent_as_they_are_and_their_answer_is_handed_up(tasks_of: Any) -> None:
    tasks, server = await tasks_of(lambda seen: answer(409, {"verdict": "CANCELLED"}, Conductor_Verdict="CANCELLED"))
    response = await tasks.send_report(b'{"taskId":"t"}')
    assert (response.status, response.headers["conductor-verdict"]) == (409, "CANCELLED")
    await tasks.send_reports(b"[]")
    assert [(seen.target, seen.body) for seen in server.requests] == [
        ("/api/tasks", b'{"taskId":"t"}'),
        ("/api/tasks/reports", b"[]"),
    ]


async def test_an_update_that_failed_inside_a_success_is_an_error(serve: Any) -> None:
    server = await serve(lambda seen: answer(200, {"bulkErrorResults": {"w": "disk full"}}))
    async with AsyncMetadataClient(Configuration(server.url)) as metadata:
        with pytest.raises(ApiException, match="PUT /metadata/workflow answered 200: w: disk full"):
            await metadata.update_workflow_def(WorkflowDef(name="w"))


async def test_a_server_without_schemas_is_a_not_found(serve: Any) -> None:
    server = await serve(lambda seen: answer(404, {"message": "No static resource api/schema."}))
    async with AsyncSchemaClient(Configuration(server.url)) as schemas:
        with pytest.raises(NotFoundException):
            await schemas.register_schema(SchemaDef(name="s"))


async def test_a_workflow_is_never_started_twice(serve: Any) -> None:
    server = await serve(lambda seen: answer(200, {"workflowId": "w"}) if seen.nth == 1 else RESET)
    async with AsyncWorkflowClient(Configuration(server.url)) as workflows:
        await workflows.get_workflow("w")
        with pytest.raises(Exception, match="POST"):
            await workflows.start_workflow(START)
    assert [seen.method for seen in server.requests] == ["GET", "POST"]
