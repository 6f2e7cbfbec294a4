"""Names that the printed blocks need: every public name, the modules they use, and stand-ins for user code.

In a program it is read by `from preamble import *`, so that worker processes find the same names; in a test
`names()` gives them for `exec`. httpx is added where a block uses it: it takes long to import, and each process does.
Stand-ins note their calls in `CALLS`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from typing import Any, Union

from conductor.client.automator.async_task_runner import AsyncTaskRunner
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.automator.task_runner import TaskRunner
from conductor.client.automator.task_runner_asyncio import TaskRunnerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.context.task_context import TaskInProgress, get_task_context
from conductor.client.event.task_runner_events import (
    TaskExecutionCompleted,
    TaskRunnerEventsListener,
    TaskUpdateFailure,
)
from conductor.client.http.models import Task, TaskResult, TaskResultStatus
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.client.worker.worker_loader import WorkerLoader, auto_discover_workers, scan_for_workers
from conductor.client.worker.worker_task import worker_task

_PUBLIC = (
    AsyncTaskRunner, Configuration, MetricsSettings, NonRetryableException, Task, TaskExecutionCompleted, TaskHandler,
    TaskHandlerAsyncIO, TaskInProgress, TaskResult, TaskResultStatus, TaskRunner, TaskRunnerAsyncIO,
    TaskRunnerEventsListener, TaskUpdateFailure, Worker, WorkerInterface, WorkerLoader, auto_discover_workers,
    get_task_context, scan_for_workers, worker_task,
)  # fmt: skip
_MODULES = (asyncio, logging, os, sys, time)

logger = logging.getLogger("block")
config = Configuration()

#: Calls of the stand-ins: (name, arguments).
CALLS: list[tuple[str, Any]] = []


def _noted(name: str, value: Any) -> None:
    CALLS.append((name, value))


# -- computations -----------------------------------------------------------------------------------------------------


def expensive_computation(data: Any) -> int:
    return data * 2 if isinstance(data, int) else len(data)


def process_data(data: Any) -> dict[str, Any]:
    return {"processed": data}


def process_next_100_items(batch_id: str, offset: int) -> int:
    """The batch has 250 items: the second call gets the rest of them."""
    return max(0, min(100, 250 - offset))


def check_approval_system(request_id: str) -> str:
    return {"new": "PENDING", "good": "APPROVED"}.get(request_id, "DENIED")


def load_image(url: str) -> str:
    return f"image of {url}"


def apply_filters(image: str) -> str:
    return f"filtered {image}"


def run_ml_model(image: str) -> str:
    return f"a cat on {image}"


def blocking_database_call() -> list[int]:
    return [1, 2, 3]


def blocking_call() -> str:
    return "called"


async def actual_async_work(url: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"url": url}


async def do_processing(item: int) -> int:
    await asyncio.sleep(0)
    return item * 2


def should_stop() -> bool:
    return True


async def send_notification(message: str) -> None:
    await asyncio.sleep(0)
    _noted("send_notification", message)


class EventLogger:
    """A logger whose `log` is a coroutine."""

    async def log(self, event: str) -> None:
        await asyncio.sleep(0)
        _noted("log", event)


# -- databases and files ----------------------------------------------------------------------------------------------

query = "SELECT 1"


class _Connection:
    async def __aenter__(self) -> _Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def acquire(self) -> _Connection:
        return self

    async def fetch(self, statement: str) -> list[str]:
        return [statement]

    async def execute(self, statement: str) -> None:
        _noted("execute", statement)

    async def write(self, text: str) -> None:
        _noted("write", text)


class aiopg:  # noqa: N801
    """Stands in for the library, which no test needs."""

    @staticmethod
    def create_pool() -> _Connection:
        return _Connection()


class aiofiles:  # noqa: N801
    """Stands in for the library, which no test needs."""

    @staticmethod
    def open(path: str, mode: str) -> _Connection:
        return _Connection()


# -- listeners --------------------------------------------------------------------------------------------------------


def alert(text: str) -> None:
    _noted("alert", text)


def send_pagerduty_alert(text: str, **details: Any) -> None:
    _noted("send_pagerduty_alert", (text, details))


class backup_db:  # noqa: N801
    @staticmethod
    def save_task_result(**values: Any) -> None:
        _noted("save_task_result", values)


class custom_update_service:  # noqa: N801
    @staticmethod
    def update_task_with_custom_retry(result: TaskResult) -> None:
        _noted("update_task_with_custom_retry", result)
        raise RuntimeError("no luck either")


class PrometheusMetricsCollector(TaskRunnerEventsListener):
    def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
        _noted("PrometheusMetricsCollector", event.task_id)


class CustomAuditLogger(TaskRunnerEventsListener):
    def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
        _noted("CustomAuditLogger", event.task_id)


# -- class-based workers ----------------------------------------------------------------------------------------------


class _NamedWorker(Worker):
    """Says which class did the task."""

    def execute(self, task: Task) -> Any:
        return {"by": type(self).__name__}


class ImageProcessingWorker(_NamedWorker):
    pass


class MLInferenceWorker(_NamedWorker):
    pass


class APICallWorker(_NamedWorker):
    pass


class DatabaseWorker(_NamedWorker):
    pass


class EmailWorker(_NamedWorker):
    pass


worker1 = ImageProcessingWorker("first_task")
worker2 = APICallWorker("second_task")
workers = [worker1, worker2]

__all__ = [
    "CALLS", "APICallWorker", "CustomAuditLogger", "DatabaseWorker", "EmailWorker", "ImageProcessingWorker",
    "MLInferenceWorker", "PrometheusMetricsCollector", "Union", "actual_async_work", "aiofiles", "aiopg", "alert",
    "apply_filters", "backup_db", "blocking_call", "blocking_database_call", "check_approval_system", "config",
    "custom_update_service", "do_processing", "expensive_computation", "load_image", "logger", "process_data",
    "process_next_100_items", "query", "run_ml_model", "send_notification", "send_pagerduty_alert", "should_stop",
    "worker1", "worker2", "workers", *(name.__name__ for name in (*_PUBLIC, *_MODULES)),
]  # fmt: skip


def names(server_url: str, **stand_ins: Any) -> dict[str, Any]:
    """Return the names of a block that runs inside a test: all of the above for this server, and those of the test."""
    import httpx

    here = globals()
    return {name: here[name] for name in __all__} | {"config": Configuration(server_url), "httpx": httpx} | stand_ins
