"""A message for Kafka."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import omit_none


class KafkaPublishInput:
    """A message for a Kafka topic."""

    def __init__(
        self,
        bootstrap_servers: str | None = None,
        key: str | None = None,
        key_serializer: str | None = None,
        value: str | None = None,
        request_timeout_ms: str | None = None,
        max_block_ms: str | None = None,
        headers: dict[str, Any] | None = None,
        topic: str | None = None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.key = key
        self.key_serializer = key_serializer
        self.value = value
        self.request_timeout_ms = request_timeout_ms
        self.max_block_ms = max_block_ms
        self.headers = headers
        self.topic = topic

    def to_dict(self) -> dict[str, Any]:
        """Return the message as the server expects it."""
        return omit_none(
            boot_strap_servers=self.bootstrap_servers,
            key=self.key,
            key_serializer=self.key_serializer,
            value=self.value,
            request_timeout_ms=self.request_timeout_ms,
            max_block_ms=self.max_block_ms,
            headers=self.headers,
            topic=self.topic,
        )
