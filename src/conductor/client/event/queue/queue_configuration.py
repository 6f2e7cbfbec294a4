"""The configuration of a queue."""

from __future__ import annotations

from typing import Any

from conductor.client.event.queue.queue_worker_configuration import QueueWorkerConfiguration


class QueueConfiguration:
    """The name and type of a queue, and the settings of its consumer and producer."""

    WORKER_CONSUMER_KEY = "consumer"
    WORKER_PRODUCER_KEY = "producer"

    def __init__(self, queue_name: str, queue_type: str) -> None:
        self.queue_name = queue_name
        self.queue_type = queue_type
        self.worker_configuration: dict[str, QueueWorkerConfiguration] = {}

    def add_consumer(self, worker_configuration: QueueWorkerConfiguration) -> None:
        """Set the settings of the consumer."""
        self.worker_configuration[self.WORKER_CONSUMER_KEY] = worker_configuration

    def add_producer(self, worker_configuration: QueueWorkerConfiguration) -> None:
        """Set the settings of the producer."""
        self.worker_configuration[self.WORKER_PRODUCER_KEY] = worker_configuration

    def get_worker_configuration(self) -> dict[str, Any]:
        """Return the settings of consumer and producer, as the server expects them."""
        return {side: settings.configuration for side, settings in self.worker_configuration.items()}
