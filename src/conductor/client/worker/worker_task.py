"""The decorator that makes a worker of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from conductor.client.http.models.task_def import TaskDef
from conductor.client.worker import registry
from conductor.client.worker.worker import Worker, check_decorator_options
from conductor.client.worker.worker_interface import check_task_name

F = TypeVar("F", bound=Callable[..., Any])


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
    **more: Any,
) -> Callable[[F], F]:
    """Make a worker of a function, sync or async; a handler finds it by itself.

        @worker_task(task_definition_name="greet", thread_count=10)
        async def greet(name: str) -> dict:
            return {"greeting": f"Hello {name}"}

    The function stays what it was and can be called and tested as before. Its parameters are filled from the task's
    input by name and converted by their annotations; a parameter annotated `Task` receives the whole task.
    What is not given here comes from the environment or the defaults: see the reference of options.
    `poll_interval` is the older spelling of `poll_interval_millis`. `task_def` is the template used when the
    definition is registered. Further keywords are the other options of the reference; a wrong name is an error.
    """
    if not (task_definition_name and isinstance(task_definition_name, str)):
        raise TypeError(
            "worker_task needs the name of a task type, as in @worker_task(task_definition_name='greet'); "
            f"got {task_definition_name!r}"
        )
    check_task_name(task_definition_name, "worker_task")
    check_decorator_options(task_definition_name, more)

    def decorate(function: F) -> F:
        if not callable(function):
            raise TypeError(f"@worker_task({task_definition_name!r}) decorates a function, got {function!r}")
        if "<locals>" in getattr(function, "__qualname__", ""):
            # Annotations as text may name classes of the enclosing function, which only now can be looked up.
            from conductor.client.worker.signature import read_signature

            read_signature(function)
        registry.register(
            Worker(
                task_definition_name,
                function,
                poll_interval=poll_interval,
                poll_interval_millis=poll_interval_millis,
                thread_count=thread_count,
                domain=domain,
                worker_id=worker_id,
                poll_timeout=poll_timeout,
                lease_extend_enabled=lease_extend_enabled,
                register_task_def=register_task_def,
                overwrite_task_def=overwrite_task_def,
                strict_schema=strict_schema,
                register_schema=register_schema,
                task_def=task_def,
                **more,
            )
        )
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
