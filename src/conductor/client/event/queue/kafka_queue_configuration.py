"""Configurations of Kafka topics."""

from __future__ import annotations

from conductor.client.event.queue.queue_configuration import QueueConfiguration
from conductor.client.event.queue.queue_worker_configuration import QueueWorkerConfiguration

_SERVERS = "bootstrap.servers"


class KafkaQueueConfiguration(QueueConfiguration):
    """The configuration of a Kafka topic."""

    def __init__(self, queue_topic_name: str) -> None:
        super().__init__(queue_topic_name, "kafka")


class KafkaConsumerConfiguration(QueueWorkerConfiguration):
    """The settings of a Kafka consumer."""

    def __init__(self, bootstrap_servers_config: str) -> None:
        super().__init__()
        self.add_configuration(_SERVERS, bootstrap_servers_config)


class KafkaProducerConfiguration(QueueWorkerConfiguration):
    """The settings of a Kafka producer."""

    def __init__(self, bootstrap_servers_config: str) -> None:
        super().__init__()
        self.add_configuration(_SERVERS, bootstrap_servers_config)
