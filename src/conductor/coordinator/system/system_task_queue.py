"""A lane: tasks of one kind, so many at a time. A commit that makes one ready rings; in between nothing happens.

A lane is also where secrets stop. `Lane._do` passes everything that comes of a task which received secrets, its result
and its traceback, through `settings/masking.py` before the result is reported and the traceback is logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from conductor.coordinator.core import RETRY_STEP_MS, Core
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.limits import SYSTEM_TASKS_PER_POLL
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.settings.masking import SecretMask
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import StoreError
from conductor.coordinator.system.system_task_result import SystemTaskResult, failed
from conductor.coordinator.tasks.task_queue import RECEIVED_SECRETS
from conductor.coordinator.tasks.task_report import Report
from conductor.protocol.wire import LEASE_ID

logger = logging.getLogger(__name__)

#: The name under which the coordinator's own workers take tasks.
WORKER_ID = "coordinator"

T = TypeVar("T")
#: Does a task. None: the task was reported, or somebody else ends it.
Work = Callable[[dict[str, Any]], Awaitable[SystemTaskResult | None]]


class SystemTaskQueue:
    """Takes tasks while there are any and there is room for them, of each task type in its turn.

    `work` does a task; the lane masks and reports its result.
    """

    def __init__(self, core: Core, name: str, slots: int, work: Work, max_bytes: int | None = None) -> None:
        self.core = core
        self.domain = SYSTEM_DOMAIN + name
        self._slots = slots
        self._work = work
        self._ready: dict[str, None] = {}
        self._filling: asyncio.Task[None] | None = None
        self._in_hand: dict[asyncio.Task[None], str] = {}
        #: Bytes of input of the tasks in hand, and from how many on no further task is taken.
        self._bytes: dict[asyncio.Task[None], int] = {}
        self._max_bytes = max_bytes

    def notice(self, task_type: str) -> None:
        """A task of this type is ready."""
        self._ready[task_type] = None
        self._fill_soon()

    def close(self) -> list[str]:
        """Take no more; the ids of the tasks in hand, which nobody reports any more."""
        self._slots = 0
        in_hand = list(self._in_hand.values())
        for running in (*self._in_hand, *([self._filling] if self._filling else ())):
            running.cancel()
        return in_hand

    def _fill_soon(self) -> None:
        if self._filling is None and self._ready and self._has_room():
            self._filling = asyncio.create_task(self._fill(), name=f"coordinator{self.domain}")

    async def _fill(self) -> None:
        try:
            while self._ready and self._has_room():
                task_type = next(iter(self._ready))
                del self._ready[task_type]  # whatever becomes ready from here on is told again
                if await self._take(task_type):
                    self._ready[task_type] = None
        finally:
            self._filling = None

    def _has_room(self) -> bool:
        fits = self._max_bytes is None or sum(self._bytes.values()) < self._max_bytes
        return fits and len(self._in_hand) < self._slots

    async def _take(self, task_type: str) -> bool:
        """Take tasks of a type; whether there may be more."""
        room = min(SYSTEM_TASKS_PER_POLL, self._slots - len(self._in_hand))
        taken = await write_with_retry(
            self.core, lambda tx: self.core.queue.poll(tx, task_type, self.domain, WORKER_ID, room)
        )
        for task in taken:
            running = asyncio.create_task(self._do(task), name=f"coordinator{self.domain}/{task['taskId']}")
            self._in_hand[running] = task["taskId"]
            self._bytes[running] = len(bytes(task["inputData"])) if self._max_bytes is not None else 0
            running.add_done_callback(self._done)
        return len(taken) == room

    async def _do(self, task: dict[str, Any]) -> None:
        mask = SecretMask(task.pop(RECEIVED_SECRETS, {}))
        try:
            result = await self._work(task)
            if result is not None:
                await self._report(task, await _masked(result, mask))
        except Exception as error:  # a task must end, whatever went wrong with it
            trace = mask.mask_failure("".join(traceback.format_exception(error)))
            logger.error("System task failed unexpectedly: task_id=%s\n%s", task["taskId"], trace)
            why = f"the coordinator could not do this task: {type(error).__name__}: {error}"
            await self._report(task, failed(mask.mask_failure(why)))

    async def _report(self, task: dict[str, Any], result: SystemTaskResult) -> None:
        await write_with_retry(self.core, lambda tx: report_result(self.core, tx, task, result))

    def _done(self, running: asyncio.Task[None]) -> None:
        del self._in_hand[running], self._bytes[running]
        self._fill_soon()


class TransactionTaskQueue(SystemTaskQueue):
    """Tasks that are done within the transaction that takes them."""

    def __init__(
        self, core: Core, name: str, at_once: int, do: Callable[[Tx, dict[str, Any]], SystemTaskResult]
    ) -> None:
        super().__init__(core, name, 1, _never)
        self._at_once = at_once
        self._do_now = do

    async def _take(self, task_type: str) -> bool:
        return await write_with_retry(self.core, lambda tx: self._do_all(tx, task_type)) == self._at_once

    def _do_all(self, tx: Tx, task_type: str) -> int:
        taken = self.core.queue.poll(tx, task_type, self.domain, WORKER_ID, self._at_once)
        for task in taken:
            try:
                with tx.savepoint():
                    result = self._do_now(tx, task)
            except ApiError as error:
                result = failed(error.in_one_line())
            report_result(self.core, tx, task, result)
        return len(taken)


async def _never(_: dict[str, Any]) -> None:
    """A quick lane calls no `work`."""


async def _masked(result: SystemTaskResult, mask: SecretMask) -> SystemTaskResult:
    """Return a result without the values of secrets. A large one takes a while, so a thread masks it."""

    def masked() -> SystemTaskResult:
        output = mask.mask_output(result.output, failed=result.reason is not None)
        return result._replace(output=output, reason=result.reason and mask.mask_failure(result.reason))

    return await run_in_thread(masked) if mask else result


async def write_with_retry(core: Core, change: Callable[[Tx], T]) -> T:
    """Run a change in a transaction, again and again while the file cannot be written."""
    while True:
        try:
            return await core.write(change)
        except StoreError as error:
            logger.error("a task of the coordinator's own workers waits: %s", error)
            await core.clock.sleep(RETRY_STEP_MS / 1000)


def make_report(task: dict[str, Any]) -> Report:
    """What is said about a task, without how it went."""
    return Report(
        task_id=task["taskId"],
        workflow_instance_id=task["workflowInstanceId"],
        worker_id=WORKER_ID,
        lease_id=task[LEASE_ID],
        report_id=task[LEASE_ID],
    )


def report_result(core: Core, tx: Tx, task: dict[str, Any], result: SystemTaskResult) -> None:
    """Say how a task ended. One that others have ended, or that time has ended, is left as it is."""
    report = make_report(task)
    report.output_data = result.output
    if result.status == "IN_PROGRESS":
        core.queue.park(tx, report)
        tx.notes.moved.add(tx.ids.workflow_pk(task["workflowInstanceId"]) or 0)
    else:
        report.status, report.reason_for_incompletion = result.status, result.reason
        core.judge(tx, [report])


def run_in_thread(call: Callable[[], T]) -> Awaitable[T]:
    """Run what blocks in a thread of its own, which nobody waits for when the program ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            value = call()
        except Exception as error:
            _tell(loop, future, error=error)
        else:
            _tell(loop, future, value=value)

    threading.Thread(target=run, name="coordinator-system", daemon=True).start()
    return future


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], value: Any = None, error: Any = None) -> None:
    def tell() -> None:
        if future.done():
            return  # nobody waits for it any more
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:  # the loop is closed
        logger.debug("the coordinator has stopped before a task of its own workers was done")
