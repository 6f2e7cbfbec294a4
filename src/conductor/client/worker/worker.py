"""A worker: a task type, what to call for it, and the options it was given in code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.background_event_loop import BackgroundEventLoop
from conductor.client.worker.worker_config import OPTIONS
from conductor.client.worker.worker_interface import WorkerInterface

__all__ = ["BackgroundEventLoop", "Worker", "calls_coroutine", "given_options"]

#: The options that code may give to a worker.
CODE_OPTIONS = frozenset(name for name, row in OPTIONS.items() if "decorator" in row.scopes)


class Worker(WorkerInterface):
    """Serves one task type by calling a function, or by its own `execute` if a subclass writes one.

        Worker("greet", greet, thread_count=10)
        TaskHandler(workers=[Worker("greet", greet)])

    Options are keywords with the names of the reference; what is not given comes from the environment or the
    defaults. `poll_interval` is the older spelling of `poll_interval_millis`.
    """

    def __init__(
        self,
        task_definition_name: str,
        execute_function: Callable[..., Any] | None = None,
        *,
        task_def: TaskDef | None = None,
        poll_interval: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(task_definition_name)
        self.execute_function = execute_function
        self.task_def = task_def
        self.domain: str | None = None
        if poll_interval is not None and options.get("poll_interval_millis") is None:
            options["poll_interval_millis"] = poll_interval
        for name, value in options.items():
            if name not in CODE_OPTIONS:
                allowed = ", ".join(sorted(CODE_OPTIONS))
                raise TypeError(f"worker '{task_definition_name}' has no option '{name}'; the options are {allowed}")
            if value is not None:
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Reached only for what was not given: an option reads as its default.
        if name in OPTIONS and OPTIONS[name].per_worker:
            return OPTIONS[name].default
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        function = self.execute_function
        what = getattr(function, "__qualname__", None) or ("execute" if function is None else repr(function))
        return f"Worker({self.task_definition_name!r}, {what})"

    def execute(self, task: Task) -> TaskResult:
        """Run one task here and now; return its result, whatever the function did. Coroutines run in the background."""
        from conductor.client.worker.outcome import execute_directly

        return execute_directly(self, task)


def given_options(worker: WorkerInterface) -> dict[str, Any]:
    """The options that the worker's code gives: attributes of the object or its class, and overridden getters."""
    given: dict[str, Any] = {}
    for name in CODE_OPTIONS:
        value = _own_attribute(worker, name)
        if value is not None:
            given[name] = value
    if _overrides(worker, "get_domain"):
        given["domain"] = worker.get_domain()
    if _overrides(worker, "get_polling_interval_in_seconds"):
        given["poll_interval_millis"] = round(worker.get_polling_interval_in_seconds() * 1000)
    if _overrides(worker, "get_identity"):
        given["worker_id"] = worker.get_identity()
    return {name: value for name, value in given.items() if value is not None}


def calls_coroutine(worker: WorkerInterface) -> bool:
    """Whether the worker's work is a coroutine function: `async def`, an async `__call__`, or an async `execute`."""
    target = getattr(worker, "execute_function", None) or worker.execute
    while hasattr(target, "func") and not inspect.isfunction(target):  # functools.partial
        target = target.func
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


def _own_attribute(worker: WorkerInterface, name: str) -> Any:
    if name in vars(worker):
        return vars(worker)[name]
    value = inspect.getattr_static(type(worker), name, None)
    return None if callable(value) or isinstance(value, property) else value


def _overrides(worker: WorkerInterface, method: str) -> bool:
    return getattr(type(worker), method) is not getattr(WorkerInterface, method)
