"""Checks that a function with durable steps can be replayed, and kills workers between two steps.

def test_onboard_replays():
    check_replay(onboard, "Ada", messages={"approval": [{"by": "Grace"}]})
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from conductor.client.context.task_context import CURRENT_CONTEXT, TaskContext
from conductor.client.http.models.task import Task
from conductor.client.worker.output import encode_value
from conductor.client.worker.parameters import is_coroutine_function, unwrap
from conductor.durable import run as durable_run
from conductor.durable.errors import ReplayMismatch
from conductor.durable.run import DurableRun
from conductor.protocol.steps import CANCELLED_PREFIX, Step, StepKey, StepKind, StepState

#: A function that is suspended more often than this probably waits for an event that never happens.
MAX_ATTEMPTS = 10_000


class MemorySteps:
    """Keeps steps in memory, and ends waits: sleeps at once, messages and workflows with the given values.

    Args:
        messages: The messages that arrive, by name. A wait for another message ends with None.
        calls: The outputs of called workflows, by name. Other workflows return an empty output.
    """

    def __init__(
        self,
        messages: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        calls: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._messages = {name: list(sent) for name, sent in (messages or {}).items()}
        self._calls = dict(calls or {})
        self.steps: dict[StepKey, Step] = {}
        #: Numbers instead of times, so that the order of the ends is exact.
        self._ends = itertools.count(1)

    def check_held(self) -> None:
        """Do nothing, because a replay has no lease to lose."""

    def refuse(self, _step: Step) -> str | None:
        """Return None, because every kind of step can wait."""
        return None

    async def load(self) -> list[Step]:
        """Return the steps. All waits have ended, except those that the program has cancelled."""
        for step in self.steps.values():
            is_cancelled = (CANCELLED_PREFIX + step.name, step.number) in self.steps
            if step.state is StepState.WAITING and not is_cancelled:
                self._end_wait(step)
        return [msgspec.structs.replace(step) for step in self.steps.values()]

    def _end_wait(self, step: Step) -> None:
        step.state, step.ended_at, value = StepState.DONE, next(self._ends), None
        if step.kind is StepKind.MESSAGE and self._messages.get(step.name):
            value = self._messages[step.name].pop(0)
        elif step.kind is StepKind.WORKFLOW:
            value = self._calls.get(step.workflow_name or step.name, {})
        step.result = msgspec.Raw(encode_value(value, step.key))

    async def record(self, steps: list[Step]) -> None:
        """Record steps."""
        await asyncio.sleep(0)  # a real store also answers in a later iteration of the event loop
        for step in steps:
            step.ended_at = None if step.state is StepState.WAITING else next(self._ends)
            self.steps.setdefault((step.name, step.number), step)

    async def suspend(self, steps: list[Step]) -> tuple[list[Step], int]:
        """Record the waits of a suspended function, so that the report has no steps.

        Return an empty list, and a delay of 0 seconds.
        """
        await self.record(steps)
        return [], 0

    def forget(self, keys: list[StepKey]) -> None:
        """Forget failed steps."""
        for key in keys:
            self.steps.pop(key, None)

    def remove(self) -> None:
        """Do nothing, so that a test can still read the steps."""


async def run_once(
    function: Callable[..., Any], store: MemorySteps, *args: Any, **kwargs: Any
) -> tuple[DurableRun | None, Any]:
    """Run a function once from the recorded steps.

    Returns:
        The run with its state, and the value of the function; None and its value if it used no steps.

    Raises:
        Exception: The function raised.
    """
    context = TaskContext(Task(task_id="replay", workflow_instance_id="replay"))
    loop = asyncio.get_running_loop()
    context.open_steps = lambda: (store, loop, asyncio.to_thread)
    token, value = CURRENT_CONTEXT.set(context), None
    try:
        if is_coroutine_function(unwrap(function)):
            value = await function(*args, **kwargs)
        else:
            value = await asyncio.to_thread(function, *args, **kwargs)
    except BaseException as error:
        run: DurableRun | None = context.durable
        if run is None or not run.is_suspended:
            if run is not None:
                run.close()
                await run.forget_failures(error)
            raise
    finally:
        context.closed = True
        CURRENT_CONTEXT.reset(token)
        if context.durable is not None:
            context.durable.close()
    run = context.durable
    if run is not None and run.is_suspended:
        await run.suspend()
    return run, value


async def run_to_end(function: Callable[..., Any], store: MemorySteps, *args: Any, **kwargs: Any) -> Any:
    """Run a function again after each suspension, until it returns or raises."""
    for _ in range(MAX_ATTEMPTS):
        run, value = await run_once(function, store, *args, **kwargs)
        if run is None or not run.is_suspended:
            return value
    raise AssertionError(f"the function was suspended {MAX_ATTEMPTS} times and has not ended")


def check_replay(
    function: Callable[..., Any],
    *args: Any,
    messages: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    calls: Mapping[str, Mapping[str, Any]] | None = None,
    **kwargs: Any,
) -> Any:
    """Run a function with durable steps, replay it from its own steps, and return its value.

    Args:
        function: The function, sync or async.
        args: Its arguments.
        messages: The messages that it waits for, by name. A wait for another message ends with None, as at a timeout.
        calls: The outputs of the workflows that it calls, by name.
        kwargs: Its keyword arguments.

    Raises:
        AssertionError: The replay differs; the message names the first difference.
    """

    async def check() -> Any:
        store = MemorySteps(messages, calls)
        value = await run_to_end(function, store, *args, **kwargs)
        first = encode_value(value, "value")
        replay = _Replay(store)
        try:
            run, again = await run_once(function, replay, *args, **kwargs)
        except ReplayMismatch as mismatch:
            raise AssertionError(f"the replay differs: {mismatch}") from None
        if replay.first_new is not None:
            raise AssertionError(
                f"the replay differs: it runs step {replay.first_new}, which the first run did not record"
            )
        unused = [step.key for step in store.steps.values()] if run is None else run.list_unused()
        if unused:
            raise AssertionError(f"the replay differs: it does not run step {unused[0]}")
        if encode_value(again, "value") != first:
            raise AssertionError(f"the replay differs: it returns {again!r}, and the first run returned {value!r}")
        return value

    return asyncio.run(check())


class _Replay(MemorySteps):
    """Replays recorded steps, and notes the first step that is new."""

    def __init__(self, recorded: MemorySteps) -> None:
        super().__init__()
        self.steps = recorded.steps
        self.first_new: str | None = None

    async def record(self, steps: list[Step]) -> None:
        if self.first_new is None and steps:
            self.first_new = steps[0].key
        await super().record(steps)


class WorkerKiller:
    """Kills the worker of a durable task between two lines of its function. The fixture `kill_worker` creates it.

    A killed attempt records and reports nothing more, and the task is delivered again, as after the death of a process.
    `finally` blocks of the function still run.
    """

    def __init__(self) -> None:
        self._points: list[tuple[int, bool]] = []
        self._count = 0
        #: How often a worker was killed.
        self.kills = 0

    def after_step(self, number: int) -> None:
        """Kill the worker after the n-th step from now is recorded, before the next line of the function."""
        self._points.append((self._count + number, True))

    def before_record(self, number: int) -> None:
        """Kill the worker after the n-th step from now has run, before it is recorded."""
        self._points.append((self._count + number, False))

    def on_record(self, run: DurableRun, _step: Step, is_recorded: bool) -> None:
        """Count a step, and kill its worker if a test has asked for it."""
        if not is_recorded:
            self._count += 1
        point = (self._count, is_recorded)
        if point in self._points:
            self._points.remove(point)
            self.kills += 1
            run.kill()


def install_killer(killer: WorkerKiller | None) -> None:
    """Report all steps of this process to a killer. None removes the killer."""
    durable_run.on_record = None if killer is None else killer.on_record
