"""Sends heartbeats, and reads from each answer whether the lease holds and whether the progress arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from conductor.client.automator.delivery import NoVerdict, find_loss, read_answer
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_rest import ConductorError, ConnectError, NotFoundException
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.protocol.wire import Verdict

if TYPE_CHECKING:
    from conductor.client.automator.progress import ProgressUpdate
    from conductor.client.automator.running_task import RunningTask
    from conductor.client.http.async_api_client import AsyncApiClient

#: The longest wait for the answer to a heartbeat, even if the lease lasts longer.
MAX_TIMEOUT_S = 10.0

#: Statuses with which a server rejects the body of a heartbeat, perhaps because of the progress in it. These statuses
#: say nothing about the lease.
_REJECTED_BODY = frozenset({400, 413, 422})

_UNKNOWN_TASK = "the server does not know the task any more"


class Heartbeat:
    """Sends heartbeats over a connection of its own. All methods run on the lease thread."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client
        self._api = AsyncTaskResourceApi(client)

    async def send(self, running: RunningTask, *, timeout_s: float) -> str | None:
        """Extend the lease.

        Returns:
            None if the lease holds; otherwise why it is lost.

        Raises:
            ConductorError: The server did not say whether the lease holds.
        """
        timeout_s = min(timeout_s, MAX_TIMEOUT_S)
        wanted = lambda: not running.is_over()  # noqa: E731
        progress = running.progress
        update, body = await self._next_body(running, timeout_s)
        try:
            answer = read_answer(await self._api.send_report(body, timeout_s=timeout_s, wanted=wanted))
            if update is not None and answer.status in _REJECTED_BODY:
                progress.on_rejected(answer.message)
                update = None
                answer = read_answer(await self._api.send_report(_encode(running), timeout_s=timeout_s, wanted=wanted))
            if update is not None and answer.status < 300:
                progress.on_received(update)
            elif update is not None:
                progress.on_unanswered(update)
        except (ConductorError, OSError) as error:
            if update is not None and not isinstance(error, ConnectError):
                progress.on_unanswered(update)
            raise
        finally:
            progress.end()
        if answer.verdict not in (None, Verdict.COMMITTED):
            return f"the server answered {answer.verdict} to a heartbeat"
        if answer.status == 404:
            return _UNKNOWN_TASK
        if answer.status >= 300 or answer.is_malformed:
            raise NoVerdict(answer)
        return await self._read_back(running, timeout_s) if running.task.lease_id is None else None

    async def _next_body(self, running: RunningTask, timeout_s: float) -> tuple[ProgressUpdate | None, bytes]:
        """Return the progress that a coordinator does not have yet, and the heartbeat that carries it."""
        progress = running.progress
        if running.task.lease_id is None or not progress.begin():
            return None, _encode(running)
        if progress.doubtful_lines:
            try:
                progress.resolve_doubt(await self._api.get_task_logs(running.task.task_id, timeout_s=timeout_s))
            except (ConductorError, OSError):
                pass  # extending the lease must not wait for this check, which the next heartbeat repeats
        try:
            update = progress.next_update()
            return update, _encode(running, update)
        except Exception as error:  # a user's code may have put anything into the list of logs
            progress.on_rejected(f"{type(error).__name__}: {error}")
            return None, _encode(running)

    async def _read_back(self, running: RunningTask, timeout_s: float) -> str | None:
        """Read the task from the server. Return why this worker has lost it; None if it has not.

        A Conductor server accepts heartbeats for ended tasks, so its answer to a heartbeat is not enough.
        """
        try:
            task = await self._api.get_task(running.task.task_id, timeout_s=timeout_s)
        except NotFoundException:
            return _UNKNOWN_TASK
        return find_loss(
            task,
            worker_id=running.config.worker_id,
            poll_count=running.task.poll_count,
            reported_as=running.reported_as,
        )

    async def log(self, running: RunningTask, text: str) -> None:
        """Add a line to the log of a task on a Conductor server."""
        await self._api.add_task_log(running.task.task_id, text)

    async def requeue(self, reports: list[bytes]) -> None:
        """Send reports that requeue tasks at a coordinator.

        Raises:
            ConductorError: The server sent no verdict on the reports.
        """
        body = b"[" + b",".join(reports) + b"]"
        response = await self._api.send_reports(body, timeout_s=MAX_TIMEOUT_S)
        if response.status == 200:
            return
        answer = read_answer(response)
        if answer.judgement is None:
            raise NoVerdict(answer)
        # The server rejected the batch as a whole, perhaps because a Conductor server has replaced the coordinator.
        # Send each report alone.
        for report in reports:
            answer = read_answer(await self._api.send_report(report, timeout_s=MAX_TIMEOUT_S))
            if answer.judgement is None:
                raise NoVerdict(answer)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()


def _encode(running: RunningTask, update: ProgressUpdate | None = None) -> bytes:
    heartbeat = TaskResult(
        task_id=running.task.task_id,
        workflow_instance_id=running.task.workflow_instance_id,
        worker_id=running.config.worker_id,
        status=TaskResultStatus.IN_PROGRESS,
        extend_lease=True,
        lease_id=running.task.lease_id,
    )
    if update is not None:
        heartbeat.logs = update.logs
        if update.output is not None:
            heartbeat.output_data = msgspec.Raw(update.output)  # type: ignore[assignment]
    return heartbeat.encode()
