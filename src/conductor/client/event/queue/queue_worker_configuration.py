"""How one side of a queue is set up."""

from __future__ import annotations


class QueueWorkerConfiguration:
    """Settings for whoever reads from a queue, or writes to it."""

    def __init__(self) -> None:
        self.configuration: dict[str, str] = {}

    def add_configuration(self, key: str, value: str) -> None:
        """Add one setting."""
        self.configuration[key] = value
