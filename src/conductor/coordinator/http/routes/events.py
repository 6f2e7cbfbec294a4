"""Register and read event handlers."""

from __future__ import annotations

from conductor.coordinator.audit import Action
from conductor.coordinator.definitions import event_handlers
from conductor.coordinator.definitions.event_handlers import EventHandler
from conductor.coordinator.http.answer import DONE, Answer, as_json
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.store.transaction import Tx


async def add_handler(request: ApiRequest) -> Answer:
    """POST /event: register an event handler; 409 if the name is taken."""
    handler = request.json(EventHandler)

    def change(tx: Tx) -> None:
        event_handlers.add_handler(tx, handler)
        request.audit(tx, Action.REGISTER_EVENT_HANDLER, str(handler.name))

    await request.write(change)
    return DONE


async def update_handler(request: ApiRequest) -> Answer:
    """PUT /event: replace an event handler; 404 if the name is unknown."""
    handler = request.json(EventHandler)

    def change(tx: Tx) -> None:
        event_handlers.update_handler(tx, handler)
        request.audit(tx, Action.UPDATE_EVENT_HANDLER, str(handler.name))

    await request.write(change)
    return DONE


async def list_handlers(request: ApiRequest) -> Answer:
    """GET /event: return all event handlers."""
    found = await request.reader.read(event_handlers.find_handlers)
    return as_json([handler.wire() for handler in found])


async def list_handlers_of_event(request: ApiRequest) -> Answer:
    """GET /event/{event}?activeOnly=true: return the handlers of an event."""
    active_only = request.query_flag("activeOnly", default=True)
    event = request.params["event"]
    found = await request.reader.read(lambda tx: event_handlers.find_handlers(tx, event, active_only=active_only))
    return as_json([handler.wire() for handler in found])


async def remove_handler(request: ApiRequest) -> Answer:
    """DELETE /event/{name}: delete an event handler; 404 if the name is unknown."""

    def change(tx: Tx) -> None:
        event_handlers.remove_handler(tx, request.params["event"])
        request.audit(tx, Action.DELETE_EVENT_HANDLER, request.params["event"])

    await request.write(change)
    return DONE


ROUTES = [
    Route("POST", "/api/event", add_handler, Access.ADMIN, body=EventHandler),
    Route("PUT", "/api/event", update_handler, Access.ADMIN, body=EventHandler),
    Route("GET", "/api/event", list_handlers, Access.READ),
    Route("GET", "/api/event/{event}", list_handlers_of_event, Access.READ, query={"activeOnly": "boolean"}),
    Route("DELETE", "/api/event/{event}", remove_handler, Access.ADMIN),
]
