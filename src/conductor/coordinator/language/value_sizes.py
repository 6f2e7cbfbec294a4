"""How large a value may become that a workflow builds from others: an input, an output, its variables.

Each expression may name a value that is large already, so a few tasks could build one that no memory holds. All that is
stored is within the limit; so what one expression finds is, and it is enough to add up while building.
"""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.coordinator.limits import MAX_VALUE_BYTES


class TooLarge(ValueError):
    """A value that became too large; the message says so."""

    def __init__(self, what: str, instead: str | None = None) -> None:
        limit = f"would be larger than {MAX_VALUE_BYTES} bytes; pass a reference to the data instead"
        super().__init__(f"{what} {limit}" if instead is None else f"{what} would be too much; {instead}")


def json_size(value: Any) -> int:
    """How many bytes a value takes, as JSON, about."""
    if isinstance(value, str):
        return len(value)
    return len(msgspec.json.encode(value)) if isinstance(value, dict | list) else 1


def check_size(what: str, value: Any) -> None:
    """Raise TooLarge for a value that must not be stored."""
    if json_size(value) > MAX_VALUE_BYTES:
        raise TooLarge(what)
