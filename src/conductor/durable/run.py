"""Runs one attempt of a task with durable steps: decides which steps run again and when the task is suspended.

The operations `step`, `wait` and `version` are generators of effects, which `effects.drive` and `effects.drive_sync`
execute. On a replay, `ReplayOrder` decides which operation continues next.

A waiting branch does not suspend the task while another branch runs a step. If every branch waits, all waits raise
`Suspended`, which ends the function. The executor then returns the task to the server.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol

import msgspec

from conductor.client.context.task_context import CURRENT_CONTEXT, TaskCancelled, TaskContext
from conductor.durable.effects import Call, CallOnThread, Do, Effects, Options, call_with_retries, drive, is_inside_step
from conductor.durable.errors import DurableError, ReplayMismatch, StepTooLarge, Suspended
from conductor.durable.fingerprint import get_function_name, make_fingerprint
from conductor.durable.replay_order import Activity, ReplayOrder, set_done
from conductor.durable.values import decode_result, encode_error, encode_result, is_cancelled, make_error
from conductor.protocol.steps import (
    CANCELLED_PREFIX,
    MAX_STEP_BYTES,
    MAX_STEP_NAME_CHARS,
    MAX_WAIT_MS,
    Step,
    StepKey,
    StepKind,
    StepState,
)

#: On a replay, a step that its program had cancelled waits for its cancellation as long as in the first attempt, and
#: up to this many seconds longer.
MAX_CANCELLATION_DELAY_S = 60.0


class StepStore(Protocol):
    """Keeps the steps of one attempt and of the attempts before it."""

    async def load(self) -> list[Step]:
        """Return the recorded steps. A wait whose time is over is returned as ended."""

    async def record(self, steps: list[Step]) -> None:
        """Record steps, and return when they are stored.

        Raises:
            TaskCancelled: The worker has lost the task.
            DurableError: The steps cannot be recorded.
        """

    def check_held(self) -> None:
        """Raise TaskCancelled if the worker has lost the task, so that no new step begins."""

    def refuse(self, step: Step) -> str | None:
        """Return why this store cannot record a wait, or None if it can."""

    async def suspend(self, steps: list[Step]) -> tuple[list[Step], int]:
        """Prepare the report that suspends the task.

        Args:
            steps: The steps that are not recorded yet.

        Returns:
            The steps that the report records, and the seconds until the next delivery.
        """

    def forget(self, keys: list[StepKey]) -> None:
        """Remove failed steps, so that the next attempt runs them again."""

    def remove(self) -> None:
        """Remove the steps, because the task has ended."""


class _Wait(NamedTuple):
    step: Step
    future: asyncio.Future[None]
    timer: asyncio.TimerHandle | None


#: Called before and after a step is recorded, with the run, the step, and whether it is recorded. For tests.
on_record: Callable[[DurableRun, Step, bool], None] | None = None


class DurableRun:
    """The steps of one attempt. The lock protects all fields, because a `def` and the event loop use them."""

    def __init__(
        self, context: TaskContext, store: StepStore, loop: asyncio.AbstractEventLoop, call_on_thread: CallOnThread
    ) -> None:
        self._context = context
        self._store = store
        self.loop = loop
        self.call_on_thread = call_on_thread
        self._activity = Activity(loop)
        self._lock = self._activity.lock
        self._order = ReplayOrder(self._activity)
        self._loading: asyncio.Task[None] | None = None
        self._loaded_at_s = 0.0
        #: The recorded steps; None before they are loaded.
        self._recorded: dict[StepKey, Step] | None = None
        #: The keys of the recorded steps that the program has not reached in this attempt.
        self._unused: set[StepKey] = set()
        self._numbers: dict[str, int] = {}
        #: The operations whose coroutines the program has not awaited, with their names. Only the event loop uses it.
        self._not_begun: dict[Effects, str] = {}
        self._running: set[str] = set()
        #: Failed steps of this attempt. They are recorded if the program continues with another step.
        self._failures: list[Step] = []
        #: The exceptions of all failed steps, in the order in which they were raised.
        self._errors: dict[StepKey, BaseException] = {}
        #: The requests in flight that record steps.
        self._records: set[asyncio.Future[None]] = set()
        #: The latest request that records failures and waits.
        self._flushing: asyncio.Future[None] | None = None
        #: Open waits that are not recorded yet.
        self._new_waits: list[Step] = []
        #: All open waits, by step.
        self._waits: dict[StepKey, _Wait] = {}
        #: When the sleeps that this attempt has recorded were stored.
        self._stored_at_s: dict[StepKey, float] = {}
        self._is_settling = False
        self.is_suspended = False
        #: Whether a test has ended the attempt as if its process had died.
        self.is_killed = False
        self._is_closed = False

    @property
    def workflow_id(self) -> str:
        """The id of the workflow of the task."""
        return self._context.workflow_instance_id

    # -- the operations, as generators of effects -----------------------------------------------------------------

    def step(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Options,
        fingerprint: str | None = None,
    ) -> Effects:
        """Run a function once, and return its recorded result."""
        name = options.name or _name_of(function)
        if fingerprint is None:
            fingerprint = make_fingerprint(function, args, kwargs)
        if self._recorded is None:
            yield Do(self._load)
        key = self._enter(name)
        try:
            known = self._find(key, StepKind.STEP, fingerprint)
            if known is not None:
                cancellation = known if is_cancelled(known) else self._find_cancellation(key)
                if cancellation is not None:
                    yield Do(functools.partial(self._wait_for_cancellation, cancellation))
                if self._order.is_replaying and not self._order.take_free_turn(key):
                    yield Do(functools.partial(self._order.take_turn, key))
                if known.state is StepState.FAILED:
                    raise self._note_error(key, make_error(known))
                return decode_result(known.result_json, function, known.key)
            if self._order.is_replaying:
                yield Do(functools.partial(self._order.take_turn, key))
            while self._has_unrecorded():
                yield Do(self._flush)
            self._check_open()
            self._store.check_held()
            new = Step(name=name, number=key[1], fingerprint=fingerprint, started_at=_now_ms())
            call = Call(function, args, kwargs, options.timeout_s, new.key)
            try:
                value = yield from call_with_retries(call, options)
                encoded = encode_result(value, new.key)
                if len(encoded) > MAX_STEP_BYTES:
                    raise StepTooLarge(
                        f"the result of step {new.key} has {len(encoded)} bytes; the limit is {MAX_STEP_BYTES} per "
                        "step; store large data elsewhere and return a reference to it"
                    )
                result = decode_result(encoded, function, new.key)
            except Exception as error:
                try:
                    yield Do(self._order.take_failure_turn)
                except asyncio.CancelledError as cancellation:
                    self._note_failure(new, cancellation)
                    raise
                self._note_failure(new, error)
                raise
            except asyncio.CancelledError as error:
                self._note_failure(new, error)
                raise
            new.result = msgspec.Raw(encoded)
            try:
                yield Do(functools.partial(self._record, new))
            except DurableError as error:
                self._note_failure(new, error)
                raise
            except asyncio.CancelledError as error:
                self._note_cancellation(new, error)
                raise
            return result
        finally:
            self._leave(key)

    def wait(self, step: Step) -> Effects:
        """Wait for a time, a message or a workflow. Return the result as decoded JSON."""
        reason = self._store.refuse(step)
        if reason is not None:
            raise DurableError(reason)
        if self._recorded is None:
            yield Do(self._load)
        key = self._enter(step.name)
        try:
            known = self._find(key, step.kind, step.fingerprint)
            step.number, step.started_at = key[1], _now_ms()
            cancellation = None if known is None else self._find_cancellation(key)
            if cancellation is not None:
                yield Do(functools.partial(self._wait_for_cancellation, cancellation))
            has_turn = known is None or known.state is not StepState.WAITING
            if self._order.is_replaying and has_turn and not self._order.take_free_turn(key):
                yield Do(functools.partial(self._order.take_turn, key))
            self._check_open()
            if known is None:
                with self._lock:
                    self._new_waits.append(step)
            elif known.state is StepState.FAILED:
                known.workflow_name = step.workflow_name
                raise self._note_error(key, make_error(known))
            elif known.state is StepState.DONE:
                return msgspec.json.decode(known.result_json) if known.result_json else None
            try:
                yield Do(functools.partial(self._wait, known or step))
            except asyncio.CancelledError as error:
                self._note_cancellation(step, error)
                raise
            return None
        finally:
            self._leave(key)

    def version(self, change: str) -> Effects:
        """Return whether the program had the change when the task first reached this line."""
        if self._recorded is None:
            yield Do(self._load)
        name = f"version {change}"
        if self._order.is_replaying and (name, self._numbers.get(name, 0) + 1) not in self._unused:
            yield Do(functools.partial(self._order.take_turn, (name, 0)))
        with self._lock:
            is_new = not self._unused
        return (yield from self.step(lambda: is_new, (), {}, Options(name), ""))

    # -- the state ------------------------------------------------------------------------------------------------

    def _enter(self, name: str) -> StepKey:
        """Begin an operation. Return its name and number."""
        if not 0 < len(name) <= MAX_STEP_NAME_CHARS or not name.isprintable():
            raise DurableError(
                f"a step needs a name of 1 to {MAX_STEP_NAME_CHARS} printable characters, not {name[:50]!r}"
            )
        if name.startswith(CANCELLED_PREFIX):
            raise DurableError(
                f"a step cannot be named {name[:50]!r}: a name that begins with {CANCELLED_PREFIX!r} records the "
                "cancellation of another step; choose another name"
            )
        with self._lock:
            self._check_open()
            if name in self._running:
                raise DurableError(
                    f"two steps named {name!r} run at the same time, so a replay could not tell them apart; "
                    "give parallel steps different names with name="
                )
            self._running.add(name)
            number = self._numbers[name] = self._numbers.get(name, 0) + 1
            self._activity.begin()
            return name, number

    def _check_open(self) -> None:
        """Raise Suspended if the attempt ends, so that no branch continues."""
        if self.is_suspended or self._is_closed:
            raise Suspended

    def _leave(self, key: StepKey) -> None:
        with self._lock:
            self._running.discard(key[0])
            self._activity.end()
            has_waits = bool(self._waits)
        if has_waits:
            self._call_on_loop(self._settle_soon)

    def _find(self, key: StepKey, kind: StepKind, fingerprint: str) -> Step | None:
        """Return the recorded step with this key; None if there is none.

        Raises:
            ReplayMismatch: The recorded step has another kind or fingerprint, so the program has changed.
        """
        with self._lock:
            known = (self._recorded or {}).get(key)
            self._unused.discard(key)
        if known is None:
            return None
        if known.kind is not kind or known.fingerprint != fingerprint:
            raise ReplayMismatch(
                f"step {known.key} does not match its record: recorded was {known.kind} {known.fingerprint!r}, "
                f"and the program now has {kind} {fingerprint!r}. The program has changed since this task began. "
                'Run the old code if `durable.version("...")` returns False, '
                "or give the changed program a new task type or workflow version"
            )
        return known

    def _note_failure(self, step: Step, error: BaseException) -> None:
        if isinstance(error, TaskCancelled):
            return
        with self._lock:
            if self.is_suspended or self._is_closed:
                # The attempt is over and has cancelled its running steps, so their failures are not recorded.
                return
            step.state, step.result, step.error = StepState.FAILED, msgspec.UNSET, encode_error(error)
            self._failures.append(step)
            self._errors[step.name, step.number] = error

    def _note_cancellation(self, step: Step, error: asyncio.CancelledError) -> None:
        """Record that the program has cancelled a wait, or a step whose result is recorded."""
        name = CANCELLED_PREFIX + step.name
        self._note_failure(Step(name=name, number=step.number, started_at=step.started_at), error)

    def _find_cancellation(self, key: StepKey) -> Step | None:
        """Return the record that the program had cancelled a wait or a recorded step; None if it had not."""
        key = (CANCELLED_PREFIX + key[0], key[1])
        with self._lock:
            found = (self._recorded or {}).get(key)
            if found is None or not is_cancelled(found):
                return None
            self._unused.discard(key)
        return found

    def _note_error(self, key: StepKey, error: BaseException) -> BaseException:
        with self._lock:
            self._errors[key] = error
        return error

    def _has_unrecorded(self) -> bool:
        is_flushing = self._flushing is not None and not self._flushing.done()
        return bool(self._failures or self._new_waits or is_flushing)

    def _take_unrecorded(self) -> list[Step]:
        with self._lock:
            steps = self._failures + self._new_waits
            self._failures, self._new_waits = [], []
        return steps

    # -- work on the event loop -----------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Load the recorded steps once, for all branches."""
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load_once())
        await asyncio.shield(self._loading)

    async def _load_once(self) -> None:
        steps = await self._store.load()
        self._loaded_at_s = self.loop.time()
        self._order.begin(steps)  # first, because a thread of a `def` may begin an operation once `_recorded` is set
        with self._lock:
            self._recorded = {(step.name, step.number): step for step in steps}
            self._unused = set(self._recorded)

    async def _record(self, step: Step) -> None:
        if on_record is not None:
            on_record(self, step, False)
        self._check_open()
        await self._finish(self._begin_record([step]))
        if on_record is not None:
            on_record(self, step, True)

    def kill(self) -> None:
        """End the attempt as if its process had died: no step runs or is recorded afterwards. For tests.

        Raises:
            Suspended: Always.
        """
        with self._lock:
            self.is_suspended = self.is_killed = True
            self._failures, self._new_waits = [], []
            self._end_waits(Suspended)
        raise Suspended

    async def _flush(self) -> None:
        """Record failures and waits. All branches wait for this request, so that none continues before it is stored."""
        if self._flushing is None or self._flushing.done():
            steps = self._take_unrecorded()
            if not steps:
                return
            self._flushing = self._begin_record(steps)
        await self._finish(self._flushing)

    def _begin_record(self, steps: list[Step]) -> asyncio.Future[None]:
        recording = asyncio.ensure_future(self._store.record(steps))
        self._records.add(recording)
        recording.add_done_callback(self._records.discard)
        recording.add_done_callback(functools.partial(self._restart_sleeps, steps))
        return recording

    def _restart_sleeps(self, steps: list[Step], recording: asyncio.Future[None]) -> None:
        """Count the sleeps that were just stored from now.

        A replay orders sleeps by their due times, which the store counts from the record. A sleep that ended before its
        due time could be replayed after a step that it had preceded.
        """
        if recording.cancelled() or recording.exception() is not None:
            return
        with self._lock:
            for step in steps:
                if step.kind is StepKind.SLEEP:
                    self._stored_at_s[step.name, step.number] = self.loop.time()
                    wait = self._waits.get((step.name, step.number))
                    if wait is not None and wait.timer is not None:
                        wait.timer.cancel()
                        timer = self._start_timer(step, wait.future)
                        self._waits[step.name, step.number] = wait._replace(timer=timer)

    async def _finish(self, recording: asyncio.Future[None]) -> None:
        """Wait until steps are recorded. A cancellation of the branch during the wait is raised after the wait.

        Otherwise, the program could continue although the result of a completed step is lost.
        """
        cancelled: asyncio.CancelledError | None = None
        while not recording.done():
            try:
                await asyncio.shield(recording)
            except asyncio.CancelledError as error:
                if self._is_closed:
                    raise
                cancelled = error
            except BaseException:
                if not recording.done():
                    raise
        if cancelled is not None and not recording.cancelled() and recording.exception() is None:
            raise cancelled
        recording.result()

    async def _wait_for_cancellation(self, step: Step) -> None:
        """Wait until the program cancels the step, as it did in the attempt that recorded the step."""
        try:
            await self._wait(step)
        except asyncio.CancelledError as error:
            self._note_error((step.name, step.number), error)
            raise

    async def _wait(self, step: Step) -> None:
        """Wait until the step is over, or until all branches wait and the task is suspended."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        key, timer = (step.name, step.number), None
        if step.kind is StepKind.SLEEP:
            timer = self._start_timer(step, future)
        elif step.kind is StepKind.STEP:
            # The step was cancelled in an earlier attempt. Wait until the program cancels it again.
            ran_s = max(0, (step.ended_at or 0) - (step.started_at or 0)) / 1000
            timer = loop.call_later(
                ran_s + MAX_CANCELLATION_DELAY_S, _set_not_cancelled, future, step.key.removeprefix(CANCELLED_PREFIX)
            )
        with self._lock:
            self._waits[key] = _Wait(step, future, timer)
            self._activity.end()
        self._settle_soon()
        try:
            await future
        finally:
            with self._lock:
                timer = self._waits.pop(key).timer
                self._activity.begin()
            if timer is not None:
                timer.cancel()

    def _start_timer(self, step: Step, future: asyncio.Future[None]) -> asyncio.TimerHandle:
        """Start the timer that ends a sleep in this attempt."""
        key, wait_s = (step.name, step.number), (step.wait_ms or 0) / 1000
        if key in (self._recorded or {}):
            # `wait_ms` of a recorded sleep is its remaining time, so the clocks of worker and server need not agree.
            return self.loop.call_at(self._loaded_at_s + wait_s, set_done, future)
        if key in self._stored_at_s:
            return self.loop.call_at(self._stored_at_s[key] + wait_s, set_done, future)
        return self.loop.call_later(wait_s, self._end_new_sleep, future)

    def _end_new_sleep(self, future: asyncio.Future[None]) -> None:
        """End a sleep that is not stored yet. If another branch runs, its record comes and restarts the timer."""
        with self._lock:
            if not self._activity.operations:
                set_done(future)

    def _settle_soon(self) -> None:
        if not self._is_settling:
            self._is_settling = True
            self._activity.call_when_settled(self._suspend_if_all_wait)

    def _suspend_if_all_wait(self) -> None:
        """Suspend the task if all branches wait. The caller holds the lock."""
        self._is_settling = False
        waits = [wait for wait in self._waits.values() if wait.step.kind is not StepKind.STEP]
        if self._is_closed:
            return
        if self._activity.operations or not waits:
            if self._new_waits:  # another branch runs: record the waits now, because they begin now
                self._spawn_flush()
            return
        if all(wait.future.done() for wait in waits):
            return
        self.is_suspended = True
        self._end_waits(Suspended)

    def _end_waits(self, error: BaseException | type[Suspended]) -> None:
        """Raise an error in every open wait."""
        for wait in list(self._waits.values()):
            if not wait.future.done():
                wait.future.set_exception(error)

    def _spawn_flush(self) -> None:
        flushing = asyncio.ensure_future(self._flush())
        flushing.add_done_callback(self._on_flushed)

    def _on_flushed(self, flushing: asyncio.Task[None]) -> None:
        """If the new waits could not be recorded, raise the error in every open wait."""
        error = None if flushing.cancelled() else flushing.exception()
        if error is not None:
            self._end_waits(error)

    def _call_on_loop(self, call: Callable[[], None]) -> None:
        try:
            self.loop.call_soon_threadsafe(call)
        except RuntimeError:
            pass  # the loop is closed: the worker has ended

    # -- the end of the attempt -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End the attempt: branches that are still running can neither run nor record further steps."""
        with self._lock:
            self._is_closed = True
            self._end_waits(Suspended)

    async def suspend(self) -> tuple[list[Step], int]:
        """Return the steps that the report of the suspended task records, and the seconds until its next delivery."""
        await self._wait_for_records()
        return await self._store.suspend(self._take_unrecorded())

    async def _wait_for_records(self) -> None:
        """Wait for the records in flight. The report must not overtake them, because the report ends the lease."""
        if self._records:
            await asyncio.wait(self._records)

    async def forget_failures(self, error: BaseException) -> list[StepKey]:
        """Forget the failed steps whose exceptions have ended the attempt, and return their keys.

        The next attempt then runs these steps again. Also forget the steps that the program has cancelled after such a
        failure: it may have cancelled them because of the failure.
        """
        await self._wait_for_records()
        guilty, keys = set(_list_causes(error)), list[StepKey]()
        for key, failure in self._errors.items():
            if id(failure) in guilty or (keys and isinstance(failure, asyncio.CancelledError)):
                keys.append(key)
        self._store.forget(keys)
        return keys

    def remove(self) -> None:
        """Remove the steps of a task whose end is reported."""
        self._store.remove()

    def note_call(self, effects: Effects, label: str) -> None:
        """Store the name of an operation that the program has called.

        The operation begins when the program awaits it.
        """
        self._not_begun[effects] = label

    async def perform(self, effects: Effects) -> Any:
        """Execute an operation that `note_call` has noted, on the event loop. Return its result."""
        del self._not_begun[effects]
        return await drive(effects, self.call_on_thread)

    def list_not_begun(self) -> list[str]:
        """Return the operations that the program has called and not awaited."""
        return list(self._not_begun.values())

    def list_unused(self) -> list[str]:
        """Return the recorded steps that the program has not reached."""
        with self._lock:
            return [step.key for key, step in (self._recorded or {}).items() if key in self._unused]


def _list_causes(error: BaseException | None) -> Generator[int, None, None]:
    """Yield the ids of an exception, of its explicit causes, and of the members of exception groups."""
    pending, seen = [error], set[int]()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield id(one)
        pending.append(one.__cause__)
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions


def _set_not_cancelled(future: asyncio.Future[None], key: str) -> None:
    if not future.done():
        future.set_exception(
            ReplayMismatch(
                f"step {key} was cancelled by the program in an earlier attempt, and now the program does not cancel "
                "it. Cancel a step only because of recorded steps and waits; limit its duration with timeout_s="
            )
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _name_of(function: Callable[..., Any]) -> str:
    name = get_function_name(function).rpartition(".")[2]
    if name == "<lambda>":
        raise DurableError('a lambda has no name: call step(lambda: ..., name="...")')
    return name


def make_wait_ms(seconds: float, what: str) -> int:
    """Return a wait in milliseconds.

    Raises:
        ValueError: The time is negative, not finite or too long.
    """
    if not math.isfinite(seconds) or not 0 <= seconds * 1000 <= MAX_WAIT_MS:
        raise ValueError(f"{what} must be 0 to {MAX_WAIT_MS // 1000} seconds, got {seconds}")
    return math.ceil(seconds * 1000)


# -- the run of the current task --------------------------------------------------------------------------------------


def current_run() -> DurableRun | None:
    """Return the run of the current task; None outside a task, and inside a step.

    Raises:
        DurableError: Steps cannot be stored where the task runs.
    """
    context = CURRENT_CONTEXT.get()
    if context is None or is_inside_step():
        return None
    run: DurableRun | None = context.durable
    if run is None:
        if context.cancelled:
            raise TaskCancelled(context.cancel_reason)
        if context.closed:
            raise Suspended  # the task's function has ended, so a step of this branch could not be recorded
        if context.open_steps is None:
            return None
        run = context.durable = DurableRun(context, *context.open_steps())
    return run
