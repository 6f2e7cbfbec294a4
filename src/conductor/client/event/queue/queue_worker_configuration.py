"""The settings of the consumer or the producer of a queue."""

from __future__ import annotations


class QueueWorkerConfiguration:
    """The settings of the consumer or the producer of a queue."""

    def __init__(self) -> None:
        self.configuration: dict[str, str] = {}

    def add_configuration(self, key: str, value: str) -> None:
        """Add one setting."""
        self.configuration[key] = value
