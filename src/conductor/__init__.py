"""Run Python functions as Conductor workers.

    from conductor import Configuration, TaskHandler, worker_task

    @worker_task(task_definition_name="greet")
    def greet(name: str) -> dict:
        return {"greeting": f"Hello {name}"}

    with TaskHandler(configuration=Configuration()) as handler:
        handler.start_processes()
        handler.join_processes()

Each public name is imported from its own module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names
from conductor.version import __version__ as __version__

if TYPE_CHECKING:
    from conductor.client.automator.task_handler import TaskHandler as TaskHandler
    from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO as TaskHandlerAsyncIO
    from conductor.client.configuration.configuration import Configuration as Configuration
    from conductor.client.configuration.settings.authentication_settings import (
        AuthenticationSettings as AuthenticationSettings,
    )
    from conductor.client.configuration.settings.metrics_settings import MetricsSettings as MetricsSettings
    from conductor.client.context.task_context import TaskContext as TaskContext
    from conductor.client.context.task_context import TaskInProgress as TaskInProgress
    from conductor.client.context.task_context import get_task_context as get_task_context
    from conductor.client.event.task_runner_events import TaskRunnerEventsListener as TaskRunnerEventsListener
    from conductor.client.http.async_rest import ApiException as ApiException
    from conductor.client.http.async_rest import ConductorError as ConductorError
    from conductor.client.http.models.task import Task as Task
    from conductor.client.http.models.task_def import TaskDef as TaskDef
    from conductor.client.http.models.task_result import TaskResult as TaskResult
    from conductor.client.http.models.task_result_status import TaskResultStatus as TaskResultStatus
    from conductor.client.orkes_clients import OrkesClients as OrkesClients
    from conductor.client.worker.dependencies import DependencyError as DependencyError
    from conductor.client.worker.dependencies import Depends as Depends
    from conductor.client.worker.dependencies import override_dependency as override_dependency
    from conductor.client.worker.exception import NonRetryableException as NonRetryableException
    from conductor.client.worker.exception import TaskCancelled as TaskCancelled
    from conductor.client.worker.lifespan import worker_lifespan as worker_lifespan
    from conductor.client.worker.resources import StartError as StartError
    from conductor.client.worker.worker import Worker as Worker
    from conductor.client.worker.worker_interface import WorkerInterface as WorkerInterface
    from conductor.client.worker.worker_loader import WorkerLoader as WorkerLoader
    from conductor.client.worker.worker_loader import auto_discover_workers as auto_discover_workers
    from conductor.client.worker.worker_loader import scan_for_workers as scan_for_workers
    from conductor.client.worker.worker_task import worker_task as worker_task

#: Exported name → the module under `conductor.client` that defines it.
_HOMES = {
    "ApiException": "http.async_rest",
    "AuthenticationSettings": "configuration.settings.authentication_settings",
    "ConductorError": "http.async_rest",
    "Configuration": "configuration.configuration",
    "DependencyError": "worker.dependencies",
    "Depends": "worker.dependencies",
    "MetricsSettings": "configuration.settings.metrics_settings",
    "NonRetryableException": "worker.exception",
    "OrkesClients": "orkes_clients",
    "StartError": "worker.resources",
    "Task": "http.models.task",
    "TaskCancelled": "worker.exception",
    "TaskContext": "context.task_context",
    "TaskDef": "http.models.task_def",
    "TaskHandler": "automator.task_handler",
    "TaskHandlerAsyncIO": "automator.task_handler_asyncio",
    "TaskInProgress": "context.task_context",
    "TaskResult": "http.models.task_result",
    "TaskResultStatus": "http.models.task_result_status",
    "TaskRunnerEventsListener": "event.task_runner_events",
    "Worker": "worker.worker",
    "WorkerInterface": "worker.worker_interface",
    "WorkerLoader": "worker.worker_loader",
    "auto_discover_workers": "worker.worker_loader",
    "get_task_context": "context.task_context",
    "override_dependency": "worker.dependencies",
    "scan_for_workers": "worker.worker_loader",
    "worker_lifespan": "worker.lifespan",
    "worker_task": "worker.worker_task",
}
__all__ = ["__version__", *_HOMES]
__getattr__, __dir__ = define_lazy_names(
    __name__, {"__version__": "version"} | {name: f"client.{home}" for name, home in _HOMES.items()}
)
