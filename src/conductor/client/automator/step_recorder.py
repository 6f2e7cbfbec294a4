"""Records the durable steps of a running task on a coordinator.

A record is a heartbeat that carries steps, so it needs the lease and extends it. The steps of all tasks in a tick of
the event loop share one request.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import structs

from conductor.client.automator.delivery import NOT_SENT
from conductor.client.automator.running_task import LOST, Stop
from conductor.client.context.task_context import TaskCancelled
from conductor.client.http.async_rest import ConductorError
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.common.backoff import Backoff
from conductor.durable.errors import DurableError, StepTooLarge
from conductor.protocol.steps import Step, StepKey, StepKind, find_exceeded_limit
from conductor.protocol.wire import Verdict

if TYPE_CHECKING:
    from conductor.client.automator.delivery import Delivery
    from conductor.client.automator.running_task import RunningTask
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

#: The seconds between two attempts to record a step while the coordinator cannot be reached.
FIRST_REPEAT_S, MAX_REPEAT_S = 0.1, 2.0


class StepRecorder:
    """Keeps the steps of one running task on a coordinator."""

    def __init__(self, running: RunningTask, delivery: Delivery, api: AsyncTaskResourceApi, clock: Clock) -> None:
        self._running = running
        self._delivery = delivery
        self._api = api
        self._clock = clock
        #: The number of recorded steps, and their bytes.
        self._count = 0
        self._bytes = 0

    def refuse(self, _step: Step) -> str | None:
        """Return None, because every kind of step can wait on a coordinator."""
        return None

    async def load(self) -> list[Step]:
        """Return the steps from the answer to the poll. If they were too large for it, read them separately."""
        steps = await self._read_steps()
        self._count, self._bytes = len(steps), sum(step.size for step in steps)
        return steps

    async def _read_steps(self) -> list[Step]:
        task = self._running.task
        if not task.steps_omitted:
            elapsed_ms = int((self._clock.monotonic() - self._running.arrived_at) * 1000)
            return [_shorten_sleep(step, elapsed_ms) for step in task.steps or []]
        steps: list[Step] = []
        after: int | None = 0
        backoff = self._make_backoff()
        while after is not None:
            self.check_held()
            try:
                page = await self._api.get_task_steps(task.task_id, after)
            except (ConductorError, OSError) as error:
                await self._pause(backoff, error)
                continue
            steps += page.steps
            after = page.next
        return steps

    async def record(self, steps: list[Step]) -> None:
        """Record steps, and return when the coordinator has committed them.

        A request that fails is repeated until the lease ends.

        Raises:
            TaskCancelled: The worker has lost the task.
            StepTooLarge: The steps exceed a limit.
            DurableError: The coordinator has rejected the steps.
        """
        self._check_size(steps)
        body = self._encode(steps)
        backoff = self._make_backoff()
        while True:
            self.check_held()
            try:
                answer = await self._delivery.deliver(body, self._holds_task)
            except (ConductorError, OSError) as error:
                await self._pause(backoff, error)
                continue
            verdict = answer.judgement
            if verdict is Verdict.COMMITTED:
                return
            if verdict is Verdict.CANCELLED:
                if answer is not NOT_SENT and self._running.report is None:  # a report ends the lease
                    self._running.stop(Stop.LOST, f"the coordinator did not record a step: {answer.message}")
                raise TaskCancelled(LOST)
            if verdict is Verdict.REJECTED or answer.is_too_large:
                kind = StepTooLarge if answer.status == 413 else DurableError
                raise kind(answer.message)
            await self._pause(backoff, answer.message)

    async def suspend(self, steps: list[Step]) -> tuple[list[Step], int]:
        """Return the steps for the report that suspends the task. The coordinator knows when to deliver the task."""
        self._check_size(steps)
        return steps, 0

    def _check_size(self, steps: list[Step]) -> None:
        """Raise `StepTooLarge` for steps that the coordinator would reject, so that the attempt fails with a reason."""
        problem = find_exceeded_limit(steps, self._count, self._bytes)
        if problem is not None:
            raise StepTooLarge(problem)
        self._count += len(steps)
        self._bytes += sum(step.size for step in steps)

    def forget(self, keys: list[StepKey]) -> None:
        """Do nothing, because the report names the failed steps to the coordinator."""

    def remove(self) -> None:
        """Do nothing, because the coordinator keeps the steps of an ended task as long as the workflow."""

    def _encode(self, steps: list[Step]) -> bytes:
        running = self._running
        return TaskResult(
            task_id=running.task.task_id,
            workflow_instance_id=running.task.workflow_instance_id,
            worker_id=running.config.worker_id,
            status=TaskResultStatus.IN_PROGRESS,
            extend_lease=True,
            lease_id=running.task.lease_id,
            steps=steps,
        ).encode()

    def _holds_task(self) -> bool:
        return self._running.stopped is None and not self._running.released

    def check_held(self) -> None:
        """Raise TaskCancelled if the worker has lost the task."""
        if not self._running.is_held(self._clock.monotonic()):
            raise TaskCancelled(LOST)

    def _make_backoff(self) -> Backoff:
        return Backoff(FIRST_REPEAT_S, MAX_REPEAT_S, jitter=0.2)

    async def _pause(self, backoff: Backoff, problem: object) -> None:
        delay_s = backoff.next()
        level = logging.WARNING if backoff.count == 1 else logging.DEBUG  # one warning per outage
        logger.log(level, "Durable steps are not recorded yet, sending them again: %s %s", problem, self._running.label)
        await self._clock.sleep(delay_s)


def _shorten_sleep(step: Step, elapsed_ms: int) -> Step:
    """Return a step with the time that a sleep still waits, if `wait_ms` was computed `elapsed_ms` ago."""
    if step.kind is not StepKind.SLEEP or step.wait_ms is None:
        return step
    return structs.replace(step, wait_ms=max(0, step.wait_ms - elapsed_ms))
