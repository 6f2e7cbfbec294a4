"""The decorators that make a worker of a function."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker import registry
from conductor.client.worker.worker import KeywordOptions, Worker, takes_options
from conductor.client.worker.worker_interface import PLAIN_FUNCTION, check_task_name

if TYPE_CHECKING:
    from conductor.client.worker.task_def_options import Backoff

F = TypeVar("F", bound=Callable[..., Any])


@takes_options
def worker_task(
    task_definition_name: str = "",
    poll_interval_millis: int | None = None,
    domain: str | None = None,
    worker_id: str | None = None,
    thread_count: int | None = None,
    register_task_def: bool | None = None,
    poll_timeout: int | None = None,
    lease_extend_enabled: bool | None = None,
    task_def: TaskDef | None = None,
    overwrite_task_def: bool | None = None,
    strict_schema: bool | None = None,
    register_schema: bool | None = None,
    *,
    poll_interval: int | None = None,
    retries: int | None = None,
    retry_delay_s: int | None = None,
    backoff: Backoff | None = None,
    timeout_s: int | None = None,
    **options: Unpack[KeywordOptions],
) -> Callable[[F], F]:
    """Make a worker of a function, sync or async. Handlers find it in the registry.

    The function can be called and tested as before. Inside a `with workflow:` block, with `task_ref_name=`, or with
    references as arguments, a call adds a step to a workflow instead. The parameters are filled from the task input by
    name and converted to their annotations. A parameter annotated with `Task` receives the whole task.

    Options that are not given come from the environment or have their defaults: see the reference of options.

    Args:
        task_definition_name: The task type.
        poll_interval_millis: The longest wait between two polls of an idle worker.
        domain: The task domain to poll.
        worker_id: The name of the worker in polls and reports.
        thread_count: The number of tasks that run at once.
        register_task_def: Register the task definition at start.
        poll_timeout: How long the server may hold a poll, in milliseconds.
        lease_extend_enabled: Send heartbeats while a task runs.
        task_def: The template for the task definition. It needs `register_task_def=True`.
        overwrite_task_def: Registering replaces the definition on the server.
        strict_schema: Reject input that does not match the annotations exactly.
        register_schema: Register the schemas of the annotations with the task definition.
        poll_interval: The older name of `poll_interval_millis`.
        retries: How often the server retries a failed task. The worker registers this and the next three arguments in
            the task definition at start, even without `register_task_def`.
        retry_delay_s: The delay before a retry, in seconds.
        backoff: How the delay grows: "fixed", "linear" or "exponential".
        timeout_s: The longest time of one attempt, in seconds. After it, the task is retried.
        **options: Further options; see `KeywordOptions`.

    Raises:
        TypeError: The function is a generator or a method.
        ValueError: A value of the task definition is not possible.

    Example:
        @worker_task(task_definition_name="greet", thread_count=10, retries=5, backoff="exponential")
        async def greet(name: str) -> dict:
            return {"greeting": f"Hello {name}"}
    """
    if not (task_definition_name and isinstance(task_definition_name, str)):
        raise TypeError(
            "worker_task needs the name of a task type, as in @worker_task(task_definition_name='greet'); "
            f"got {task_definition_name!r}"
        )
    check_task_name(task_definition_name, "worker_task")
    owner = f"worker {task_definition_name!r}"
    if any(value is not None for value in (retries, retry_delay_s, backoff, timeout_s)):
        from conductor.client.worker.task_def_options import make_task_def

        if task_def is not None:
            raise TypeError(f"{owner} takes either task_def, or retries, retry_delay_s, backoff and timeout_s")
        if register_task_def is False:
            raise TypeError(f"{owner} registers its retries and timeout: leave out register_task_def=False")
        task_def, register_task_def = make_task_def(owner, retries, retry_delay_s, backoff, timeout_s), True

    def decorate(function: F) -> F:
        if not callable(function):
            raise TypeError(f"@worker_task({task_definition_name!r}) decorates a function, got {function!r}")
        if "<locals>" in getattr(function, "__qualname__", ""):
            # Annotations may name local classes of the enclosing function. Such classes can only be found while that
            # function is running.
            from conductor.client.worker.signature import read_signature

            read_signature(function)
        from conductor.client.worker.function_checks import check_function

        check_function(task_definition_name, function)
        function = _make_callable_as_step(function, task_definition_name)
        worker = Worker(
            task_definition_name,
            function,
            poll_interval,
            domain,
            worker_id,
            thread_count,
            register_task_def,
            poll_timeout,
            lease_extend_enabled,
            overwrite_task_def=overwrite_task_def,
            strict_schema=strict_schema,
            register_schema=register_schema,
            poll_interval_millis=poll_interval_millis,
            task_def=task_def,
            **options,
        )
        registry.register(worker)
        return function

    return decorate


def WorkerTask(  # noqa: N802
    task_definition_name: str,
    poll_interval: int | None = None,
    domain: str | None = None,
    worker_id: str | None = None,
    poll_interval_seconds: int = 0,
    thread_count: int | None = None,
    register_task_def: bool | None = None,
    poll_timeout: int | None = None,
    lease_extend_enabled: bool | None = None,
    register_schema: bool | None = None,
) -> Callable[[F], F]:
    """Make a worker of a function: the older form of `worker_task`.

    Args:
        task_definition_name: The task type.
        poll_interval: The longest wait between two polls of an idle worker, in milliseconds.
        domain: The task domain to poll.
        worker_id: The name of the worker in polls and reports.
        poll_interval_seconds: Overrides `poll_interval` if it is not 0.
        thread_count: The number of tasks that run at once.
        register_task_def: Register the task definition at start.
        poll_timeout: How long the server may hold a poll, in milliseconds.
        lease_extend_enabled: Send heartbeats while a task runs.
        register_schema: Register the schemas of the annotations with the task definition.
    """
    return worker_task(
        task_definition_name,
        poll_interval_seconds * 1000 or poll_interval,
        domain,
        worker_id,
        thread_count,
        register_task_def,
        poll_timeout,
        lease_extend_enabled,
        register_schema=register_schema,
    )


def _make_callable_as_step(function: F, task_name: str) -> F:
    """Return a function whose calls may add steps to a workflow. Return callable objects and classes unchanged."""
    if not inspect.isfunction(function):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_step(args, kwargs):
            from conductor.client.workflow.worker_step import make_worker_step

            return make_worker_step(function, task_name, args, kwargs)
        return function(*args, **kwargs)

    setattr(call, PLAIN_FUNCTION, function)
    # Python 3.11 has no public way to mark a wrapper as a coroutine function.
    if sys.version_info >= (3, 12) and inspect.iscoroutinefunction(function):
        inspect.markcoroutinefunction(call)
    return call  # type: ignore[return-value]


def _is_step(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call of a decorated function adds a step to a workflow.

    The call does so with `task_ref_name=`, with a reference to an output or input of the workflow as an argument, or
    inside a `with workflow:` block. Inside a running task it is always an ordinary call.
    """
    if "task_ref_name" in kwargs:
        return True
    references = sys.modules.get("conductor.client.workflow.reference")
    if references is None:  # without this module, the program has built no workflow
        return False
    from conductor.client.context.task_context import current_context

    return bool(references.makes_step(args, kwargs)) and current_context() is None
