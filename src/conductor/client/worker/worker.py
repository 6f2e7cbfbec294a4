"""A worker: a task type, what to call for it, and the options it was given in code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.background_event_loop import BackgroundEventLoop
from conductor.client.worker.worker_config import OPTIONS
from conductor.client.worker.worker_interface import WorkerInterface

__all__ = ["BackgroundEventLoop", "ExecuteTaskFunction", "Worker", "calls_coroutine", "given_options"]

#: What a worker calls.
ExecuteTaskFunction = Callable[..., Any]

#: The options that code may give to a worker, and those of them that the decorator takes.
CODE_OPTIONS = frozenset(name for name, row in OPTIONS.items() if "worker" in row.scopes)
DECORATOR_OPTIONS = frozenset(name for name, row in OPTIONS.items() if "decorator" in row.scopes)


class Worker(WorkerInterface):
    """Serves one task type by calling a function, or by its own `execute` if a subclass writes one.

        Worker("greet", greet, thread_count=10)
        TaskHandler(workers=[Worker("greet", greet)])

    Options are keywords with the names of the reference; what is not given comes from the environment or the
    defaults. `poll_interval` is the older spelling of `poll_interval_millis`, and `task_def_template` of `task_def`.
    """

    def __init__(
        self,
        task_definition_name: str | Sequence[str],
        execute_function: ExecuteTaskFunction | None = None,
        poll_interval: float | None = None,
        domain: str | None = None,
        worker_id: str | None = None,
        thread_count: int | None = None,
        register_task_def: bool | None = None,
        poll_timeout: int | None = None,
        lease_extend_enabled: bool | None = None,
        paused: bool | None = None,
        task_def_template: TaskDef | None = None,
        overwrite_task_def: bool | None = None,
        strict_schema: bool | None = None,
        register_schema: bool | None = None,
        *,
        poll_interval_millis: float | None = None,
        task_def: TaskDef | None = None,
        **options: Any,
    ) -> None:
        super().__init__(task_definition_name)
        if execute_function is not None and not callable(execute_function):
            raise TypeError(f"worker {task_definition_name!r} needs a function to call, got {execute_function!r}")
        self.execute_function = execute_function
        self.task_def = task_def if task_def is not None else task_def_template
        self.domain: str | None = None
        named = {
            "poll_interval_millis": poll_interval if poll_interval_millis is None else poll_interval_millis,
            "domain": domain,
            "worker_id": worker_id,
            "thread_count": thread_count,
            "register_task_def": register_task_def,
            "poll_timeout": poll_timeout,
            "lease_extend_enabled": lease_extend_enabled,
            "paused": paused,
            "overwrite_task_def": overwrite_task_def,
            "strict_schema": strict_schema,
            "register_schema": register_schema,
        }
        self._set_options({**named, **options})

    def _set_options(self, options: Mapping[str, Any]) -> None:
        for name, value in options.items():
            if name not in CODE_OPTIONS:
                raise TypeError(_no_such_option(self.task_definition_name, name, CODE_OPTIONS))
            if value is not None:
                setattr(self, name, value)
        if self.domain is not None:  # half of what a worker is known by
            OPTIONS["domain"].check(self.domain, f"worker {self.task_definition_name!r}, domain")

    @property
    def task_def_template(self) -> TaskDef | None:
        """`task_def` under its older name."""
        return self.task_def

    @task_def_template.setter
    def task_def_template(self, task_def: TaskDef | None) -> None:
        self.task_def = task_def

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the options

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
        values = [_own_attribute(worker, spelling) for spelling in OPTIONS[name].spellings]
        given[name] = next((value for value in values if value is not None), None)
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


def check_decorator_options(task_definition_name: str, names: Collection[str]) -> None:
    """TypeError for a keyword of the decorator that is none of its options."""
    for name in names:
        if name not in DECORATOR_OPTIONS:
            raise TypeError(_no_such_option(task_definition_name, name, DECORATOR_OPTIONS))


def _no_such_option(worker_name: str, name: str, allowed: Collection[str]) -> str:
    return f"worker '{worker_name}' has no option '{name}'; the options are {', '.join(sorted(allowed))}"
