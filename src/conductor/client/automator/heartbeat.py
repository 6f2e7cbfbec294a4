"""One heartbeat: what is sent, and what the answer says about the lease and about the news that went with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from conductor.client.automator.delivery import NoVerdict, loss_of, read_answer
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_rest import ConductorError, ConnectError, NotFoundException
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.protocol.wire import Verdict

if TYPE_CHECKING:
    from conductor.client.automator.progress import Said
    from conductor.client.automator.running_task import RunningTask
    from conductor.client.http.async_api_client import AsyncApiClient

#: No heartbeat waits longer for its answer, however long the lease still is.
MAX_TIMEOUT_S = 10.0

#: Answers that may be due to the news in a heartbeat: nothing of it was read, so they say nothing about the lease.
_REFUSED = frozenset({400, 413, 422})

_UNKNOWN = "the server does not know the task any more"


class Heartbeat:
    """Sends heartbeats over a connection of its own."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client
        self._api = AsyncTaskResourceApi(client)

    async def send(self, running: RunningTask, *, timeout_s: float) -> str | None:
        """Extend the lease. None: it holds. A text: it is lost, and why. Raises when the server does not say."""
        timeout_s = min(timeout_s, MAX_TIMEOUT_S)
        wanted = lambda: not running.is_over()  # noqa: E731
        said, body = await self._news_of(running, timeout_s)
        try:
            answer = read_answer(await self._api.send_report(body, timeout_s=timeout_s, wanted=wanted))
            if said is not None and answer.status in _REFUSED:
                running.news.refused(answer.message)
                said = None
                answer = read_answer(await self._api.send_report(_body(running), timeout_s=timeout_s, wanted=wanted))
            if said is not None:
                (running.news.heard if answer.status < 300 else running.news.unanswered)(said)
        except (ConductorError, OSError) as error:
            if said is not None and not isinstance(error, ConnectError):
                running.news.unanswered(said)
            raise
        finally:
            running.news.end()
        if answer.verdict not in (None, Verdict.COMMITTED):
            return f"the server answered {answer.verdict} to a heartbeat"
        if answer.status == 404:
            return _UNKNOWN
        if answer.status >= 300 or answer.nonsense:
            raise NoVerdict(answer)
        return await self._read_back(running, timeout_s) if running.task.lease_id is None else None

    async def log(self, running: RunningTask, text: str) -> None:
        """Add a line to the log of a task on a plain server."""
        await self._api.add_task_log(running.task.task_id, text)

    async def _news_of(self, running: RunningTask, timeout_s: float) -> tuple[Said | None, bytes]:
        """What the task has said and a coordinator does not have yet; and the heartbeat with that."""
        news = running.news
        if running.task.lease_id is None or not news.begin():
            return None, _body(running)
        if news.doubtful:
            try:
                news.settle(await self._api.get_task_logs(running.task.task_id, timeout_s=timeout_s))
            except (ConductorError, OSError):
                pass  # another time: the lease comes first
        try:
            said = news.next()
            return said, _body(running, said)
        except Exception as error:  # whatever a user's code has put into the list of logs
            news.refused(f"{type(error).__name__}: {error}")
            return None, _body(running)

    async def requeue(self, reports: list[bytes]) -> None:
        """Send reports that return tasks to a coordinator. Raises when the server does not judge them."""
        body = b"[" + b",".join(reports) + b"]"
        response = await self._api.send_reports(body, timeout_s=MAX_TIMEOUT_S)
        if response.status == 200:
            return
        if read_answer(response).judgement is None:
            raise NoVerdict(read_answer(response))
        # Refused as a whole: perhaps a Conductor server took the coordinator's place.
        for report in reports:
            answer = read_answer(await self._api.send_report(report, timeout_s=MAX_TIMEOUT_S))
            if answer.judgement is None:
                raise NoVerdict(answer)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _read_back(self, running: RunningTask, timeout_s: float) -> str | None:
        """A plain server accepts heartbeats for tasks that have ended, so the task itself is asked."""
        try:
            task = await self._api.get_task(running.task.task_id, timeout_s=timeout_s)
        except NotFoundException:
            return _UNKNOWN
        return loss_of(
            task,
            worker_id=running.config.worker_id,
            poll_count=running.task.poll_count,
            reported_as=running.reported_as,
        )


def _body(running: RunningTask, said: Said | None = None) -> bytes:
    beat = TaskResult(
        task_id=running.task.task_id,
        workflow_instance_id=running.task.workflow_instance_id,
        worker_id=running.config.worker_id,
        status=TaskResultStatus.IN_PROGRESS,
        extend_lease=True,
        lease_id=running.task.lease_id,
    )
    if said is not None:
        beat.logs = said.logs
        if said.output is not None:
            beat.output_data = msgspec.Raw(said.output)  # type: ignore[assignment]
    return beat.encode()
