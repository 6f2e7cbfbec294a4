"""Calls of models and tools, and simulated deaths of the worker between them."""

from __future__ import annotations


class Crash(BaseException):
    """Stands for the death of the worker process: the frameworks do not handle it."""


class Calls(list[str]):
    """Notes each call. With `crashes`, every attempt dies at the second new call, so each attempt makes one call."""

    def __init__(self, *, crashes: bool = True) -> None:
        super().__init__()
        self.crashes = crashes
        self.attempts = 0
        self._new = 0

    def begin(self) -> None:
        """Begin an attempt."""
        self.attempts += 1
        self._new = 0

    def note(self, name: str) -> None:
        """Note a call."""
        if self.crashes and self._new:
            raise Crash(name)
        self._new += 1
        self.append(name)
