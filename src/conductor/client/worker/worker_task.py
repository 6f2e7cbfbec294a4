"""The decorator that makes a worker of a function."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker import registry
from conductor.client.worker.worker import Worker, takes_options
from conductor.client.worker.worker_interface import PLAIN_FUNCTION, check_task_name

F = TypeVar("F", bound=Callable[..., Any])


@takes_options
def worker_task(
    task_definition_name: str,
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
    idle_poll_timeout: int | None = None,
    prefetch: int | None = None,
    verify_reports: bool | None = None,
    update_attempts: int | None = None,
    update_retry_delay_seconds: float | None = None,
    task_log_level: str | None = None,
    log_tracebacks: bool | None = None,
    poison_limit: int | None = None,
    process_name: str | None = None,
) -> Callable[[F], F]:
    """Make a worker of a function, sync or async; a handler finds it by itself.

        @worker_task(task_definition_name="greet", thread_count=10)
        async def greet(name: str) -> dict:
            return {"greeting": f"Hello {name}"}

    The function can be called and tested as before; called with `task_ref_name=`, with references, or inside of a
    `with workflow:` block, it is a step of a workflow instead. Its parameters are filled from the task's
    input by name and converted by their annotations; a parameter annotated `Task` receives the whole task.
    What is not given here comes from the environment or the defaults: see the reference of options.
    `poll_interval` is the older spelling of `poll_interval_millis`. `task_def` is the template used when the
    definition is registered, which needs `register_task_def=True`.
    """
    options = dict(locals())
    del options["task_definition_name"]
    if not (task_definition_name and isinstance(task_definition_name, str)):
        raise TypeError(
            "worker_task needs the name of a task type, as in @worker_task(task_definition_name='greet'); "
            f"got {task_definition_name!r}"
        )
    check_task_name(task_definition_name, "worker_task")

    def decorate(function: F) -> F:
        if not callable(function):
            raise TypeError(f"@worker_task({task_definition_name!r}) decorates a function, got {function!r}")
        if "<locals>" in getattr(function, "__qualname__", ""):
            # Annotations as text may name classes of the enclosing function, which only now can be looked up.
            from conductor.client.worker.signature import read_signature

            read_signature(function)
        function = _callable_as_step(function, task_definition_name)
        registry.register(Worker(task_definition_name, function, **options))
        return function

    return decorate


def WorkerTask(  # noqa: N802  # the name that older programs know
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
    """`worker_task` under its first name and with its first arguments; `poll_interval_seconds` wins when it is set."""
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


def _callable_as_step(function: F, task_name: str) -> F:
    """The same function; a call of it may be a step. What is no function (an object, a class) stays as it is."""
    if not inspect.isfunction(function):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_step(args, kwargs):
            from conductor.client.workflow.called_step import step_of_call

            return step_of_call(function, task_name, args, kwargs)
        return function(*args, **kwargs)

    setattr(call, PLAIN_FUNCTION, function)
    if inspect.iscoroutinefunction(function):
        _mark_coroutine_function(call)
    return call  # type: ignore[return-value]


def _is_step(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of a decorated function is a step of a workflow.

    It is when it says so (`task_ref_name=`), when one of its arguments is known only when a workflow runs (the output
    of a step, an input of the workflow), or inside of a `with workflow:` block. It is a plain call otherwise, and
    always inside of a running task.
    """
    if "task_ref_name" in kwargs:
        return True
    references = sys.modules.get("conductor.client.workflow.reference")
    if references is None:  # nobody builds a workflow here
        return False
    return bool(references.makes_step(args, kwargs)) and not _in_running_task()


def _in_running_task() -> bool:
    from conductor.client.context.task_context import current_context

    return current_context() is not None


def _mark_coroutine_function(call: Any) -> None:
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(call)
    else:
        call._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
