"""Every name at the path where the documents, or programs written for other Conductor SDKs, import it from."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import conductor

#: `from <module> import <name>`, as printed.
PRINTED = [
    ("conductor.client.worker.worker_task", "worker_task"),
    ("conductor.client.automator.task_handler", "TaskHandler"),
    ("conductor.client.configuration.configuration", "Configuration"),
    ("conductor.client.worker.worker_loader", "auto_discover_workers"),
    ("conductor.client.worker.worker_loader", "WorkerLoader"),
    ("conductor.client.worker.worker_loader", "scan_for_workers"),
    ("conductor.client.configuration.settings.metrics_settings", "MetricsSettings"),
    ("conductor.client.context.task_context", "TaskInProgress"),
    ("conductor.client.event.task_runner_events", "TaskRunnerEventsListener"),
    ("conductor.client.event.task_runner_events", "TaskExecutionCompleted"),
    ("conductor.client.automator.task_handler_asyncio", "TaskHandlerAsyncIO"),
]

#: Modules that are named by their source path, and what is said to be in them.
BY_PATH = [
    ("conductor/client/automator/task_runner.py", "TaskRunner"),
    ("conductor/client/automator/async_task_runner.py", "AsyncTaskRunner"),
    ("conductor/client/automator/task_handler.py", "TaskHandler"),
    ("conductor/client/automator/task_handler_asyncio.py", "TaskHandlerAsyncIO"),
    ("conductor/client/automator/task_runner_asyncio.py", "TaskRunnerAsyncIO"),
    ("conductor/client/automator/json_schema_generator.py", "generate_json_schema_from_function"),
    ("conductor/client/automator/json_schema_generator.py", "generate_json_schemas"),
    ("conductor/client/worker/worker_config.py", "resolve_worker_config"),
    ("conductor/client/worker/worker.py", "Worker"),
    ("conductor/client/worker/worker.py", "BackgroundEventLoop"),
    ("conductor/client/worker/worker_task.py", "worker_task"),
    ("conductor/client/worker/worker_loader.py", "WorkerLoader"),
    ("conductor/client/event/task_runner_events.py", "TaskRunnerEventsListener"),
    ("conductor/client/telemetry/metrics_collector.py", "MetricsCollector"),
    ("conductor/client/http/async_rest.py", "AsyncRESTClientObject"),
    ("conductor/client/http/async_api_client.py", "AsyncApiClient"),
    ("conductor/client/http/api/async_task_resource_api.py", "AsyncTaskResourceApi"),
]

#: Names that are printed without a path, where programs expect them.
WITHOUT_PATH = [
    ("conductor.client.context.task_context", "get_task_context"),
    ("conductor.client.context.task_context", "TaskContext"),
    ("conductor.client.event.listeners", "TaskRunnerEventsListener"),
    ("conductor.client.event.sync_event_dispatcher", "SyncEventDispatcher"),
    ("conductor.client.event.sync_event_dispatcher", "EventDispatcher"),
    ("conductor.client.http.api.task_resource_api", "TaskResourceApi"),
    ("conductor.client.http.api_client", "ApiClient"),
    ("conductor.client.http.rest", "ApiException"),
    ("conductor.client.worker.exception", "NonRetryableException"),
    ("conductor.client.worker.worker", "Worker"),
    ("conductor.client.worker.worker_interface", "WorkerInterface"),
    ("conductor.client.orkes_clients", "OrkesClients"),
    ("conductor.client.configuration.settings.authentication_settings", "AuthenticationSettings"),
    *(
        ("conductor.client.event.task_runner_events", event)
        for event in (
            "PollStarted",
            "PollCompleted",
            "PollFailure",
            "TaskExecutionStarted",
            "TaskExecutionFailure",
            "TaskUpdateFailure",
        )
    ),
]

MODELS = {
    "task": ("Task",),
    "task_result": ("TaskResult",),
    "task_result_status": ("TaskResultStatus",),
    "task_exec_log": ("TaskExecLog",),
    "task_def": ("TaskDef",),
    "task_summary": ("TaskSummary",),
    "workflow": ("Workflow",),
    "workflow_def": ("WorkflowDef",),
    "workflow_task": ("WorkflowTask",),
    "workflow_status": ("WorkflowStatus",),
    "workflow_summary": ("WorkflowSummary",),
    "start_workflow_request": ("StartWorkflowRequest",),
    "rerun_workflow_request": ("RerunWorkflowRequest",),
    "schema_def": ("SchemaDef", "SchemaType"),
    "poll_data": ("PollData",),
    "search_result": ("SearchResult",),
    "bulk_response": ("BulkResponse",),
}


@pytest.mark.parametrize(("module", "name"), PRINTED + WITHOUT_PATH)
def test_a_name_is_where_programs_import_it_from(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name).__name__ in (name, "SyncEventDispatcher")


@pytest.mark.parametrize(("path", "name"), BY_PATH)
def test_a_module_is_where_its_source_path_says(path: str, name: str) -> None:
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    assert (module.__file__ or "").endswith(path)
    assert getattr(module, name).__name__ == name


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in MODELS.items() for name in names])
def test_a_model_has_a_module_and_is_in_the_package(module: str, name: str) -> None:
    package = importlib.import_module("conductor.client.http.models")
    assert getattr(package, name) is getattr(importlib.import_module(f"{package.__name__}.{module}"), name)


def test_the_async_task_resource_polls_and_updates() -> None:
    api = importlib.import_module("conductor.client.http.api.async_task_resource_api").AsyncTaskResourceApi
    assert inspect.iscoroutinefunction(api.batch_poll)
    assert inspect.iscoroutinefunction(api.update_task)


@pytest.mark.parametrize("name", conductor.__all__)
def test_a_short_name_is_the_thing_itself(name: str) -> None:
    value = getattr(conductor, name)
    if name != "__version__":
        assert value is getattr(importlib.import_module(value.__module__), name)
    assert name in dir(conductor)


def test_the_short_names_a_worker_author_needs() -> None:
    from conductor import (  # noqa: F401
        Configuration,
        NonRetryableException,
        Task,
        TaskHandler,
        TaskHandlerAsyncIO,
        TaskInProgress,
        TaskResult,
        TaskResultStatus,
        Worker,
        get_task_context,
        worker_task,
    )


def test_an_unknown_short_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'conductor' has no attribute 'worker_tusk'"):
        conductor.worker_tusk  # noqa: B018


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = "import sys, conductor; print(sorted(name for name in sys.modules if name.startswith('conductor')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['conductor', 'conductor.common', 'conductor.common.lazy_names', 'conductor.version']"
