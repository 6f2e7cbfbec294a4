"""The size limit of values that a workflow builds from others: inputs, outputs and variables.

Without a limit, a few tasks could build a value that does not fit into memory, because each expression can name a large
value. Every stored value is within the limit, so it is enough to add up the sizes while a new value is built.
"""

from __future__ import annotations

import msgspec

from conductor.coordinator.limits import MAX_VALUE_BYTES


class TooLarge(ValueError):
    """A value that is too large; the message says what to do instead."""

    def __init__(self, what: str, instead: str | None = None) -> None:
        limit = f"would be larger than {MAX_VALUE_BYTES} bytes; pass a reference to the data instead"
        super().__init__(f"{what} {limit}" if instead is None else f"{what} would exceed its limit; {instead}")


def json_size(value: object) -> int:
    """Return about how many bytes a value takes as JSON."""
    if isinstance(value, str):
        return len(value)
    return len(msgspec.json.encode(value)) if isinstance(value, dict | list) else 1


def check_size(what: str, value: object) -> None:
    """Raise TooLarge if a value is too large to be stored."""
    if json_size(value) > MAX_VALUE_BYTES:
        raise TooLarge(what)
