"""Imports and calls of programs for conductor-python 2.0.0 work here in the same way."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from typing import Any

import pytest

from conductor.client.configuration.configuration import Configuration
from conductor.client.context import TaskContext, TaskInProgress, get_task_context
from conductor.client.event import PollStarted, SyncEventDispatcher, TaskRunnerEvent
from conductor.client.event.sync_listener_register import register_task_runner_listener
from conductor.client.http.models import (
    IdempotencyStrategy,
    StartWorkflowRequest,
    Task,
    TaskExecLog,
    TaskResult,
    TaskResultStatus,
    Workflow,
    WorkflowRun,
    WorkflowStatus,
    WorkflowTask,
)
from conductor.client.http.rest import ApiException, RestException
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker import registry
from conductor.client.worker.worker import BackgroundEventLoop
from conductor.client.worker.worker_config import (
    get_worker_config_oneline,
    get_worker_config_summary,
    resolve_worker_config,
)
from conductor.testing import ConductorStub

#: A package, and a name that programs import from it.
FROM_PACKAGES = [
    ("conductor.client.context", "TaskContext"),
    ("conductor.client.context", "TaskInProgress"),
    ("conductor.client.context", "get_task_context"),
    ("conductor.client.event", "PollCompleted"),
    ("conductor.client.event", "PollFailure"),
    ("conductor.client.event", "PollStarted"),
    ("conductor.client.event", "TaskExecutionCompleted"),
    ("conductor.client.event", "TaskExecutionFailure"),
    ("conductor.client.event", "TaskExecutionStarted"),
    ("conductor.client.event", "TaskRunnerEvent"),
    ("conductor.client.event", "TaskRunnerEventsListener"),
    ("conductor.client.orkes.orkes_metadata_client", "OrkesMetadataClient"),
    ("conductor.client.orkes.orkes_schema_client", "OrkesSchemaClient"),
    ("conductor.client.orkes.orkes_task_client", "OrkesTaskClient"),
    ("conductor.client.orkes.orkes_workflow_client", "OrkesWorkflowClient"),
    ("conductor.client.http.models.workflow_run", "WorkflowRun"),
    ("conductor.client.worker.worker", "ExecuteTaskFunction"),
    ("conductor.client.worker.worker_task", "WorkerTask"),
]


@pytest.mark.parametrize(("module", "name"), FROM_PACKAGES)
def test_a_name_is_where_conductor_python_has_it(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name) is not None
    assert name in dir(importlib.import_module(module))


@pytest.mark.parametrize("package", ["conductor.client.context", "conductor.client.event"])
def test_a_name_that_a_package_does_not_have_is_an_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nonsense'"):
        importlib.import_module(package).nonsense  # noqa: B018


@pytest.mark.parametrize("package", ["conductor.client.event", "conductor.client.context"])
def test_every_name_of_a_package_can_be_loaded(package: str) -> None:
    module = importlib.import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_results_are_built() -> None:
    assert TaskResult.complete().status is TaskResultStatus.COMPLETED
    failed = TaskResult.failed("no paper")
    assert (failed.status, failed.reason_for_incompletion) == (TaskResultStatus.FAILED, "no paper")
    assert TaskResult.in_progress().add_output_data("page", 3).to_dict()["status"] == "IN_PROGRESS"


def test_results_and_logs_are_made_without_keywords() -> None:
    status: Any = "FAILED"
    result = TaskResult("w-1", "t-1", "why", 5, "me", status, {"a": 1}, [TaskExecLog("line", "t-1", 7)])
    assert result.to_dict() == {
        "workflowInstanceId": "w-1",
        "taskId": "t-1",
        "reasonForIncompletion": "why",
        "callbackAfterSeconds": 5,
        "workerId": "me",
        "status": "FAILED",
        "outputData": {"a": 1},
        "logs": [{"log": "line", "taskId": "t-1", "createdTime": 7}],
    }


@pytest.mark.parametrize("model", [Workflow, WorkflowStatus, WorkflowRun])
@pytest.mark.parametrize(
    ("status", "completed", "successful", "running"),
    [
        ("RUNNING", False, False, True),
        ("PAUSED", False, False, True),
        ("COMPLETED", True, True, False),
        ("FAILED", True, False, False),
        ("TIMED_OUT", True, False, False),
        ("TERMINATED", True, False, False),
    ],
)
def test_a_workflow_is_asked_how_it_stands(
    model: Any, status: str, completed: bool, successful: bool, running: bool
) -> None:
    one = model(status=status)
    assert (one.is_completed(), one.is_successful(), one.is_running()) == (completed, successful, running)
    assert one.is_terminal is completed


def test_a_workflow_is_asked_for_its_tasks() -> None:
    tasks = [
        Task(task_id="1", task_def_name="greet", reference_task_name="hello", status="FAILED"),
        Task(task_id="2", task_def_name="greet", reference_task_name="hello", status="COMPLETED"),
        Task(task_id="3", task_def_name="wave", reference_task_name="bye", status="SCHEDULED"),
    ]
    workflow = Workflow(tasks=tasks)
    assert workflow.current_task is tasks[2]
    assert workflow.get_task(name="greet") is tasks[1]
    assert workflow.get_task(task_reference_name="bye") is tasks[2]
    assert workflow.get_task("absent") is None
    assert Workflow().current_task is None
    for wrong in ({}, {"name": "greet", "task_reference_name": "hello"}):
        with pytest.raises(ValueError, match="either name or task_reference_name"):
            workflow.get_task(**wrong)


def test_an_idempotency_strategy_travels_by_its_name() -> None:
    request = StartWorkflowRequest(name="w", idempotency_strategy=IdempotencyStrategy.RETURN_EXISTING)
    assert b'"idempotencyStrategy":"RETURN_EXISTING"' in request.encode()


def test_an_api_exception_has_a_message() -> None:
    assert RestException is ApiException
    assert ApiException(409, "there is one already").message == "there is one already"


def test_clients_take_the_keywords_of_conductor_python(conductor_stub: ConductorStub) -> None:
    task_id = conductor_stub.add_task("greet", {})
    clients = OrkesClients(Configuration(conductor_stub.url))
    tasks = clients.get_task_client()
    polled = tasks.poll_task("greet", worker_id="me")
    assert polled is not None
    result = TaskResult(polled.workflow_instance_id, polled.task_id, status=TaskResultStatus.COMPLETED)
    assert tasks.update_task(task_result=result) == task_id
    tasks.close()


def test_listeners_are_registered_with_a_dispatcher() -> None:
    seen = []

    class Listener:
        def on_poll_started(self, event: PollStarted) -> None:
            seen.append(event.task_type)

    dispatcher = SyncEventDispatcher[TaskRunnerEvent]()  # type: ignore[misc]
    register_task_runner_listener(Listener(), dispatcher)
    assert (dispatcher.listener_count(PollStarted), dispatcher.has_listeners(PollStarted)) == (1, True)
    dispatcher.publish(PollStarted("greet", "me", 1))
    assert seen == ["greet"]


def test_the_configuration_of_a_worker_is_told() -> None:
    config = resolve_worker_config("greet", poll_interval=500, env={"CONDUCTOR_WORKER_THREAD_COUNT": "5"})
    line = get_worker_config_oneline("greet", config)
    assert line.startswith(f"Conductor Worker[name=greet, pid={os.getpid()}, status=active, poll_interval=500ms, ")
    lines = get_worker_config_summary("greet", config).splitlines()
    assert lines[0] == "Worker 'greet' configuration:"
    assert "  poll_interval_millis: 500 (from code)" in lines
    assert "  thread_count: 5 (from env CONDUCTOR_WORKER_THREAD_COUNT)" in lines
    assert not [line for line in lines if "domain" in line]


def test_functions_are_registered_without_the_decorator() -> None:
    def greet(name: str) -> str:
        return name

    registry.register_decorated_fn("greet", 250, "vip", None, greet, thread_count=3)
    (worker,) = registry.list_workers()
    assert (worker.poll_interval, worker.domain, worker.thread_count) == (250, "vip", 3)
    assert registry.get_registered_worker_names() == ["greet"]


def test_the_background_loop_takes_coroutines() -> None:
    assert BackgroundEventLoop().submit_coroutine(asyncio.sleep(0, "done")).result(60) == "done"


def test_a_context_knows_the_type_of_its_step() -> None:
    assert TaskContext(Task(workflow_task=WorkflowTask(type="SIMPLE"))).get_workflow_task_type() == "SIMPLE"
    assert TaskContext(Task()).get_workflow_task_type() == ""
    assert TaskInProgress(callback_after_seconds=5).callback_after_seconds == 5
    with pytest.raises(RuntimeError):
        get_task_context()


def test_loggers_may_be_named_as_before() -> None:
    name = Configuration.get_logging_formatted_name("my.module")
    assert name == f"[{os.getpid()}] my.module"
    logging.getLogger(name)


class TestOldNames:
    """Names that older programs import or write, which are here under others."""

    def test_private_names_of_definitions_are_the_public_ones(self) -> None:
        from conductor.client.http.models import TaskDef, WorkflowDef, WorkflowTask

        definition = WorkflowDef(name="w")
        definition._tasks = [WorkflowTask(name="a", task_reference_name="a")]
        assert definition._tasks == definition.tasks
        assert definition.to_dict()["tasks"][0]["name"] == "a"
        task = TaskDef(name="t")
        task._retry_count = 7
        assert task.retry_count == 7
        with pytest.raises(AttributeError, match="no attribute '_nothing'"):
            definition._nothing  # noqa: B018

    def test_an_exception_is_made_of_an_answer(self) -> None:
        from conductor.client.exceptions.api_error import APIError
        from conductor.client.http.rest import ApiException

        class Answer:
            status, reason, data = 404, "Not Found", b'{"message": "no such task"}'

            def getheaders(self) -> dict[str, str]:
                return {"X-A": "b"}

        error = ApiException(http_resp=Answer())
        assert (error.status, error.code, error.reason) == (404, 404, "Not Found")
        assert (error.body, error.headers) == ('{"message": "no such task"}', {"x-a": "b"})
        assert error.is_not_found()
        assert isinstance(error, APIError)

    def test_objects_are_mapped_to_json_and_back(self) -> None:
        from conductor.client.helpers.helper import ObjectMapper
        from conductor.client.http.models import Task

        mapper = ObjectMapper()
        tasks = mapper.from_json([{"taskId": "t"}], "list[Task]")
        assert isinstance(tasks[0], Task)
        assert mapper.from_json({"task_id": "u"}, Task).task_id == "u"
        assert mapper.to_json(tasks[0])["taskId"] == "t"

    def test_generated_classes_call_the_same_routes(self, conductor_stub: ConductorStub) -> None:
        from conductor.client.http.api.metadata_resource_api import MetadataResourceApi
        from conductor.client.http.api.workflow_resource_api import WorkflowResourceApi
        from conductor.client.http.api_client import ApiClient
        from conductor.client.http.models import StartWorkflowRequest, TaskDef

        client = ApiClient(Configuration(conductor_stub.url))
        metadata = MetadataResourceApi(client)
        metadata.register_task_def([TaskDef(name="greet", retry_count=2)])
        assert metadata.get_task_def("greet").retry_count == 2
        workflow_id = WorkflowResourceApi(client).start_workflow(StartWorkflowRequest(name="w"))
        assert workflow_id

    def test_generated_classes_take_and_give_what_they_do_there(self, conductor_stub: ConductorStub) -> None:
        from conductor.client.http.api.task_resource_api import TaskResourceApi
        from conductor.client.http.api_client import ApiClient

        tasks = TaskResourceApi(ApiClient(Configuration(conductor_stub.url)))
        assert tasks.poll("greet", workerid="me") is None
        task_id = conductor_stub.add_task("greet", {})
        (task,) = tasks.batch_poll("greet", count=5)
        assert task.task_id == task_id
        tasks.log("a line", task_id)
        assert [line.log for line in tasks.get_task_logs(task_id)] == ["a line"]
        assert tasks.update_task(task.to_task_result()) == task_id
        with pytest.raises(TypeError, match="missing a required argument: 'task_id'"):
            tasks.log("a line")
        tasks.close()

    def test_the_short_names_of_the_package(self) -> None:
        import conductor.client as package

        assert package.ConductorClients is package.OrkesClients is OrkesClients
        assert all(getattr(package, name) for name in package.__all__)

    def test_a_definition_is_read_from_json(self) -> None:
        from conductor.client.http.models import to_workflow_def

        wanted = {"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a"}]}
        for made in (to_workflow_def(json_data=wanted), to_workflow_def('{"name": "w", "tasks": [{"name": "a"}]}')):
            assert (made.name, made.tasks[0].name) == ("w", "a")
        with pytest.raises(ValueError, match="either data"):
            to_workflow_def()

    def test_changes_of_state_have_one_text(self) -> None:
        from conductor.client.http.models import StateChangeConfig, StateChangeEventType

        both = StateChangeConfig(event_type=[StateChangeEventType.onStart, StateChangeEventType.onFailed])
        assert (both.type, both.to_dict()) == ("onStart,onFailed", {"type": "onStart,onFailed"})

    def test_a_collector_counts_by_hand(self) -> None:
        from conductor.client.telemetry.metrics_collector import MetricsCollector

        collector = MetricsCollector()
        try:
            collector.increment_task_poll("greet")
            collector.increment_task_execution_error("greet", ValueError("x"))
            collector.record_task_execute_time("greet", 0.5)
            collector.record_api_request_time("GET", "/tasks/1", "200", 0.1, metric_uri="/tasks/{id}")
            text = collector.render().decode()
        finally:
            collector.close()
        assert 'task_poll_total{taskType="greet"} 1.0' in text
        assert 'exception="ValueError"' in text
        assert 'uri="/tasks/{id}"' in text
