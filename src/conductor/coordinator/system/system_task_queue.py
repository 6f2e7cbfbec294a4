"""Queues of system tasks: poll the tasks of one kind, have them executed, and report the results.

A commit that makes a task ready notifies its queue; without such a commit a queue does nothing.

The values of secrets must not leave this module. `ConcurrentTaskQueue` passes the result and the traceback of every
task that received secrets through `settings/masking.py` before the result is reported and the traceback is logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from conductor.common.clock import Clock
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.limits import SYSTEM_TASKS_PER_POLL
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.settings.masking import SecretMask
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store, StoreError
from conductor.coordinator.system.system_task_result import SystemTaskResult, failed
from conductor.coordinator.task_authority import TaskAuthority
from conductor.coordinator.tasks.task_queue import RECEIVED_SECRETS
from conductor.coordinator.tasks.task_report import Report
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import LEASE_ID

logger = logging.getLogger(__name__)

#: The worker id of the coordinator's own workers.
WORKER_ID = "coordinator"
#: How long a change waits before it is tried again, while the database is not writable.
RETRY_S = 1.0

T = TypeVar("T")
#: Executes a task. Returns None if the task needs no report, because its workflow has continued already.
Execute = Callable[[JsonObject], Awaitable[SystemTaskResult | None]]
ExecuteInTransaction = Callable[[Tx, JsonObject], SystemTaskResult]


class RetryingWriter:
    """Runs changes in transactions. While the database is not writable, a change is tried again every `RETRY_S`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def write(self, change: Callable[[Tx], T]) -> T:
        """Run `change` in a transaction. Return its result after the commit."""
        while True:
            try:
                return await self._store.write(change)
            except StoreError as error:
                logger.error("System task waits for the database: error=%r retry_in=%.1fs", str(error), RETRY_S)
                await self._clock.sleep(RETRY_S)


class SystemTaskQueue:
    """Polls tasks while some are ready and there are free slots, one task type after the other."""

    def __init__(self, tasks: TaskAuthority, writer: RetryingWriter, name: str) -> None:
        self.tasks = tasks
        self.writer = writer
        self.domain = SYSTEM_DOMAIN + name
        self._closed = False
        #: Task types with ready tasks, in the order in which they are polled.
        self._ready: dict[str, None] = {}
        self._polling: asyncio.Task[None] | None = None

    def notice(self, task_type: str) -> None:
        """Note that a task of this type is ready."""
        self._ready[task_type] = None
        self._poll_soon()

    def close(self) -> list[str]:
        """Stop polling. Return the ids of the running tasks, which are not reported any more."""
        self._closed = True
        if self._polling is not None:
            self._polling.cancel()
        return []

    def _poll_soon(self) -> None:
        if self._polling is None and self._ready and self._has_room():
            self._polling = asyncio.create_task(self._poll_ready(), name=f"coordinator{self.domain}")

    async def _poll_ready(self) -> None:
        try:
            while self._ready and self._has_room():
                task_type = next(iter(self._ready))
                # Removed before the poll, so that a task that becomes ready during the poll adds its type again.
                del self._ready[task_type]
                if await self._poll(task_type):
                    self._ready[task_type] = None
        finally:
            self._polling = None

    def _has_room(self) -> bool:
        return not self._closed

    async def _poll(self, task_type: str) -> bool:
        """Poll tasks of one type. Return whether more of them may be ready."""
        raise NotImplementedError


class _RunningTask(NamedTuple):
    task_id: str
    input_bytes: int


class ConcurrentTaskQueue(SystemTaskQueue):
    """Executes up to `slots` tasks at a time.

    Args:
        tasks: Grants leases on the tasks and judges their reports.
        writer: Runs the transactions.
        name: The name of the queue's domain.
        slots: How many tasks run at a time.
        execute: Executes one task; the queue masks and reports its result.
        max_bytes: No further task is polled while the inputs of the running tasks have this many bytes.
    """

    def __init__(
        self,
        tasks: TaskAuthority,
        writer: RetryingWriter,
        name: str,
        slots: int,
        execute: Execute,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(tasks, writer, name)
        self._slots = slots
        self._execute = execute
        self._max_bytes = max_bytes
        self._running: dict[asyncio.Task[None], _RunningTask] = {}

    def close(self) -> list[str]:
        """Stop polling and cancel the running tasks. Return their ids; they are not reported any more."""
        super().close()
        for running in self._running:
            running.cancel()
        return [task_id for task_id, _ in self._running.values()]

    def _has_room(self) -> bool:
        if self._closed or len(self._running) >= self._slots:
            return False
        return self._max_bytes is None or sum(task.input_bytes for task in self._running.values()) < self._max_bytes

    async def _poll(self, task_type: str) -> bool:
        room = min(SYSTEM_TASKS_PER_POLL, self._slots - len(self._running))
        granted = await self.writer.write(
            lambda tx: self.tasks.poll_system_tasks(tx, task_type, self.domain, WORKER_ID, room)
        )
        for task in granted:
            running = asyncio.create_task(self._run(task), name=f"coordinator{self.domain}/{task['taskId']}")
            self._running[running] = _RunningTask(task["taskId"], len(bytes(task["inputData"])))
            running.add_done_callback(self._free_slot)
        return len(granted) == room

    async def _run(self, task: JsonObject) -> None:
        mask = SecretMask(task.pop(RECEIVED_SECRETS, {}))
        try:
            result = await self._execute(task)
            if result is not None:
                await self._report(task, await _mask_result(result, mask))
        except Exception as error:  # every task must get a result
            trace = mask.mask_failure("".join(traceback.format_exception(error)))
            logger.error("System task failed unexpectedly: task_id=%s\n%s", task["taskId"], trace)
            reason = f"the coordinator could not execute this task: {type(error).__name__}: {error}"
            await self._report(task, failed(mask.mask_failure(reason)))

    async def _report(self, task: JsonObject, result: SystemTaskResult) -> None:
        await self.writer.write(lambda tx: report_result(self.tasks, tx, task, result))

    def _free_slot(self, running: asyncio.Task[None]) -> None:
        del self._running[running]
        self._poll_soon()


class TransactionTaskQueue(SystemTaskQueue):
    """Executes tasks inside the transaction that polls them, up to `per_transaction` in each."""

    def __init__(
        self,
        tasks: TaskAuthority,
        writer: RetryingWriter,
        name: str,
        per_transaction: int,
        execute: ExecuteInTransaction,
    ) -> None:
        super().__init__(tasks, writer, name)
        self._per_transaction = per_transaction
        self._execute = execute

    async def _poll(self, task_type: str) -> bool:
        return await self.writer.write(lambda tx: self._execute_all(tx, task_type)) == self._per_transaction

    def _execute_all(self, tx: Tx, task_type: str) -> int:
        granted = self.tasks.poll_system_tasks(tx, task_type, self.domain, WORKER_ID, self._per_transaction)
        for task in granted:
            try:
                with tx.savepoint():
                    result = self._execute(tx, task)
            except ApiError as error:
                result = failed(error.in_one_line())
            report_result(self.tasks, tx, task, result)
        return len(granted)


async def _mask_result(result: SystemTaskResult, mask: SecretMask) -> SystemTaskResult:
    """Return a result without the values of secrets. A thread masks it, because a large result takes a while."""

    def mask_all() -> SystemTaskResult:
        output = mask.mask_output(result.output, failed=result.reason is not None)
        return result._replace(output=output, reason=result.reason and mask.mask_failure(result.reason))

    return await run_in_thread(mask_all) if mask else result


def make_report(task: JsonObject) -> Report:
    """Return a report on a task, still without a status and an output."""
    return Report(
        task_id=task["taskId"],
        workflow_instance_id=task["workflowInstanceId"],
        worker_id=WORKER_ID,
        lease_id=task[LEASE_ID],
        report_id=task[LEASE_ID],
    )


def report_result(tasks: TaskAuthority, tx: Tx, task: JsonObject, result: SystemTaskResult) -> None:
    """Report the result of a task. A task that has ended meanwhile stays as it is."""
    report = make_report(task)
    report.output_data = result.output
    if result.status == "IN_PROGRESS":
        tasks.remove_from_queue(tx, report)
        tx.notes.changed_workflows.add(tx.ids.workflow_pk(task["workflowInstanceId"]) or 0)
    else:
        report.status, report.reason_for_incompletion = result.status, result.reason
        tasks.judge(tx, [report])


def run_in_thread(call: Callable[[], T]) -> Awaitable[T]:
    """Run a blocking call in a daemon thread of its own, and return a future for its value.

    A daemon thread is used, because a call that hangs must not delay the end of the program.
    """
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return  # cancelled before the thread has started
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name="coordinator-system", daemon=True).start()
    return asyncio.wrap_future(future)
