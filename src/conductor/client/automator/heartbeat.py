"""One heartbeat: what is sent, and what the answer says about the lease."""

from __future__ import annotations

import msgspec

from conductor.client.automator.lease import Lease
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.async_rest import ApiException, NotFoundException
from conductor.wire import TERMINAL_TASK_STATUSES, VERDICT_HEADER, Verdict

#: No heartbeat waits longer for its answer, however long the lease still is.
MAX_TIMEOUT_S = 10.0


class Heartbeat:
    """Sends heartbeats over a connection of its own."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client
        self._api = AsyncTaskResourceApi(client)

    async def send(self, lease: Lease, *, timeout_s: float) -> str | None:
        """Extend the lease. None: it holds. A text: it is lost, and why. Raises when the server does not say."""
        answer = await self._api.send_report(_body(lease), timeout_s=min(timeout_s, MAX_TIMEOUT_S))
        verdict = answer.headers.get(VERDICT_HEADER.lower())
        if verdict is not None and verdict != Verdict.COMMITTED:
            return f"the server answered {verdict} to a heartbeat"
        if answer.status == 404:
            return "the server does not know the task any more"
        if answer.status >= 400:
            raise ApiException.of(answer, "POST /tasks (heartbeat)")
        if lease.task.lease_id is None:
            return await self._read_back(lease, timeout_s=timeout_s)
        return None

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _read_back(self, lease: Lease, *, timeout_s: float) -> str | None:
        """A plain server accepts heartbeats for tasks that have ended, so the task itself is asked."""
        try:
            task = await self._api.get_task(lease.task.task_id, timeout_s=min(timeout_s, MAX_TIMEOUT_S))
        except NotFoundException:
            return "the server does not know the task any more"
        if task.status in TERMINAL_TASK_STATUSES and task.status != lease.reported_as:
            return f"the server has the task as {task.status}"
        if task.worker_id and task.worker_id != lease.config.worker_id:
            return f"the task is held by worker {task.worker_id}"
        if task.poll_count != lease.task.poll_count:
            return "the task was delivered again"
        return None


def _body(lease: Lease) -> bytes:
    beat = {
        "taskId": lease.task.task_id,
        "workflowInstanceId": lease.task.workflow_instance_id,
        "workerId": lease.config.worker_id,
        "status": "IN_PROGRESS",
        "extendLease": True,
    }
    if lease.task.lease_id is not None:
        beat["leaseId"] = lease.task.lease_id
    return msgspec.json.encode(beat)
