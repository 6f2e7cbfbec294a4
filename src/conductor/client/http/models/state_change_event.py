"""An event sent when a task changes its state."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model, OrDefault, sent


class StateChangeEvent(Model, kw_only=True):
    """An event sent when a task changes its state."""

    type: OrDefault[str] = sent(str)
    payload: dict[str, Any] | None = None
