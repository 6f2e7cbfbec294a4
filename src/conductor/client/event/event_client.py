"""Queues of other systems, through which a server sends and receives events. Only some servers have such queues."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from conductor.client.configuration.configuration import Configuration
from conductor.client.event.queue.queue_configuration import QueueConfiguration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint, operation
from conductor.protocol.json_types import JsonObject

__all__ = ["AsyncEventClient", "EventClient"]

_QUEUE = "/event/queue/config/{queueType}/{queueName}"


class EventOperations(Operations):
    """The operations of `AsyncEventClient` and `EventClient`."""

    only_on = "Orkes Conductor"

    @endpoint("GET", _QUEUE)
    async def get_queue_configuration(self, queue_type: str, queue_name: str) -> JsonObject:
        """Return the configuration of a queue."""

    @operation
    async def get_kafka_queue_configuration(self, queue_topic: str) -> JsonObject:
        """Return the configuration of a Kafka topic."""
        return await self.get_queue_configuration("kafka", queue_topic)

    @operation
    async def put_queue_configuration(self, queue_configuration: QueueConfiguration) -> None:
        """Create or replace the configuration of a queue."""
        queue = queue_configuration
        await self._put_queue(queue.get_worker_configuration(), queue.queue_type, queue.queue_name)

    @endpoint("PUT", _QUEUE)
    async def _put_queue(self, body: JsonObject, queue_type: str, queue_name: str) -> None: ...

    @operation
    async def delete_queue_configuration(self, queue_configuration: QueueConfiguration) -> None:
        """Delete the configuration of a queue."""
        await self._delete_queue(queue_configuration.queue_type, queue_configuration.queue_name)

    @endpoint("DELETE", _QUEUE)
    async def _delete_queue(self, queue_type: str, queue_name: str) -> None: ...


class AsyncEventClient(EventOperations, AsyncClient):
    """Queues of other systems, for async code."""


class EventClient(EventOperations, SyncClient[AsyncEventClient]):
    """Queues of other systems.

    Args:
        api_client: The connections to use, or the server; read from the environment by default.
    """

    async_class = AsyncEventClient

    def __init__(self, api_client: AsyncApiClient | Configuration | None = None) -> None:
        super().__init__(api_client)
