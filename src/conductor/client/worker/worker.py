"""A worker: a task type, the function that serves it, and the options from code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, Unpack, get_type_hints

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.worker_config import OPTIONS, Option, ResolvedConfig, describe_unknown_option
from conductor.client.worker.worker_interface import WorkerInterface, undecorate

if TYPE_CHECKING:
    from conductor.client.worker.parameters import UserFunction
    from conductor.client.worker.resources import Resources

__all__ = [
    "BackgroundEventLoop",
    "ExecuteTaskFunction",
    "KeywordOptions",
    "Worker",
    "find_start_warnings",
    "get_code_options",
    "get_function",
    "make_call",
    "runs_coroutine",
    "takes_options",
]

P = ParamSpec("P")
R = TypeVar("R")

#: The function of a worker.
ExecuteTaskFunction = Callable[..., Any]

#: The options that code can set for a single worker.
CODE_OPTIONS = frozenset(name for name, row in OPTIONS.items() if row.per_worker)

#: The options that become the task definition.
TASK_DEF_OPTIONS = frozenset({"retries", "retry_delay_s", "backoff", "timeout_s", "task_def"})


class KeywordOptions(TypedDict, total=False):
    """The options that `worker_task` and `Worker` take by keyword only, for editors and type checkers."""

    idle_poll_timeout: int | None
    prefetch: int | None
    verify_reports: bool | None
    update_attempts: int | None
    update_retry_delay_seconds: float | None
    task_log_level: str | None
    log_tracebacks: bool | None
    poison_limit: int | None
    process_name: str | None


def takes_options(function: Callable[P, R]) -> Callable[P, R]:
    """Return a wrapper of a function with `**options` that rejects unknown options. Its signature lists each option."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for name, annotation in get_type_hints(KeywordOptions).items():
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    names = {parameter.name for parameter in parameters}

    @functools.wraps(function)
    def check_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in names:
                offered = (OPTIONS.keys() | TASK_DEF_OPTIONS) & names
                raise TypeError(f"a worker has {describe_unknown_option(name, offered)}")
        return function(*args, **kwargs)

    check_and_call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return check_and_call


class Worker(WorkerInterface):
    """Serves a task type with a function, or with its own `execute` in a subclass.

    Options that are not given come from the environment or have their defaults: see the reference of options.

    Args:
        task_definition_name: The task type, or a list of task types.
        execute_function: The function, sync or async.
        poll_interval: The older name of `poll_interval_millis`.
        domain: The task domain to poll.
        worker_id: The name of the worker in polls and reports.
        thread_count: The number of tasks that run at once.
        register_task_def: Register the task definition at start.
        poll_timeout: How long the server may hold a poll, in milliseconds.
        lease_extend_enabled: Send heartbeats while a task runs.
        paused: Do not poll.
        task_def_template: The older name of `task_def`.
        overwrite_task_def: Registering replaces the definition on the server.
        strict_schema: Reject input that does not match the annotations exactly.
        register_schema: Register the schemas of the annotations with the task definition.
        poll_interval_millis: The longest wait between two polls of an idle worker.
        task_def: The template for the task definition. It needs `register_task_def=True`.
        **options: Further options; see `KeywordOptions`.

    Example:
        TaskHandler(workers=[Worker("greet", greet, thread_count=10)])
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
        task_def: TaskDef | None = None,
        **options: Unpack[KeywordOptions],
    ) -> None:
        super().__init__(task_definition_name)
        if execute_function is not None and not callable(execute_function):
            raise TypeError(f"worker {task_definition_name!r} needs a function to call, got {execute_function!r}")
        self.execute_function = execute_function
        self.task_def = task_def if task_def is not None else task_def_template
        if isinstance(self.task_def, TaskDef):
            from conductor.client.worker.task_def_options import check_task_def

            check_task_def(f"worker {self.task_definition_name!r}", self.task_def)
        given = {
            **options,
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
        for name, value in given.items():
            if value is not None:
                setattr(self, name, value)
        if self.domain is not None:  # checked before the other options: task type and domain identify a worker
            OPTIONS["domain"].check(self.domain, f"worker {self.task_definition_name!r}, domain")

    @property
    def task_def_template(self) -> TaskDef | None:
        """The older name of `task_def`."""
        return self.task_def

    @task_def_template.setter
    def task_def_template(self, task_def: TaskDef | None) -> None:
        self.task_def = task_def

    def __repr__(self) -> str:
        function = self.execute_function
        what = getattr(function, "__qualname__", None) or ("execute" if function is None else repr(function))
        return f"Worker({self.task_definition_name!r}, {what})"

    def execute(self, task: Task) -> TaskResult:
        """Run a task in this process and return its result. A coroutine runs on the background event loop."""
        # Imported here and below on use, because a program that only declares workers does not need these modules.
        from conductor.client.context.task_context import TaskContext, task_context
        from conductor.client.worker.outcome import make_error_outcome, make_outcome

        context = TaskContext(task, self.get_identity())
        with task_context(context):
            try:
                value = make_call(self, strict=bool(self.strict_schema))(task)
                if inspect.isawaitable(value):
                    value = BackgroundEventLoop().run_coroutine(_wait_for(value))
            except Exception as error:
                return make_error_outcome(error, context).result
            return make_outcome(value, context).result


async def _wait_for(value: Awaitable[Any]) -> Any:
    return await value


def get_function(worker: WorkerInterface) -> UserFunction | None:
    """Return the function of a worker; None if its class defines `execute`."""
    function: UserFunction | None = undecorate(getattr(worker, "execute_function", None))
    return function


def make_call(
    worker: WorkerInterface, *, strict: bool = False, resources: Resources | None = None
) -> Callable[[Task], Any]:
    """Return a function that runs a task: it calls the worker's function with arguments, or its own `execute`.

    Args:
        worker: The worker.
        strict: Reject input that does not match the annotations exactly.
        resources: Provides injected parameters. Without it, they are created for each call.

    Raises:
        ValueError: The worker has neither a function nor its own `execute`.
    """
    function = get_function(worker)
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
        from conductor.client.worker.resources import inject_per_call

        function = inject_per_call(function) if resources is None else resources.inject(function)
    return signature.caller(function, strict=strict)


def get_code_options(worker: WorkerInterface) -> dict[str, Any]:
    """Return the options that code sets by attributes of the object or its class, or by overridden getters."""
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


def runs_coroutine(worker: WorkerInterface) -> bool:
    """Return whether the worker runs a coroutine function: `async def`, an async `__call__` or `execute`."""
    from conductor.client.worker.parameters import is_coroutine_function

    return is_coroutine_function(get_function(worker) or worker.execute)


def _own_attribute(worker: WorkerInterface, name: str) -> Any:
    if name in vars(worker):
        return vars(worker)[name]
    value = inspect.getattr_static(type(worker), name, None)
    return None if callable(value) or isinstance(value, property | Option) else value


def _overrides(worker: WorkerInterface, method: str) -> bool:
    return getattr(type(worker), method) is not getattr(WorkerInterface, method)


def find_start_warnings(worker: WorkerInterface, config: ResolvedConfig) -> Iterator[str]:
    """Yield warnings about settings without effect, for the log at the start of a worker."""
    name = worker.get_task_definition_name()
    if getattr(worker, "task_def", None) is not None and not config.register_task_def:
        yield (
            f"worker '{name}': its task_def is not registered, so it has no effect; "
            "set register_task_def=True, or leave the task_def out"
        )
    function = get_function(worker)
    if function is not None:
        from conductor.client.worker.signature import read_signature

        yield from (f"worker '{name}': {fault}" for fault in read_signature(function).faults)
