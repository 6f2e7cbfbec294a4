"""Queues that a server sends events to and takes them from, on servers that have them."""

from __future__ import annotations

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_event_resource_api import AsyncEventResourceApi
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.sync_face import SyncClient, blocking


class EventClient(SyncClient[AsyncEventResourceApi]):
    """Queues of other systems, for code without an event loop; `asynchronous` is the same for async code."""

    def __init__(self, api_client: AsyncApiClient | Configuration | None = None) -> None:
        super().__init__(AsyncEventResourceApi(api_client_of(api_client)))

    get_queue_configuration = blocking(AsyncEventResourceApi.get_queue_configuration)
    get_kafka_queue_configuration = blocking(AsyncEventResourceApi.get_kafka_queue_configuration)
    put_queue_configuration = blocking(AsyncEventResourceApi.put_queue_configuration)
    delete_queue_configuration = blocking(AsyncEventResourceApi.delete_queue_configuration)
