"""Tasks for programs that are not workers: poll, report, read, look at queues."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncTaskClient(AsyncTaskResourceApi):
    """Tasks of a server.

    async with AsyncTaskClient(Configuration()) as tasks:
        task = await tasks.get_task(task_id)
    """

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))

    async def poll_task(self, task_type: str, worker_id: str | None = None, domain: str | None = None) -> Task | None:
        """Take one task, or None."""
        return await self.poll(task_type, workerid=worker_id, domain=domain)

    async def batch_poll_tasks(
        self,
        task_type: str,
        worker_id: str | None = None,
        count: int | None = None,
        timeout_in_millisecond: int | None = None,
        domain: str | None = None,
    ) -> list[Task]:
        """Take up to `count` tasks (1), waiting up to `timeout_in_millisecond` (100) on the server."""
        timeout = 100 if timeout_in_millisecond is None else timeout_in_millisecond
        return await self.batch_poll(task_type, workerid=worker_id, domain=domain, count=count or 1, timeout=timeout)

    async def update_task(self, task_result: TaskResult) -> str:
        """Report a result; the answer is the task's id."""
        return await super().update_task(task_result)

    async def add_task_log(self, task_id: str, log_message: str) -> None:
        """Add one line to a task's log."""
        await self.log(task_id, log_message)


class TaskClient(SyncClient[AsyncTaskClient]):
    """Tasks of a server, for code without an event loop.

    with TaskClient(Configuration()) as tasks:
        task = tasks.get_task(task_id)
    """

    def __init__(self, configuration: Configuration | AsyncApiClient | None = None) -> None:
        super().__init__(AsyncTaskClient(configuration))

    poll_task = blocking(AsyncTaskClient.poll_task)
    batch_poll_tasks = blocking(AsyncTaskClient.batch_poll_tasks)
    get_task = blocking(AsyncTaskClient.get_task)
    update_task = blocking(AsyncTaskClient.update_task)
    update_task_v2 = blocking(AsyncTaskClient.update_task_v2)
    update_task_by_ref_name = blocking(AsyncTaskClient.update_task_by_ref_name)
    update_task_sync = blocking(AsyncTaskClient.update_task_sync)
    add_task_log = blocking(AsyncTaskClient.add_task_log)
    get_task_logs = blocking(AsyncTaskClient.get_task_logs)
    get_queue_size_for_task = blocking(AsyncTaskClient.get_queue_size_for_task)
    get_queue_sizes = blocking(AsyncTaskClient.get_queue_sizes)
    get_all_queue_sizes = blocking(AsyncTaskClient.get_all_queue_sizes)
    get_task_poll_data = blocking(AsyncTaskClient.get_task_poll_data)
    get_all_poll_data = blocking(AsyncTaskClient.get_all_poll_data)
    requeue_pending_tasks = blocking(AsyncTaskClient.requeue_pending_tasks)
    search = blocking(AsyncTaskClient.search)
    signal = blocking(AsyncTaskClient.signal)
    signal_async = blocking(AsyncTaskClient.signal_async)
