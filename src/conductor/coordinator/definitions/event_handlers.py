"""Event handlers and published events: their fields, their validation and their storage."""

from __future__ import annotations

import msgspec
from msgspec import field

from conductor.coordinator.language.javascript_subset import ConditionError, parse
from conductor.coordinator.limits import MAX_HANDLER_ACTIONS
from conductor.coordinator.request_errors import ApiError, bad_request, conflict, invalid, not_found
from conductor.coordinator.store.statements import (
    ADD_EVENT,
    DROP_EVENT_HANDLER,
    EVENT_HANDLER,
    EVENT_HANDLERS,
    LISTENING,
    SET_EVENT_HANDLER,
)
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import JsonObject

#: The prefix of internal events: conductor:<workflow>:<event>.
INTERNAL = "conductor:"


class HandlerAction(msgspec.Struct, kw_only=True):
    """An action of a handler. `action` names the field that holds the arguments.

    The names on the wire are in snake_case, except `expandInlineJSON`.
    """

    action: str | None = None
    start_workflow: JsonObject | None = None
    complete_task: JsonObject | None = None
    fail_task: JsonObject | None = None
    terminate_workflow: JsonObject | None = None
    update_workflow_variables: JsonObject | None = None
    expand_inline_json: bool = field(default=False, name="expandInlineJSON")

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the action."""
        return getattr(self, self.action or "", None) or {}


class EventHandler(msgspec.Struct, rename="camel", kw_only=True):
    """The event to listen for, the condition on its payload, and the actions to carry out."""

    name: str | None = None
    event: str | None = None
    condition: str | None = None
    actions: list[HandlerAction] = []
    active: bool = False
    evaluator_type: str | None = None

    def wire(self) -> JsonObject:
        """Return the handler as JSON. Fields without a value are left out."""
        fields = msgspec.to_builtins(self)
        fields["actions"] = [{k: v for k, v in action.items() if v is not None} for action in fields["actions"]]
        return {key: value for key, value in fields.items() if value is not None}

    def check(self, method: str) -> None:
        """Reject a handler that could never act. `method` is the name of the operation in Conductor's messages."""
        problems = [
            (f"{method}.arg0.{name}", message)
            for name, missing, message in (
                ("name", not (self.name or "").strip(), "Missing event handler name"),
                ("event", not (self.event or "").strip(), "Missing event location"),
                ("actions", not self.actions, "No actions specified. Please specify at-least one action"),
            )
            if missing
        ]
        if problems:
            raise invalid(problems)
        if not (self.event or "").startswith(INTERNAL):
            raise bad_request(
                f"event {self.event!r} is not supported by the coordinator; supported: {INTERNAL}<workflow>:<event>"
            )
        if self.evaluator_type not in (None, "", "javascript", "graaljs"):
            raise bad_request(
                f"evaluatorType {self.evaluator_type!r} of an event handler is not supported; supported: javascript"
            )
        if len(self.actions) > MAX_HANDLER_ACTIONS:
            raise bad_request(f"an event handler has at most {MAX_HANDLER_ACTIONS} actions, not {len(self.actions)}")
        for action in self.actions:
            _check_action(action)
        try:
            parse(self.condition or "true")
        except ConditionError as error:
            raise bad_request(f"the condition of event handler {self.name} cannot be parsed: {error}") from error


#: The required arguments of each kind of action. One name of each inner tuple must be present.
_REQUIRED: dict[str, tuple[tuple[str, ...], ...]] = {
    "start_workflow": (("name",),),
    "complete_task": (("workflowId", "taskId"), ("taskRefName", "taskId")),
    "fail_task": (("workflowId", "taskId"), ("taskRefName", "taskId")),
    "terminate_workflow": (("workflowId",),),
    "update_workflow_variables": (("workflowId",), ("variables",)),
}


def _check_action(action: HandlerAction) -> None:
    if action.action not in _REQUIRED:
        raise bad_request(
            f"action {action.action!r} of an event handler is not supported by the coordinator; "
            f"supported: {', '.join(_REQUIRED)}"
        )
    for names in _REQUIRED[action.action]:
        if not any(action.arguments.get(name) for name in names):
            raise bad_request(f"action {action.action} of an event handler needs {' or '.join(names)}")


# -- handlers in the store -----------------------------------------------------------------------------------------


def add_handler(tx: Tx, handler: EventHandler) -> None:
    """Register a handler; 409 if its name is taken."""
    handler.check("addEventHandler")
    if tx.first(EVENT_HANDLER, handler.name) is not None:
        raise conflict(f"EventHandler with name {handler.name} already exists!")
    _put(tx, handler)


def update_handler(tx: Tx, handler: EventHandler) -> None:
    """Replace a handler; 404 if the name is unknown."""
    handler.check("updateEventHandler")
    if tx.first(EVENT_HANDLER, handler.name) is None:
        raise _unknown(handler.name)
    _put(tx, handler)


def remove_handler(tx: Tx, name: str) -> None:
    """Remove a handler; 404 if the name is unknown."""
    if not tx.define(DROP_EVENT_HANDLER, name):
        raise _unknown(name)


def find_handlers(tx: Tx, event: str | None = None, *, active_only: bool = False) -> list[EventHandler]:
    """Return all handlers, or those of one event."""
    bodies = tx.rows(EVENT_HANDLERS, event=event, active=active_only)
    return [msgspec.json.decode(body, type=EventHandler) for body in bodies]


def _put(tx: Tx, handler: EventHandler) -> None:
    body = msgspec.json.encode(handler.wire())
    tx.define(SET_EVENT_HANDLER, handler.name, handler.event, handler.active, body)


def _unknown(name: str | None) -> ApiError:
    return not_found(f"EventHandler with name {name} not found!")


# -- events --------------------------------------------------------------------------------------------------------


def publish_event(tx: Tx, event: str, payload: JsonObject) -> None:
    """Store an event for its handlers, which act in a later transaction. An event without a handler is discarded."""
    if tx.cached_first(LISTENING, event) is None:
        return
    tx.run(ADD_EVENT, event, msgspec.json.encode(payload), tx.now_ms)
    tx.notes.add_wake(tx.now_ms)
