"""The loop over published events: find the handlers that apply, and carry out their actions.

An action and the record that it was carried out share one transaction. The actions of one event can take several
transactions, so that other callers are served in between.
"""

from __future__ import annotations

import logging
import time
from collections import deque

import msgspec

from conductor.coordinator.definitions.event_handlers import EventHandler, HandlerAction, find_handlers
from conductor.coordinator.events.event_actions import EventActions
from conductor.coordinator.language.expressions import lookup_in, resolve
from conductor.coordinator.language.javascript_subset import ConditionError, evaluate, is_true
from conductor.coordinator.language.value_sizes import TooLarge
from conductor.coordinator.limits import TURN_S
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.statements import KEEP_ACTIONS_OF_EVENT, REMOVE_EVENT, WAITING_EVENTS, WORKFLOW
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import is_fault_of_file
from conductor.protocol.json_types import Json, JsonObject

logger = logging.getLogger(__name__)

#: The name of a handler, and one of its actions.
_NamedAction = tuple[str, HandlerAction]
_decode_actions = msgspec.json.Decoder(list[_NamedAction]).decode


class EventHandlerLoop:
    """Takes events from the store and carries out the actions of their handlers."""

    def __init__(self, actions: EventActions) -> None:
        self._actions = actions

    def handle(self, tx: Tx, limit: int) -> None:
        """Carry out the actions of the oldest events, for at most `limit` events and about `TURN_S`.

        The next transaction continues with the remaining events, and with the remaining actions of an event.
        """
        ends_s = time.thread_time() + TURN_S
        for pk, event, encoded_payload, encoded_actions in tx.rows(WAITING_EVENTS, limit):
            payload: JsonObject = msgspec.json.decode(encoded_payload)
            about = {"conductor.event.messageId": str(pk), "conductor.event.name": event}
            if encoded_actions is None:
                remaining = deque(_find_actions(tx, event, payload))
            else:
                remaining = deque(_decode_actions(encoded_actions))
            while remaining:
                self._act(tx, *remaining.popleft(), payload, about)
                if remaining and time.thread_time() > ends_s:
                    tx.run(KEEP_ACTIONS_OF_EVENT, msgspec.json.encode(list(remaining)), pk)
                    return
            tx.run(REMOVE_EVENT, pk)
            if time.thread_time() > ends_s:
                return

    def _act(self, tx: Tx, handler: str, action: HandlerAction, payload: JsonObject, about: JsonObject) -> None:
        """Carry out one action. A failure is logged, and the other actions follow."""
        data = _parse_texts(payload) if action.expand_inline_json else payload
        try:
            with tx.savepoint():
                arguments = resolve(action.arguments, lookup_in(data))
                self._actions.carry_out(tx, action.action, arguments, about, _find_publisher(tx, payload))
        except (ApiError, TooLarge) as error:
            reason = error.in_one_line() if isinstance(error, ApiError) else str(error)
            logger.warning("Event action failed: handler=%s action=%s error=%r", handler, action.action, reason)
        except Exception as error:
            if is_fault_of_file(error):
                raise
            logger.exception("Event action failed unexpectedly: handler=%s action=%s", handler, action.action)


def _find_actions(tx: Tx, event: str, payload: JsonObject) -> list[_NamedAction]:
    """Return the actions of all handlers that apply to an event, each with the name of its handler."""
    found = [handler for handler in find_handlers(tx, event, active_only=True) if _applies(handler, payload)]
    return [(handler.name or "", action) for handler in found for action in handler.actions]


def _find_publisher(tx: Tx, payload: JsonObject) -> WorkflowRow | None:
    """Return the workflow whose EVENT task or whose end published an event, or None if it was removed."""
    pk = tx.ids.workflow_pk(payload.get("workflowInstanceId") or payload.get("workflowId"))
    return None if pk is None else tx.first(WORKFLOW, pk)


def _applies(handler: EventHandler, payload: JsonObject) -> bool:
    if not (handler.condition or "").strip():
        return True
    try:
        return is_true(evaluate(handler.condition or "", payload))
    except ConditionError as error:
        logger.warning("Event handler skipped, condition failed: handler=%s error=%r", handler.name, str(error))
        return False


def _parse_texts(payload: JsonObject) -> JsonObject:
    """Return a payload in which each text with a JSON object or array is replaced by the parsed value."""
    return {name: _parse_text(value) for name, value in payload.items()}


def _parse_text(value: Json) -> Json:
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
