"""`/event/queue`: queues of other systems that a server sends events to and takes them from."""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.optional_resource_api import OptionalResourceApi

_QUEUE = "/event/queue/config/{type}/{name}"


class AsyncEventResourceApi(OptionalResourceApi):
    """The endpoints of queues."""

    async def get_queue_configuration(self, queue_type: str, queue_name: str) -> dict[str, Any]:
        """Read how a queue is set up."""
        return await self._call(dict[str, Any], "GET", _QUEUE, queue_type, queue_name)

    async def get_kafka_queue_configuration(self, queue_topic: str) -> dict[str, Any]:
        """Read how a Kafka topic is set up."""
        return await self.get_queue_configuration("kafka", queue_topic)

    async def put_queue_configuration(self, queue_configuration: Any) -> None:
        """Set up a queue: a `QueueConfiguration`."""
        queue = queue_configuration
        body = queue.get_worker_configuration()
        await self._call(str, "PUT", _QUEUE, queue.queue_type, queue.queue_name, body=body)

    async def delete_queue_configuration(self, queue_configuration: Any) -> None:
        """Forget a queue."""
        queue = queue_configuration
        await self._call(str, "DELETE", _QUEUE, queue.queue_type, queue.queue_name)
