"""Event handlers: what may be registered, where it is kept, and the events that wait for them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import field

from conductor.coordinator.language.javascript_subset import ConditionError, parse
from conductor.coordinator.limits import MAX_HANDLER_ACTIONS
from conductor.coordinator.request_errors import ApiError, bad_request, conflict, invalid, not_found
from conductor.coordinator.store.transaction import Tx

#: What internal events begin with: conductor:<workflow>:<event>.
INTERNAL = "conductor:"
Kind = Literal["start_workflow", "complete_task", "fail_task", "terminate_workflow", "update_workflow_variables"]


class HandlerAction(msgspec.Struct, kw_only=True):
    """One thing to do: `action` names which of the others counts. The wire has snake_case here."""

    action: str | None = None
    start_workflow: dict[str, Any] | None = None
    complete_task: dict[str, Any] | None = None
    fail_task: dict[str, Any] | None = None
    terminate_workflow: dict[str, Any] | None = None
    update_workflow_variables: dict[str, Any] | None = None
    expand_inline_json: bool = field(default=False, name="expandInlineJSON")

    @property
    def asked(self) -> dict[str, Any]:
        """What it is to do it with."""
        return getattr(self, self.action or "", None) or {}


class EventHandler(msgspec.Struct, rename="camel", kw_only=True):
    """Which event to listen for, when it counts, and what to do then."""

    name: str | None = None
    event: str | None = None
    condition: str | None = None
    actions: list[HandlerAction] = []
    active: bool = False
    evaluator_type: str | None = None

    def wire(self) -> dict[str, Any]:
        """As JSON, without what is absent."""
        found = msgspec.to_builtins(self)
        found["actions"] = [{k: v for k, v in action.items() if v is not None} for action in found["actions"]]
        return {key: value for key, value in found.items() if value is not None}

    def check(self, method: str) -> None:
        """Refuse what could never be acted on, by name."""
        problems = [
            (f"{method}.arg0.{name}", why)
            for name, missing, why in (
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
                f"event {self.event!r} comes from elsewhere; this coordinator has events {INTERNAL}… only"
            )
        if self.evaluator_type not in (None, "", "javascript", "graaljs"):
            raise bad_request(
                f"evaluatorType {self.evaluator_type!r} of an event handler is not supported: javascript is"
            )
        if len(self.actions) > MAX_HANDLER_ACTIONS:
            raise bad_request(f"an event handler has at most {MAX_HANDLER_ACTIONS} actions, not {len(self.actions)}")
        for action in self.actions:
            _check_action(action)
        try:
            parse(self.condition or "true")
        except ConditionError as error:
            raise bad_request(f"the condition of event handler {self.name}: {error}") from error


#: What an action cannot do without: one of these.
_NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "start_workflow": (("name",),),
    "complete_task": (("workflowId", "taskId"), ("taskRefName", "taskId")),
    "fail_task": (("workflowId", "taskId"), ("taskRefName", "taskId")),
    "terminate_workflow": (("workflowId",),),
    "update_workflow_variables": (("workflowId",), ("variables",)),
}


def _check_action(action: HandlerAction) -> None:
    if action.action not in _NEEDED:
        raise bad_request(
            f"action {action.action!r} of an event handler is not supported by the coordinator; "
            f"supported: {', '.join(_NEEDED)}"
        )
    for names in _NEEDED[action.action]:
        if not any(action.asked.get(name) for name in names):
            raise bad_request(f"action {action.action} of an event handler needs {' or '.join(names)}")


# -- handlers in the store -----------------------------------------------------------------------------------------


def add_handler(tx: Tx, handler: EventHandler) -> None:
    """Register one; 409 if there is one of that name."""
    handler.check("addEventHandler")
    if tx.row("event handler", handler.name) is not None:
        raise conflict(f"EventHandler with name {handler.name} already exists!")
    _put(tx, handler)


def update_handler(tx: Tx, handler: EventHandler) -> None:
    """Replace one; 404 if there is none."""
    handler.check("updateEventHandler")
    if tx.row("event handler", handler.name) is None:
        raise _unknown(handler.name)
    _put(tx, handler)


def remove_handler(tx: Tx, name: str) -> None:
    """Forget one; 404 if there is none."""
    if not tx.define("drop event handler", name):
        raise _unknown(name)


def find_handlers(tx: Tx, event: str | None = None, *, active_only: bool = False) -> list[EventHandler]:
    """All of them, or those of an event."""
    rows = tx.matching("event handlers", {"event": event, "active": active_only})
    return [msgspec.json.decode(body, type=EventHandler) for (body,) in rows]


def _put(tx: Tx, handler: EventHandler) -> None:
    body = msgspec.json.encode(handler.wire())
    tx.define("set event handler", handler.name, handler.event, handler.active, body)


def _unknown(name: str | None) -> ApiError:
    return not_found(f"EventHandler with name {name} not found!")


# -- events --------------------------------------------------------------------------------------------------------


def publish_event(tx: Tx, event: str, payload: dict[str, Any]) -> None:
    """Tell the handlers of this event, in the next transaction after this one. Nobody listens: nothing is kept."""
    if tx.fact("listening", event) is None:
        return
    tx.run("add event", event, msgspec.json.encode(payload), tx.now_ms)
    tx.notes.add_wake(tx.now_ms)
