"""Durable steps: workflow logic in Python, inside an ordinary task.

    from conductor import durable, worker_task

    @worker_task("onboard")
    async def onboard(customer: str) -> dict:
        account = await durable.step(create_account, customer)
        await durable.sleep(days=1)
        await durable.call("remind_customer", {"account": account})
        answer = await durable.wait_for("approval", timeout_s=3600)
        return {"account": account, "approved": answer is not None}

A completed step is recorded before the next line of the function runs. If the process dies, the next attempt replays
the function: recorded steps return their results without calling their functions. A wait returns the task to the
server, so a waiting task holds no slot, no thread and no lease.

In an `async def`, await every function of this module. In a `def`, call them without `await`; `conductor.durable.sync`
has the same functions with the types for a `def`. Outside a task, `step` calls its function, and waits return at once.

The modules in reading order:

- `sync`: the same functions, typed for a `def`.
- `run`: one attempt of a task. It decides which steps run or replay, and when the task is suspended.
- `replay_order`: the order in which a replay returns recorded steps. `effects`: executes operations, for both kinds of
  functions.
- `fingerprint`: a text that identifies a call, equal in every process. `values`: results and exceptions as JSON.
- `errors`: the errors of steps.
"""

from __future__ import annotations

import asyncio
import importlib
import random as _random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from conductor.durable.effects import Call, Effects, Options, drive, drive_sync, is_inside_step
from conductor.durable.errors import (
    CallFailed,
    DurableError,
    ReplayMismatch,
    StepFailed,
    StepTooLarge,
)
from conductor.durable.fingerprint import digest
from conductor.durable.run import current_run, make_wait_ms
from conductor.durable.values import encode_result
from conductor.protocol.steps import MAX_STEP_BYTES, Step, StepKind, StepState

if TYPE_CHECKING:
    from conductor.durable.run import DurableRun

__all__ = [
    "CallFailed",
    "DurableError",
    "ReplayMismatch",
    "StepFailed",
    "StepTooLarge",
    "call",
    "now",
    "random",
    "sleep",
    "step",
    "version",
    "wait_for",
]

T = TypeVar("T")


@overload
def step(
    function: Callable[..., Awaitable[T]],
    *args: Any,
    name: str | None = None,
    retries: int = 0,
    retry_delay_s: float = 1.0,
    timeout_s: float | None = None,
    **kwargs: Any,
) -> Coroutine[Any, Any, T]: ...


@overload
def step(
    function: Callable[..., T],
    *args: Any,
    name: str | None = None,
    retries: int = 0,
    retry_delay_s: float = 1.0,
    timeout_s: float | None = None,
    **kwargs: Any,
) -> Coroutine[Any, Any, T]: ...


def step(
    function: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    retries: int = 0,
    retry_delay_s: float = 1.0,
    timeout_s: float | None = None,
    **kwargs: Any,
) -> Any:
    """Call a function once, record its result, and return the recorded result on replay.

    The result is stored as JSON and converted back to the type of the return annotation. An exception is recorded only
    if the caller catches it and continues. A step that runs inside another step is not recorded on its own. If the
    caller is an `async def`, a `def` runs on a thread.

    Args:
        function: The function, sync or async.
        args: Its arguments.
        name: The name of the step; by default the name of the function. Parallel steps need different names.
        retries: How often the function is called again after an exception.
        retry_delay_s: The seconds between two calls.
        timeout_s: The longest duration of one call. Only an `async def` worker may set it.
        kwargs: The keyword arguments of the function.

    Raises:
        ReplayMismatch: The recorded step of this name has another function or other arguments.
        StepTooLarge: The result exceeds a limit.
        DurableError: A step with this name is running.
    """
    if retries < 0 or retry_delay_s < 0:
        raise ValueError(f"retries and retry_delay_s must not be negative, got {retries} and {retry_delay_s}")
    if not callable(function):
        raise _make_call_error(function)
    options = Options(name, retries, retry_delay_s, timeout_s)
    run = current_run()
    label = name or getattr(function, "__name__", "...")
    if run is None:
        return _perform(None, _call_only(Call(function, args, kwargs, timeout_s)), f"step({label})")
    return _perform(run, run.step(function, args, kwargs, options), f"step({label})")


def sleep(
    seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0, name: str = "sleep"
) -> Coroutine[Any, Any, None]:
    """Wait for a time. The end of the wait is recorded at its start, so a restart does not lengthen the wait.

    Args:
        seconds: The time to wait.
        minutes: Minutes, added to the seconds.
        hours: Hours, added to the seconds.
        days: Days, added to the seconds.
        name: The name of the step. Parallel waits need different names.
    """
    try:
        total_s = seconds + 60 * minutes + 3600 * hours + 86400 * days
    except TypeError:
        given: list[Any] = [seconds, minutes, hours, days]
        wrong = next(value for value in given if not isinstance(value, int | float))
        raise DurableError(f"sleep takes numbers, as in sleep(hours=1); got {wrong!r}") from None
    wait_ms = make_wait_ms(total_s, "a sleep")
    return _wait(Step(name=name, kind=StepKind.SLEEP, state=StepState.WAITING, wait_ms=wait_ms))


def wait_for(name: str, *, timeout_s: float | None = None) -> Coroutine[Any, Any, dict[str, Any] | None]:
    """Wait until the workflow receives a message whose field `name` has this value, and return the message.

    Args:
        name: The name of the message.
        timeout_s: The longest wait; None for no limit.

    Returns:
        The message; None after the timeout.
    """
    wait_ms = None if timeout_s is None else make_wait_ms(timeout_s, "timeout_s")
    return _wait(Step(name=name, kind=StepKind.MESSAGE, state=StepState.WAITING, wait_ms=wait_ms))


def call(
    workflow: str,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the name that Conductor uses
    *,
    version: int | None = None,
    name: str | None = None,
) -> Coroutine[Any, Any, dict[str, Any]]:
    """Start another workflow exactly once, wait for its end, and return its output.

    If the workflow of this task ends first, the coordinator terminates the other workflow.

    Args:
        workflow: The name of the workflow.
        input: Its input.
        version: Its version; None for the latest one.
        name: The name of the step; by default the name of the workflow. Parallel calls need different names.

    Raises:
        CallFailed: The workflow did not complete. The message has its name and the reason of its innermost failure.
        TypeError: `workflow` is not a name.
    """
    if not isinstance(workflow, str):
        raise TypeError(f"call takes the name of a workflow, not a {type(workflow).__name__}; pass its `name`")
    encoded = encode_result(dict(input or {}), name or workflow)
    if len(encoded) > MAX_STEP_BYTES:
        raise StepTooLarge(
            f"the input of workflow {workflow} has {len(encoded)} bytes; the limit is {MAX_STEP_BYTES} per step"
        )
    return _wait(
        Step(
            name=name or workflow,
            kind=StepKind.WORKFLOW,
            state=StepState.WAITING,
            fingerprint=f"{workflow}:{digest(msgspec.json.decode(encoded))}",
            result=msgspec.Raw(encoded),
            version=version,
            workflow_name=workflow if name else None,
        )
    )


def now(*, name: str = "now") -> Coroutine[Any, Any, datetime]:
    """Return the current time in UTC. A replay returns the same time."""
    return _builtin(_read_now, name)


def random(*, name: str = "random") -> Coroutine[Any, Any, float]:
    """Return a random number from 0 to 1. A replay returns the same number."""
    return _builtin(_draw, name)


def version(change: str) -> Coroutine[Any, Any, bool]:
    """Return whether the task reached this line after the program was changed.

    A task that passed this line before the change gets False on every replay. So the function can keep its old code for
    such tasks:

        if await durable.version("send-invoice-by-mail"):
            await durable.step(mail_invoice, order)
        else:
            await durable.step(print_invoice, order)

    Args:
        change: The name of the change.
    """
    run = current_run()
    if run is None:
        return _perform(None, _return(True), f"version({change})")
    return _perform(run, run.version(change), f"version({change})")


def _read_now() -> datetime:
    return datetime.now(UTC)


def _draw() -> float:
    return _random.random()


def _builtin(function: Callable[[], T], name: str) -> Coroutine[Any, Any, T]:
    run = current_run()
    if run is None:
        return _perform(None, _call_only(Call(function, (), {}, None)), f"{name}()")
    return _perform(run, run.step(function, (), {}, Options(name), ""), f"{name}()")


def _wait(step: Step) -> Coroutine[Any, Any, Any]:
    run = current_run()
    if run is None:
        if is_inside_step():
            raise DurableError(
                f"{step.kind.lower()} {step.name} is inside a step; a program can only wait between steps"
            )
        return _perform(None, _return(None if step.kind is not StepKind.WORKFLOW else {}), _label(step))
    return _perform(run, run.wait(step), _label(step))


def _label(step: Step) -> str:
    function = {StepKind.SLEEP: "sleep", StepKind.MESSAGE: "wait_for", StepKind.WORKFLOW: "call"}.get(step.kind, "step")
    return f"{function}({step.name})"


def _make_call_error(value: Any) -> DurableError:
    """Return the error for `step(create(customer))`, which passes a result in place of a function."""
    name = "function"
    if asyncio.iscoroutine(value):
        name = getattr(value, "__name__", name)
        value.close()
    return DurableError(
        f"step takes a function and its arguments, as in step({name}, ...), and not the result of a call: got {value!r}"
    )


def _call_only(call: Call) -> Effects:
    return (yield call)


def _return(value: object) -> Effects:
    yield from ()
    return value


def _perform(run: DurableRun | None, effects: Effects, label: str) -> Coroutine[Any, Any, Any]:
    """Execute an operation: return an awaitable on an event loop, and the result itself on another thread.

    Python names the coroutine if it is never awaited, so it gets the operation as its name.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        result: Coroutine[Any, Any, Any] = drive_sync(effects, None if run is None else run.loop)
        return result
    if run is not None and running is not run.loop:
        effects.close()
        raise DurableError(
            f"durable.{label} was called on another event loop; call it on the event loop of the worker, or on the "
            "thread of a def worker"
        )
    if run is not None:
        run.note_call(effects, label)
    operation: Any = drive(effects) if run is None else run.perform(effects)
    operation.__qualname__ = f"durable.{label}"
    awaitable: Coroutine[Any, Any, Any] = operation
    return awaitable


def __getattr__(name: str) -> Any:
    # `sync` imports this package, so it is imported on first use.
    if name == "sync":
        return importlib.import_module("conductor.durable.sync")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
