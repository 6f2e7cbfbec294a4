"""A prompt that is stored on the server."""

from __future__ import annotations

from typing import Any


class Prompt:
    """A prompt that is stored on the server, and the values of its variables."""

    def __init__(self, name: str, variables: dict[str, Any]) -> None:
        self.name = name
        self.variables = variables
