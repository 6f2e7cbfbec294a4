"""The effects of an operation, and the two functions that execute them.

The operations `step`, `wait` and `version` are generators of effects (`Call`, `Do`). `drive` executes the effects of an
`async def` on the event loop, and `drive_sync` those of a `def` on its thread. Both therefore share the code of the
operations.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

from conductor.client.context.task_context import TaskCancelled
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.parameters import is_coroutine_function
from conductor.durable.errors import DurableError, StepFailed
from conductor.durable.values import encode_error

#: Whether the caller is inside a step. A step inside another step is not recorded on its own.
_inside_step: ContextVar[bool] = ContextVar("conductor_inside_step", default=False)


class Options(NamedTuple):
    """The options of a step."""

    name: str | None = None
    retries: int = 0
    retry_delay_s: float = 1.0
    timeout_s: float | None = None


class Call(NamedTuple):
    """An effect: call a function of the user.

    `step` is the key of the step; empty outside a task, where the function may raise any exception.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    timeout_s: float | None
    step: str = ""


class Do(NamedTuple):
    """An effect: `drive` or `drive_sync` calls `work` and awaits the result on the workers' event loop."""

    work: Callable[[], Awaitable[Any]]


Effects: TypeAlias = Generator[Call | Do, Any, Any]
#: Calls a function with an argument on a thread, in the context of the caller, such as `asyncio.to_thread`.
CallOnThread: TypeAlias = Callable[[Callable[[Call], Any], Call], Awaitable[Any]]


def is_inside_step() -> bool:
    """Return whether the caller is inside a step."""
    return _inside_step.get()


def call_with_retries(call: Call, options: Options) -> Effects:
    """Call a function and return its value. After an exception, call it again as often as the options allow."""
    for left in range(options.retries, -1, -1):
        try:
            return (yield call)
        except (TaskCancelled, NonRetryableException):
            raise
        except Exception:
            if not left:
                raise
        yield Do(functools.partial(asyncio.sleep, options.retry_delay_s))


# -- on the event loop ------------------------------------------------------------------------------------------------


async def drive(effects: Effects, call_on_thread: CallOnThread = asyncio.to_thread) -> Any:
    """Execute the effects of an operation on the event loop, and return its result.

    A `def` of the user runs on a thread.
    """
    send: Callable[[Any], Call | Do] = effects.send
    value: Any = None
    while True:
        try:
            effect = send(value)
        except StopIteration as end:
            return end.value
        try:
            value = await (_call(effect, call_on_thread) if isinstance(effect, Call) else effect.work())
            send = effects.send
        except BaseException as error:
            value, send = error, effects.throw


async def _call(call: Call, call_on_thread: CallOnThread) -> Any:
    token = _inside_step.set(True)
    try:
        async with asyncio.timeout(call.timeout_s):
            if is_coroutine_function(call.function):
                return await _await_call(call, call.function(*call.args, **call.kwargs))
            value = await call_on_thread(_call_function, call)
            return await _await_call(call, value) if inspect.isawaitable(value) else value
    finally:
        _inside_step.reset(token)


async def _await_call(call: Call, awaitable: Awaitable[Any]) -> Any:
    task = asyncio.current_task()
    try:
        return await awaitable
    except Exception:
        raise
    except BaseException as error:
        if not call.step or _is_from_outside(error, task):
            raise
        raise _make_step_failed(call, error) from error


def _is_from_outside(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return whether an error was thrown into a coroutine, because its task is cancelled or the event loop ends."""
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        try:
            return asyncio.current_task() is not task
        except RuntimeError:  # no loop is running any more
            return True
    return False


# -- on the thread of a def -------------------------------------------------------------------------------------------


def drive_sync(effects: Effects, loop: asyncio.AbstractEventLoop | None) -> Any:
    """Execute the effects of an operation on the thread of a `def`, and return its result.

    Without a loop, only `Call` effects work.
    """
    send: Callable[[Any], Call | Do] = effects.send
    value: Any = None
    while True:
        try:
            effect = send(value)
        except StopIteration as end:
            return end.value
        try:
            if isinstance(effect, Call):
                value = _call_sync(effect)
            else:
                assert loop is not None  # noqa: S101
                value = asyncio.run_coroutine_threadsafe(_await(effect.work), loop).result()
            send = effects.send
        except BaseException as error:
            value, send = error, effects.throw


async def _await(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()


def _call_sync(call: Call) -> Any:
    if call.timeout_s is not None:
        raise DurableError("timeout_s needs an async def worker, because a thread cannot be interrupted")
    token = _inside_step.set(True)
    try:
        value = _call_function(call)
        return asyncio.run(_await_call(call, value)) if inspect.isawaitable(value) else value
    finally:
        _inside_step.reset(token)


def _call_function(call: Call) -> Any:
    try:
        return call.function(*call.args, **call.kwargs)
    except StopIteration as error:
        # A future cannot hold a StopIteration, so the task would wait forever. Raise a RuntimeError instead, as
        # coroutines do.
        raise RuntimeError("the function of a step raised StopIteration") from error
    except Exception:
        raise
    except BaseException as error:
        if not call.step:
            raise
        raise _make_step_failed(call, error) from error


def _make_step_failed(call: Call, error: BaseException) -> StepFailed:
    """Return a `StepFailed` for an error such as SystemExit, which would end the event loop of the worker."""
    described = encode_error(error)
    return StepFailed(call.step, described.type, described.message)
