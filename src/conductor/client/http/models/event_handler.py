from conductor.client.http.models.action import Action
from conductor.client.http.models.model import Model


class EventHandler(Model, kw_only=True):
    """Actions that a server runs for an event, and the condition for them."""

    name: str | None = None
    event: str | None = None
    condition: str | None = None
    actions: list[Action] | None = None
    active: bool | None = None
    evaluator_type: str | None = None
