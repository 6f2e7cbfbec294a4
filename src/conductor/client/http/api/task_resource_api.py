"""`/tasks` for programs without async."""

from __future__ import annotations

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.sync_face import SyncClient, blocking


class TaskResourceApi(SyncClient[AsyncTaskResourceApi]):
    """The task endpoints, each one blocking call."""

    def __init__(self, api_client: AsyncApiClient | Configuration | None = None) -> None:
        super().__init__(AsyncTaskResourceApi(api_client_of(api_client)))

    poll = blocking(AsyncTaskResourceApi.poll)
    batch_poll = blocking(AsyncTaskResourceApi.batch_poll)
    update_task = blocking(AsyncTaskResourceApi.update_task)
    update_task_v2 = blocking(AsyncTaskResourceApi.update_task_v2)
    get_task = blocking(AsyncTaskResourceApi.get_task)
    log = blocking(AsyncTaskResourceApi.log)
    get_task_logs = blocking(AsyncTaskResourceApi.get_task_logs)
