"""Events for status changes of a task."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from conductor.client.http.models.model import Model, OrDefault, sent_default
from conductor.protocol.json_types import JsonObject


class StateChangeEventType(StrEnum):
    """The changes of a task that can send events."""

    onScheduled = "onScheduled"  # noqa: N815 (the names on the wire)
    onStart = "onStart"  # noqa: N815
    onFailed = "onFailed"  # noqa: N815
    onSuccess = "onSuccess"  # noqa: N815
    onCancelled = "onCancelled"  # noqa: N815


class StateChangeEvent(Model):
    """An event that is sent when the status of a task changes."""

    type: OrDefault[str] = sent_default(str)
    payload: JsonObject | None = None


class StateChangeConfig(Model):
    """The events that a task sends, and the status changes at which it sends them."""

    event_type: str | list[str] | None = field(default=None, name="type")
    events: list[StateChangeEvent] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.event_type is not None and not isinstance(self.event_type, str):
            self.event_type = ",".join(self.event_type)

    @property
    def type(self) -> str | list[str] | None:
        """The changes, separated by commas."""
        return self.event_type
