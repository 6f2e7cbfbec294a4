"""What a server does when an event comes."""

from __future__ import annotations

from conductor.client.http.models.action import Action
from conductor.client.http.models.model import Model


class EventHandler(Model, kw_only=True):
    """Which event to listen for, when it counts, and what to do then."""

    name: str | None = None
    event: str | None = None
    condition: str | None = None
    actions: list[Action] | None = None
    active: bool | None = None
    evaluator_type: str | None = None
