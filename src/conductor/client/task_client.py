"""Tasks for programs that are not workers: poll, report, read tasks, inspect queues."""

from __future__ import annotations

from conductor.client.http.api.async_task_resource_api import TaskOperations
from conductor.client.http.operation import AsyncClient, SyncClient

__all__ = ["AsyncTaskClient", "TaskClient"]


class AsyncTaskClient(TaskOperations, AsyncClient):
    """Tasks on a server, for async code.

    Example:
        async with AsyncTaskClient(Configuration()) as tasks:
            task = await tasks.get_task(task_id)
    """


class TaskClient(TaskOperations, SyncClient[AsyncTaskClient]):
    """Tasks on a server.

    Example:
        with TaskClient(Configuration()) as tasks:
            task = tasks.get_task(task_id)
    """

    async_class = AsyncTaskClient
