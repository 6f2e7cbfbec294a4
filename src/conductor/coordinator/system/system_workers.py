"""The coordinator's own workers: which lane does what, what they go on with at the start, and how they stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from conductor.coordinator.core import Core
from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN, SYSTEM_TASKS
from conductor.coordinator.limits import (
    HTTP_CALLS,
    MAX_HTTP_CALL_S,
    MAX_RUNNING_SCRIPT_BYTES,
    MAX_RUNNING_SCRIPTS,
    SCRIPT_PROCESSES,
    STARTS_PER_TRANSACTION,
)
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import StoreError
from conductor.coordinator.system import http_task_worker
from conductor.coordinator.system.addresses import Addresses
from conductor.coordinator.system.http_call import HttpCall, HttpFailure, HttpRequest
from conductor.coordinator.system.script_runner import QuickRunTimeout, ScriptError, ScriptRequest, ScriptRunner
from conductor.coordinator.system.script_task import Run, run_script_task, script_reason
from conductor.coordinator.system.start_tasks import run_start_task
from conductor.coordinator.system.system_task_queue import (
    SystemTaskQueue,
    TransactionTaskQueue,
    make_report,
    run_in_thread,
    write_with_retry,
)
from conductor.coordinator.system.system_task_result import SystemTaskResult
from conductor.coordinator.workflows.decision import ScriptFailed

logger = logging.getLogger(__name__)

T = TypeVar("T")
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class SystemWorkers:
    """All lanes. Lives on the server's event loop."""

    def __init__(self, core: Core, addresses: Addresses) -> None:
        self._core = core
        self._addresses = addresses
        self._calls: set[HttpCall] = set()
        #: Where scripts run.
        self.scripts = ScriptRunner()
        self._first_runs, self._longer_runs = asyncio.Semaphore(SCRIPT_PROCESSES), asyncio.Semaphore(SCRIPT_PROCESSES)
        lanes = (
            SystemTaskQueue(core, "http", HTTP_CALLS, self._call),
            SystemTaskQueue(core, "script", MAX_RUNNING_SCRIPTS, self._run_script, max_bytes=MAX_RUNNING_SCRIPT_BYTES),
            TransactionTaskQueue(
                core, "start", STARTS_PER_TRANSACTION, lambda tx, task: run_start_task(core, tx, task)
            ),
        )
        self._lanes = {lane.domain: lane for lane in lanes}

    async def start(self) -> None:
        """Go on with what was left behind."""
        self._core.on_system_task = self._notice
        for task_type, domain in await self._core.write(lambda tx: _left_behind(self._core, tx)):
            self._notice(task_type, domain)

    async def stop(self) -> None:
        """End calls and scripts, and give back what is in hand: the next process goes on with it."""
        in_hand = [task_id for lane in self._lanes.values() for task_id in lane.close()]
        for call in list(self._calls):
            call.abort()
        await asyncio.to_thread(self.scripts.close)
        try:
            if in_hand:
                await self._core.write(lambda tx: self._core.queue.take_back(tx, in_hand))
        except StoreError as error:
            logger.warning("%d tasks in hand are given back at the next start: %s", len(in_hand), error)

    def _notice(self, task_type: str, domain: str) -> None:
        lane = self._lanes.get(domain)
        if lane is not None:
            lane.notice(task_type)

    # -- HTTP -----------------------------------------------------------------------------------------------------

    async def _call(self, task: dict[str, Any]) -> SystemTaskResult:
        given = bytes(task["inputData"])
        try:
            request, async_complete = await run_in_thread(lambda: _read_request(given))
            answer = await self._answer_of(request)
            return http_task_worker.convert_answer(answer, async_complete=async_complete)
        except http_task_worker.InvalidHttpRequest as error:
            return http_task_worker.convert_invalid_request(error)
        except HttpFailure as error:
            return http_task_worker.convert_failure(error)

    async def _answer_of(self, request: HttpRequest) -> Any:
        call = HttpCall(request, self._addresses)
        self._calls.add(call)
        try:
            async with asyncio.timeout(MAX_HTTP_CALL_S):
                return await run_in_thread(call.run)
        except TimeoutError:
            call.abort()
            raise HttpFailure(f"no whole answer of {request.uri} within {MAX_HTTP_CALL_S} seconds") from None
        finally:
            self._calls.discard(call)

    # -- scripts --------------------------------------------------------------------------------------------------

    async def _run_script(self, task: dict[str, Any]) -> SystemTaskResult | None:
        kind, given = task["taskType"], bytes(task["inputData"])
        if kind not in SYSTEM_TASKS:
            await self._answer(task, kind)
            return None
        return await self._in_turn(lambda run: run_script_task(kind, given, run))

    async def _in_turn(self, work: Callable[[Run], T]) -> T:
        """Run a script shortly, and again for longer if it needs more time: long scripts wait for each other only."""
        try:
            async with self._first_runs:
                return await run_in_thread(lambda: work(self.scripts.run_quickly))
        except QuickRunTimeout:
            async with self._longer_runs:
                return await run_in_thread(lambda: work(self.scripts.run))

    async def _answer(self, task: dict[str, Any], kind: str) -> None:
        """The script of a SWITCH or a loop: its value is not the task's result, but what the workflow goes on with."""
        executions = self._core.executions
        asked = await write_with_retry(self._core, lambda tx: executions.question(tx, make_report(task)))
        if asked is None:
            return
        script, data = asked
        try:
            value = await self._in_turn(lambda run: run(ScriptRequest("javascript", script, _encode(data))))
        except ScriptError as error:
            why = script_reason(error)
            why = f"Unable to evaluate condition {script}, exception {why}" if kind == "DO_WHILE" else why
            value = ScriptFailed(why)
        await write_with_retry(self._core, lambda tx: executions.answer(tx, make_report(task), value))


def _read_request(given: bytes) -> tuple[HttpRequest, bool]:
    decoded = _decode(given)
    return http_task_worker.read_request(decoded), decoded.get("asyncComplete") is True


def _left_behind(core: Core, tx: Tx) -> list[tuple[str, str]]:
    """The queues of ours in which something is ready, after what an earlier process had in hand is back in them."""
    queues = [(name, domain, pk) for name, domain, pk, _ in tx.rows("all queues") if domain.startswith(SYSTEM_DOMAIN)]
    for _, _, queue in queues:
        for found in tx.rows("held tasks of queue", queue):
            core.queue.requeue(tx, TaskRow(*found))
    return [(name, domain) for name, domain, queue in queues if tx.value("is ready", queue) is not None]
