"""Events that were published: which handlers apply, and what they do.

Each action is carried out in one transaction, together with the note that it was. The actions of one event may take
several transactions, so that other callers are served in between.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Any

import msgspec

from conductor.coordinator.definitions.event_handlers import EventHandler, HandlerAction, find_handlers
from conductor.coordinator.events.event_actions import EventActions
from conductor.coordinator.language.expressions import lookup_in, resolve
from conductor.coordinator.language.javascript_subset import ConditionError, evaluate, is_true
from conductor.coordinator.language.value_sizes import TooLarge
from conductor.coordinator.limits import TURN_S
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import is_fault_of_file

logger = logging.getLogger(__name__)

#: An action, and the name of the handler that it belongs to.
_NamedAction = tuple[str, HandlerAction]
_read_actions = msgspec.json.Decoder(list[_NamedAction]).decode


class EventHandlerLoop:
    """Takes events from the store."""

    def __init__(self, consequences: EventActions) -> None:
        self._consequences = consequences

    def handle(self, tx: Tx, limit: int) -> None:
        """Carry out the actions of the oldest events, of at most `limit` events and for about `TURN_S`.

        The rest follows in the next transaction: the events, and the actions that are left of one of them.
        """
        ends_s = time.thread_time() + TURN_S
        for pk, event, payload, kept in tx.rows("waiting events", limit):
            told: dict[str, Any] = msgspec.json.decode(payload)
            about = {"conductor.event.messageId": str(pk), "conductor.event.name": event}
            left = deque(_actions_for(tx, event, told) if kept is None else _read_actions(kept))
            while left:
                self._act(tx, *left.popleft(), told, about)
                if left and time.thread_time() > ends_s:
                    tx.run("keep actions of event", msgspec.json.encode(list(left)), pk)
                    return
            tx.run("remove event", pk)
            if time.thread_time() > ends_s:
                return

    def _act(self, tx: Tx, handler: str, action: HandlerAction, told: dict[str, Any], about: dict[str, Any]) -> None:
        """One action: what cannot be done is a line in the log, and the others are done."""
        payload = _expanded(told) if action.expand_inline_json else told
        try:
            with tx.savepoint():
                asked = resolve(action.asked, lookup_in(payload))
                self._consequences.carry_out(tx, action.action, asked, about, _publisher(tx, told))
        except (ApiError, TooLarge) as error:
            why = error.in_one_line() if isinstance(error, ApiError) else error
            logger.warning("event handler %s could not %s: %s", handler, action.action, why)
        except Exception as error:
            if is_fault_of_file(error):
                raise
            logger.exception("event handler %s could not %s", handler, action.action)


def _actions_for(tx: Tx, event: str, payload: dict[str, Any]) -> list[_NamedAction]:
    """Return the actions of all handlers that apply to an event, each with the name of its handler."""
    found = [handler for handler in find_handlers(tx, event, active_only=True) if _applies(handler, payload)]
    return [(handler.name or "", action) for handler in found for action in handler.actions]


def _publisher(tx: Tx, told: dict[str, Any]) -> WorkflowRow | None:
    """Return the workflow that published an event: by an EVENT task, or by its end. None if it was removed since."""
    pk = tx.ids.workflow_pk(told.get("workflowInstanceId") or told.get("workflowId"))
    found = None if pk is None else tx.row("workflow", pk)
    return None if found is None else WorkflowRow(*found)


def _applies(handler: EventHandler, payload: dict[str, Any]) -> bool:
    if not (handler.condition or "").strip():
        return True
    try:
        return is_true(evaluate(handler.condition or "", payload))
    except ConditionError as error:
        logger.warning("event handler %s cannot say whether it applies: %s", handler.name, error)
        return False


def _expanded(payload: dict[str, Any]) -> dict[str, Any]:
    """Texts that are JSON objects or arrays, as what they say."""
    return {name: _read(value) for name, value in payload.items()}


def _read(value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
