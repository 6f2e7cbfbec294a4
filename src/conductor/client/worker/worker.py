"""A worker: a task type, what to call for it, and the options it was given in code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.worker_config import OPTIONS, Option, ResolvedConfig, no_such_option
from conductor.client.worker.worker_interface import WorkerInterface, plain_function

if TYPE_CHECKING:
    from conductor.client.worker.resources import Resources

__all__ = [
    "BackgroundEventLoop",
    "ExecuteTaskFunction",
    "Worker",
    "call_of",
    "calls_coroutine",
    "function_of",
    "given_options",
    "start_warnings",
    "takes_options",
]

P = ParamSpec("P")
R = TypeVar("R")

#: What a worker calls.
ExecuteTaskFunction = Callable[..., Any]

#: The options that code may give to a worker.
CODE_OPTIONS = frozenset(name for name, row in OPTIONS.items() if row.per_worker)


def takes_options(function: Callable[P, R]) -> Callable[P, R]:
    """Python names a keyword that a function does not have; this adds the option that was meant."""
    taken = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in taken:
                raise TypeError(f"a worker has {no_such_option(name, OPTIONS.keys() & taken.keys())}")
        return function(*args, **kwargs)

    return checked


class Worker(WorkerInterface):
    """Serves one task type by calling a function, or by its own `execute` if a subclass writes one.

        Worker("greet", greet, thread_count=10)
        TaskHandler(workers=[Worker("greet", greet)])

    Options are keywords with the names of the reference; what is not given comes from the environment or the
    defaults. `poll_interval` is the older spelling of `poll_interval_millis`, and `task_def_template` of `task_def`.
    """

    @takes_options
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
        idle_poll_timeout: int | None = None,
        prefetch: int | None = None,
        verify_reports: bool | None = None,
        update_attempts: int | None = None,
        update_retry_delay_seconds: float | None = None,
        task_log_level: str | None = None,
        log_tracebacks: bool | None = None,
        poison_limit: int | None = None,
        process_name: str | None = None,
        task_def: TaskDef | None = None,
    ) -> None:
        options = {name: value for name, value in locals().items() if name in CODE_OPTIONS}
        super().__init__(task_definition_name)
        if execute_function is not None and not callable(execute_function):
            raise TypeError(f"worker {task_definition_name!r} needs a function to call, got {execute_function!r}")
        self.execute_function = execute_function
        self.task_def = task_def if task_def is not None else task_def_template
        if poll_interval_millis is None:
            options["poll_interval_millis"] = poll_interval
        self._set_options(options)

    def _set_options(self, options: Mapping[str, Any]) -> None:
        for name, value in options.items():
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

    def __repr__(self) -> str:
        function = self.execute_function
        what = getattr(function, "__qualname__", None) or ("execute" if function is None else repr(function))
        return f"Worker({self.task_definition_name!r}, {what})"

    def execute(self, task: Task) -> TaskResult:
        """Run one task here and now; return its result, whatever the function did. Coroutines run in the background."""
        # Here and below, imported where it is needed: describing a worker loads nothing that only running one takes.
        from conductor.client.context.task_context import TaskContext, task_context
        from conductor.client.worker.outcome import outcome_of_error, outcome_of_value

        context = TaskContext(task, self.get_identity())
        with task_context(context):
            try:
                value = call_of(self, strict=bool(self.strict_schema))(task)
                if inspect.isawaitable(value):
                    value = BackgroundEventLoop().run_coroutine(_wait_for(value))
            except Exception as error:
                return outcome_of_error(error, context).result
            return outcome_of_value(value, context).result


async def _wait_for(value: Awaitable[Any]) -> Any:
    return await value


def function_of(worker: WorkerInterface) -> Callable[..., Any] | None:
    """The function that a worker calls; None if it has an `execute` of its own."""
    function: Callable[..., Any] | None = plain_function(getattr(worker, "execute_function", None))
    return function


def call_of(
    worker: WorkerInterface, *, strict: bool = False, resources: Resources | None = None
) -> Callable[[Task], Any]:
    """What to call with a task: the worker's function with its parameters filled in, or its own `execute`.

    Parameters that are no input come from `resources`; without those they are made for each call.
    """
    function = function_of(worker)
    if function is None:
        if type(worker).execute is Worker.execute:
            name = worker.get_task_definition_name()
            raise ValueError(
                f"worker '{name}' has nothing to run: give it a function, Worker('{name}', function), "
                "or write execute(task) in a subclass"
            )
        return worker.execute
    from conductor.client.worker.signature import read_signature

    signature = read_signature(function)
    if signature.injected:
        from conductor.client.worker.resources import given_once

        function = given_once(function) if resources is None else resources.given(function)
    return signature.caller(function, strict=strict)


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
    from conductor.client.worker.parameters import is_coroutine_function

    return is_coroutine_function(function_of(worker) or worker.execute)


def _own_attribute(worker: WorkerInterface, name: str) -> Any:
    if name in vars(worker):
        return vars(worker)[name]
    value = inspect.getattr_static(type(worker), name, None)
    return None if callable(value) or isinstance(value, property | Option) else value


def _overrides(worker: WorkerInterface, method: str) -> bool:
    return getattr(type(worker), method) is not getattr(WorkerInterface, method)


def start_warnings(worker: WorkerInterface, config: ResolvedConfig) -> Iterator[str]:
    """What to tell people when a worker starts: what they wrote that will have no effect."""
    name = worker.get_task_definition_name()
    if getattr(worker, "task_def", None) is not None and not config.register_task_def:
        yield (
            f"worker '{name}': its task_def is not registered, so it has no effect; "
            "set register_task_def=True, or leave the task_def out"
        )
    function = function_of(worker)
    if function is not None:
        from conductor.client.worker.signature import read_signature  # a program that only decorates does not need it

        yield from (f"worker '{name}': {fault}" for fault in read_signature(function).faults)
