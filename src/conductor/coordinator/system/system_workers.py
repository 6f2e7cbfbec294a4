"""The coordinator's own workers: which queue executes which tasks, and how the workers start and stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from conductor.coordinator.core import Core
from conductor.coordinator.definitions.likely_mistakes import Script
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN, SYSTEM_TASKS
from conductor.coordinator.limits import (
    HTTP_CALLS,
    MAX_HTTP_CALL_S,
    MAX_RUNNING_SCRIPT_BYTES,
    MAX_RUNNING_SCRIPTS,
    SCRIPT_PROCESSES,
    STARTS_PER_TRANSACTION,
)
from conductor.coordinator.store.statements import ALL_QUEUES, HELD_TASKS_OF_QUEUE, IS_READY
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import StoreError
from conductor.coordinator.system import http_task_worker
from conductor.coordinator.system.addresses import Addresses
from conductor.coordinator.system.http_call import HttpAnswer, HttpCall, HttpFailure, HttpRequest
from conductor.coordinator.system.script_runner import QuickRunTimeout, ScriptError, ScriptRequest, ScriptRunner
from conductor.coordinator.system.script_task import (
    RunScript,
    describe_script_error,
    find_syntax_errors,
    run_script_task,
)
from conductor.coordinator.system.start_tasks import run_start_task
from conductor.coordinator.system.system_task_queue import (
    ConcurrentTaskQueue,
    RetryingWriter,
    SystemTaskQueue,
    TransactionTaskQueue,
    make_report,
    run_in_thread,
)
from conductor.coordinator.system.system_task_result import SystemTaskResult
from conductor.coordinator.task_authority import TaskAuthority
from conductor.coordinator.workflows.decision import ScriptFailed
from conductor.protocol.json_types import JsonObject

logger = logging.getLogger(__name__)

T = TypeVar("T")
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(JsonObject).decode


class SystemWorkers:
    """All queues of system tasks. Use it only on the server's event loop."""

    def __init__(self, core: Core, addresses: Addresses) -> None:
        self._core = core
        tasks, writer = core.tasks, RetryingWriter(core.store, core.clock)
        self._writer = writer
        self._addresses = addresses
        self._calls: set[HttpCall] = set()
        self.scripts = ScriptRunner()
        self._quick_runs = asyncio.Semaphore(SCRIPT_PROCESSES)
        self._long_runs = asyncio.Semaphore(SCRIPT_PROCESSES)
        queues: tuple[SystemTaskQueue, ...] = (
            ConcurrentTaskQueue(tasks, writer, "http", HTTP_CALLS, self._call),
            ConcurrentTaskQueue(
                tasks, writer, "script", MAX_RUNNING_SCRIPTS, self._run_script, MAX_RUNNING_SCRIPT_BYTES
            ),
            TransactionTaskQueue(
                tasks, writer, "start", STARTS_PER_TRANSACTION, partial(run_start_task, core.workflows.executions)
            ),
        )
        self._queues = {queue.domain: queue for queue in queues}

    async def start(self) -> None:
        """Continue with the system tasks that an earlier process left unfinished."""
        self._core.on_system_task = self._notice
        self._core.find_syntax_errors = self._find_syntax_errors
        for task_type, domain in await self._core.write(lambda tx: _requeue_unfinished(self._core.tasks, tx)):
            self._notice(task_type, domain)

    async def stop(self) -> None:
        """Abort calls and scripts, and requeue the running tasks for the next process."""
        running = [task_id for queue in self._queues.values() for task_id in queue.close()]
        for call in list(self._calls):
            call.abort()
        await asyncio.to_thread(self.scripts.close)
        try:
            if running:
                await self._core.tasks.undo_grants(running)
        except StoreError as error:
            logger.warning(
                "Running system tasks not requeued: tasks=%d error=%r; the next start requeues them",
                len(running),
                str(error),
            )

    def _notice(self, task_type: str, domain: str) -> None:
        queue = self._queues.get(domain)
        if queue is not None:
            queue.notice(task_type)

    # -- HTTP -----------------------------------------------------------------------------------------------------

    async def _call(self, task: JsonObject) -> SystemTaskResult:
        encoded_input = bytes(task["inputData"])
        try:
            request, async_complete = await run_in_thread(lambda: _read_request(encoded_input))
            answer = await self._send(request)
            return http_task_worker.convert_answer(answer, async_complete=async_complete)
        except http_task_worker.InvalidHttpRequest as error:
            return http_task_worker.convert_invalid_request(error)
        except HttpFailure as error:
            return http_task_worker.convert_failure(error)

    async def _send(self, request: HttpRequest) -> HttpAnswer:
        call = HttpCall(request, self._addresses)
        self._calls.add(call)
        try:
            async with asyncio.timeout(MAX_HTTP_CALL_S):
                return await run_in_thread(call.run)
        except TimeoutError:
            call.abort()
            raise HttpFailure(f"no complete answer from {request.uri} within {MAX_HTTP_CALL_S} seconds") from None
        finally:
            self._calls.discard(call)

    # -- scripts --------------------------------------------------------------------------------------------------

    async def _run_script(self, task: JsonObject) -> SystemTaskResult | None:
        kind, encoded_input = task["taskType"], bytes(task["inputData"])
        if kind not in SYSTEM_TASKS:
            await self._evaluate_condition(task, kind)
            return None
        return await self._run_with_limits(lambda run: run_script_task(kind, encoded_input, run))

    async def _run_with_limits(self, work: Callable[[RunScript], T]) -> T:
        """Run a script and return its result. First use a short time limit; if the script exceeds it, the full limit.

        The second runs have slots of their own, so a long script delays only other long scripts.
        """
        try:
            async with self._quick_runs:
                return await run_in_thread(lambda: work(self.scripts.run_quickly))
        except QuickRunTimeout:
            async with self._long_runs:
                return await run_in_thread(lambda: work(self.scripts.run))

    async def _find_syntax_errors(self, scripts: Sequence[Script]) -> list[str | None]:
        if not scripts:
            return []
        async with self._quick_runs:
            return await run_in_thread(lambda: find_syntax_errors(scripts, self.scripts.run_quickly))

    async def _evaluate_condition(self, task: JsonObject, kind: str) -> None:
        """Evaluate the script of a SWITCH or a loop, and let the workflow continue with its value."""
        executions = self._core.workflows.executions
        needed = await self._writer.write(lambda tx: executions.find_needed_script(tx, make_report(task)))
        if needed is None:
            return
        script, data = needed
        try:
            request = ScriptRequest("javascript", script, _encode(data))
            value = await self._run_with_limits(lambda run: run(request))
        except ScriptError as error:
            reason = describe_script_error(error)
            if kind == "DO_WHILE":
                reason = f"Unable to evaluate condition {script}, exception {reason}"
            value = ScriptFailed(reason)
        await self._writer.write(lambda tx: executions.continue_with_value(tx, make_report(task), value))


def _read_request(encoded_input: bytes) -> tuple[HttpRequest, bool]:
    task_input = _decode(encoded_input)
    return http_task_worker.read_request(task_input), task_input.get("asyncComplete") is True


def _requeue_unfinished(tasks: TaskAuthority, tx: Tx) -> list[tuple[str, str]]:
    """Requeue the tasks that an earlier process was executing. Return the system queues that have ready tasks."""
    queues = [(name, domain, pk) for name, domain, pk, _ in tx.rows(ALL_QUEUES) if domain.startswith(SYSTEM_DOMAIN)]
    for _, _, queue in queues:
        for row in tx.rows(HELD_TASKS_OF_QUEUE, queue):
            tasks.requeue(tx, row)
    return [(name, domain) for name, domain, queue in queues if tx.first(IS_READY, queue) is not None]
