"""Keeps the durable steps of a running task in a file, for servers that cannot store steps.

The journal directory has one such file per task. The file survives the death of the process, but not the loss of the
machine. Each line has a checksum; incomplete and damaged lines are removed. A retry takes over the file of the attempt
before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from conductor.client.automator.running_task import LOST
from conductor.client.context.task_context import TaskCancelled
from conductor.client.http.async_rest import ApiException, ConductorError, NotFoundException
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.worker.output import encode_value
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.durable.errors import DurableError, StepTooLarge
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES, WorkflowStatus
from conductor.protocol.steps import (
    CANCELLED_PREFIX,
    Step,
    StepError,
    StepKey,
    StepKind,
    StepState,
    find_exceeded_limit,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conductor.client.automator.running_task import RunningTask
    from conductor.client.http.async_api_client import AsyncApiClient
    from conductor.common.clock import Clock

logger = logging.getLogger(__name__)

SUFFIX = ".steps"
#: The interval between two reads of a called workflow is a tenth of its running time, within these bounds.
MIN_CALL_CHECK_S, MAX_CALL_CHECK_S = 1, 30
#: In the reason of a failed workflow, the text before the reason of the sub-workflow that caused the failure.
_REASON_PREFIX = " failure reason: "

#: Statuses with which a server rejects the start of a workflow for good: another attempt would be rejected, too.
_REFUSALS = (400, 404, 409)

_decoder = msgspec.json.Decoder(Step)


class StepFile:
    """The steps of one running task in a file."""

    def __init__(
        self, running: RunningTask, directory: Path, server: str, client: AsyncApiClient, clock: Clock
    ) -> None:
        self._running = running
        self._directory = directory
        self._server = server
        self._workflows = AsyncWorkflowClient(client)
        self._clock = clock
        self._path = self._path_of(running.task.task_id)
        self._steps: dict[StepKey, Step] = {}
        self._size = 0

    def _path_of(self, task_id: str) -> Path:
        name = hashlib.sha256(task_id.encode()).hexdigest()[:32]
        return self._directory / f"{self._server}-{name}{SUFFIX}"

    def check_held(self) -> None:
        """Raise TaskCancelled if the worker has lost the task."""
        if not self._running.is_held(self._clock.monotonic()):
            raise TaskCancelled(LOST)

    def refuse(self, step: Step) -> str | None:
        """Return why the step cannot wait; None if it can. Only a coordinator can send messages to a task."""
        if step.kind is not StepKind.MESSAGE:
            return None
        return (
            f"wait_for({step.name!r}) needs the bundled coordinator, because this server cannot deliver a message to a "
            "task; use a WAIT or HUMAN task in the workflow instead"
        )

    # -- the file -------------------------------------------------------------------------------------------------

    async def load(self) -> list[Step]:
        """Return the steps of this attempt and of the attempts before it. Mark waits whose time is over as ended."""
        before = self._running.task.retried_task_id
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if before and not self._path.exists():
            with contextlib.suppress(FileNotFoundError):
                self._path_of(before).rename(self._path)
        self._read()
        for step in self._list_waits():
            await self._end_wait(step)
        return [msgspec.structs.replace(step) for step in self._steps.values()]

    def _read(self) -> None:
        """Read the steps in the file, and remove damaged lines from it."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        good: list[bytes] = []
        for line in data.splitlines(keepends=True):
            step = _read_line(line)
            if step is not None:
                good.append(line)
                self._steps[step.name, step.number] = step
        self._size = sum(map(len, good))
        if self._size < len(data):
            removed = len(data) - self._size
            logger.warning("Removed damaged lines from a steps file: path=%s bytes=%d", self._path, removed)
            self._rewrite(good)

    def _rewrite(self, lines: Iterable[bytes]) -> None:
        new = self._path.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_bytes(b"".join(lines))
        new.replace(self._path)

    def _append(self, steps: list[Step]) -> None:
        """Append steps with one write, which survives the death of the process."""
        lines = b"".join(map(_make_line, steps))
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                if os.write(file, lines) != len(lines):
                    os.ftruncate(file, self._size)
                    raise OSError(f"no room for {len(lines)} bytes")
            finally:
                os.close(file)
        except OSError as error:
            raise DurableError(f"steps cannot be written to {self._path}: {error}") from error
        self._size += len(lines)
        for step in steps:
            self._steps[step.name, step.number] = step

    # -- recording ------------------------------------------------------------------------------------------------

    async def record(self, steps: list[Step]) -> None:
        """Append steps to the file, and start the workflows that they call."""
        self.check_held()
        problem = find_exceeded_limit(steps, len(self._steps), self._size)
        if problem is not None:
            raise StepTooLarge(problem)
        now_ms = self._clock.wall_ms()
        for step in steps:
            if step.state is not StepState.WAITING:
                step.ended_at = now_ms
            elif step.wait_ms is not None:
                step.due_at = now_ms + step.wait_ms
        self._append(steps)
        for step in steps:
            if step.kind is StepKind.WORKFLOW and step.state is StepState.WAITING:
                await self._start(step)

    async def suspend(self, steps: list[Step]) -> tuple[list[Step], int]:
        """Append the waits to the file, so that the report has no steps.

        Return an empty list, and the seconds until the next delivery.
        """
        if steps:
            await self.record(steps)
        now_ms = self._clock.wall_ms()
        callback_s = min((_next_check_s(step, now_ms) for step in self._list_waits()), default=0)
        with contextlib.suppress(OSError):  # `remove_old_files` counts the age from this time
            until_s = now_ms / 1000 + callback_s
            os.utime(self._path, (until_s, until_s))
        return [], callback_s

    def forget(self, keys: list[StepKey]) -> None:
        """Rewrite the file without failed steps that the next attempt runs again.

        If the disk is full, the steps stay in the file, so that the failure of the attempt is still reported.
        """
        known = [key for key in keys if key in self._steps]
        for key in known:
            del self._steps[key]
        if not known:
            return
        try:
            self._rewrite(map(_make_line, self._steps.values()))
        except OSError as error:
            logger.warning(
                "Failed steps stay in a steps file, so the next attempt raises their errors again: "
                'path=%s error="%s" %s',
                self._path,
                error,
                self._running.label,
            )

    def remove(self) -> None:
        """Remove the file of a task that has ended."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    # -- waiting --------------------------------------------------------------------------------------------------

    def _list_waits(self) -> list[Step]:
        """Return the steps that wait, without those that the program has cancelled."""
        return [
            step
            for (name, number), step in self._steps.items()
            if step.state is StepState.WAITING and (CANCELLED_PREFIX + name, number) not in self._steps
        ]

    async def _end_wait(self, step: Step) -> None:
        """If the time or the workflow that a step waits for has ended, append the end of the step to the file."""
        now_ms = self._clock.wall_ms()
        if step.kind is StepKind.SLEEP and step.due_at is not None:
            if step.due_at <= now_ms:
                self._append([msgspec.structs.replace(step, state=StepState.DONE, ended_at=now_ms)])
            else:
                step.wait_ms = step.due_at - now_ms
        elif step.kind is StepKind.WORKFLOW:
            await self._end_call(step, now_ms)

    async def _start(self, step: Step) -> None:
        """Start a called workflow. If an earlier process started the workflow and died, find that workflow instead."""
        name = step.workflow_name or step.name
        task = self._running.task
        correlation_id = (
            f"durable-{task.workflow_instance_id}-{task.reference_task_name}-{step.key}-{step.started_at or 0}"
        )
        step.workflow_id = await self._find_started(name, correlation_id)
        if step.workflow_id is None:
            request = StartWorkflowRequest(
                name=name,
                version=step.version,
                input=msgspec.json.decode(step.result_json, type=dict),
                correlation_id=correlation_id,
            )
            try:
                step.workflow_id = await self._workflows.start_workflow(request)
            except ApiException as error:
                if error.status not in _REFUSALS:
                    raise
                self._append([_fail(step, f"workflow {name} could not be started: {error}", self._clock.wall_ms())])
                return
        self._append([step])

    async def _find_started(self, name: str, correlation_id: str) -> str | None:
        found = await self._workflows.get_by_correlation_ids(name, [correlation_id], include_completed=True)
        return next((one.workflow_id for one in found.get(correlation_id, ())), None)

    async def _end_call(self, step: Step, now_ms: int) -> None:
        """Read a called workflow.

        If it has ended or was removed, record the end of the step. If it was not started, start it.
        """
        if step.workflow_id is None:
            await self._start(step)
            return
        try:
            found = await self._workflows.get_workflow(step.workflow_id, include_tasks=False)
        except NotFoundException:
            self._append([_fail(step, f"workflow {step.workflow_id} was removed", now_ms)])
            return
        except (ConductorError, OSError) as error:
            logger.warning("Called workflow could not be read, will be read again: %s %s", error, self._running.label)
            return
        if found.status not in TERMINAL_WORKFLOW_STATUSES:
            return
        if found.status == WorkflowStatus.COMPLETED:
            result = msgspec.Raw(encode_value(found.output or {}, "output"))
            ended = msgspec.structs.replace(step, state=StepState.DONE, ended_at=now_ms, result=result)
        else:
            reason = (found.reason_for_incompletion or "no reason given").rpartition(_REASON_PREFIX)[2]
            name = step.workflow_name or step.name
            ended = _fail(step, f"workflow {name}/{step.workflow_id} is {found.status}: {reason}", now_ms)
        self._append([ended])


def _fail(step: Step, message: str, now_ms: int) -> Step:
    """Return the step of a workflow call as failed, with this message."""
    return msgspec.structs.replace(
        step, state=StepState.FAILED, ended_at=now_ms, result=msgspec.UNSET, error=StepError("", message)
    )


def _next_check_s(step: Step, now_ms: int) -> int:
    if step.due_at is not None:
        return max(0, math.ceil((step.due_at - now_ms) / 1000))
    ran_s = (now_ms - (step.started_at or now_ms)) / 1000
    return int(min(MAX_CALL_CHECK_S, max(MIN_CALL_CHECK_S, ran_s / 10)))


def _make_line(step: Step) -> bytes:
    payload = msgspec.json.encode(step)
    return b"%08x %s\n" % (zlib.crc32(payload), payload)


def _read_line(line: bytes) -> Step | None:
    """Return the step of a line; None if the line is incomplete or damaged."""
    checksum, _, payload = line.removesuffix(b"\n").partition(b" ")
    try:
        if not line.endswith(b"\n") or int(checksum, 16) != zlib.crc32(payload):
            return None
        return _decoder.decode(payload)
    except (ValueError, msgspec.DecodeError):
        return None


def remove_old_files(directory: Path, max_age_s: float, clock: Clock) -> None:
    """Remove files that are older than `max_age_s`.

    The age of a file counts from its last write. If its task is suspended, the age counts from the next delivery.
    """
    oldest_s = clock.wall_ms() / 1000 - max_age_s
    with contextlib.suppress(OSError):
        for path in directory.glob(f"*{SUFFIX}"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest_s:
                    path.unlink()
