"""Runs suspects alone. Suspects are tasks during whose execution a worker process has died (see `process_deaths`).

While a suspect is on probation, no other function of the process begins. If the process dies meanwhile, the suspect is
the culprit, and no other task is blamed. A probation ends when the task's function returns, or after
`PROBATION_CAP_S`, so that long tasks do not run one after the other.

After a death by a signal that may have come from outside, the probation is shorter: twice the time that the function
had run, plus `PROBATION_MARGIN_S`. That is enough, because a task that kills its process usually does so at the same
point again. The probation is also limited to an equal share of `PROBATION_CAP_S` for each task of the dead process, but
not to less than `PROBATION_MARGIN_S`. So after an operator has killed a worker, its tasks soon run in parallel again.
Each further death makes the probation four times as long.

All workers of a process share one `Isolation`. For tasks that are not suspects it costs only a few instructions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from conductor.client.automator.process_deaths import DeathRecord, DeathRecords
from conductor.client.worker.outcome import make_requeue_outcome

if TYPE_CHECKING:
    from conductor.client.automator.journal import Journal
    from conductor.client.automator.running_task import RunningTask
    from conductor.client.http.models.task import Task
    from conductor.client.worker.outcome import TaskOutcome
    from conductor.common.clock import Clock

#: A suspect waits this long for running functions to return. After that, it begins although some functions still run.
ALONE_WAIT_S = 10.0
PROBATION_MARGIN_S = 1.0
#: The first probation of a suspect lasts at most this long.
PROBATION_CAP_S = 30.0
#: A task that has waited for this share of its timeout without having begun is requeued.
MAX_WAIT_SHARE = 1 / 3

#: Returned by `_wait` if the task was stopped during the wait.
_STOPPED = object()

Execute = Callable[["RunningTask"], Awaitable["TaskOutcome | None"]]


class Isolation:
    """Decides when a task's function may begin. All methods run on the workers' event loop."""

    def __init__(self, journal: Journal | None, clock: Clock) -> None:
        self._journal = journal
        self._records = None if journal is None else DeathRecords.of(journal)
        self._clock = clock
        #: Called when the last probation has ended, because other tasks may then begin again.
        self.on_open: list[Callable[[], None]] = []
        #: The number of suspects that run alone (probation) or wait for that.
        self._suspects = 0
        self._probation = asyncio.Lock()
        #: The number of tasks that execute without a probation. A suspect waits until it is 0.
        self._executing = 0
        self._idle = asyncio.Event()
        self._opened = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Whether a suspect runs or waits to run, so that tasks that are not suspects may not begin."""
        return self._suspects > 0

    async def run(self, execute: Execute, running: RunningTask) -> TaskOutcome | None:
        """Execute a task when it may begin. Return None if it was stopped before its function returned."""
        record = self._find_record(running.task)
        if record is not None:
            return await self._run_alone(execute, running, record)
        limit_s = None if running.timeout_s is None else running.timeout_s * MAX_WAIT_SHARE
        while self._suspects:
            self._opened.clear()
            is_open = await _wait(self._clock.wait(self._opened, limit_s), running)
            if is_open is _STOPPED:
                return None
            if not is_open:
                reason = "a task that may have killed a process runs alone"
                return make_requeue_outcome(
                    running.context, reason=reason, callback_after_seconds=0, never_started=True
                )
        self._executing += 1
        try:
            return await execute(running)
        finally:
            self._executing -= 1
            if not self._executing:
                self._idle.set()

    def _find_record(self, task: Task) -> DeathRecord | None:
        # The first delivery of a first attempt cannot have a record, so most tasks need no file access.
        if self._records is None or (task.poll_count <= 1 and not task.retry_count):
            return None
        return self._records.find(task.workflow_instance_id, task.reference_task_name)

    async def _run_alone(self, execute: Execute, running: RunningTask, record: DeathRecord) -> TaskOutcome | None:
        task = running.task
        with ExitStack() as probation:
            self._suspects += 1
            probation.callback(self._on_suspect_done)
            if await _wait(self._probation.acquire(), running) is _STOPPED:
                return None
            probation.callback(self._probation.release)
            if self._executing:
                self._idle.clear()
                if await _wait(self._clock.wait(self._idle, ALONE_WAIT_S), running) is _STOPPED:
                    return None
            self._mark(task.task_id)
            probation.callback(self._mark, "")
            timer = asyncio.create_task(self._close_later(probation, _probation_s(record)))
            probation.callback(timer.cancel)
            outcome = await execute(running)
        if running.stopped is None and self._records is not None:
            self._records.clear(task.workflow_instance_id, task.reference_task_name)
        return outcome

    async def _close_later(self, probation: ExitStack, after_s: float) -> None:
        await self._clock.sleep(after_s)
        probation.close()

    def _mark(self, task_id: str) -> None:
        if self._journal is not None and self._journal.marks is not None:
            self._journal.marks.set_probation(task_id)

    def _on_suspect_done(self) -> None:
        self._suspects -= 1
        if not self._suspects:
            self._opened.set()
            for notify in self.on_open:
                notify()


def _probation_s(record: DeathRecord) -> float:
    growth = 4.0 ** min(10, max(0, record.deaths + record.suspicions - 1))
    if not record.may_be_from_outside:
        return PROBATION_CAP_S * growth
    share_s = max(PROBATION_MARGIN_S, PROBATION_CAP_S / record.executing)
    return min(min(2 * record.ran_s + PROBATION_MARGIN_S, share_s) * growth, PROBATION_CAP_S)


async def _wait(wait: Awaitable[object], running: RunningTask) -> object:
    """Return the result of the wait, or `_STOPPED` if the task was stopped during the wait."""
    try:
        return await wait
    except asyncio.CancelledError:
        if running.stopped is None:
            raise
        return _STOPPED
