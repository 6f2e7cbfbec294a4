"""Events that were published: which handlers apply, and what they do. Each event is acted on in one transaction."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from conductor.coordinator.definitions.event_handlers import EventHandler, HandlerAction, handlers
from conductor.coordinator.errors import ApiError
from conductor.coordinator.events.consequences import Consequences
from conductor.coordinator.language.conditions import ConditionError, evaluate, is_true
from conductor.coordinator.language.expressions import named, resolve
from conductor.coordinator.language.sizes import TooLarge
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import is_fault_of_file

logger = logging.getLogger(__name__)


class Handled:
    """Takes events from the store."""

    def __init__(self, consequences: Consequences) -> None:
        self._consequences = consequences

    def handle(self, tx: Tx, limit: int) -> None:
        """Act on the oldest events, at most so many; the rest waits."""
        for pk, event, payload in tx.rows("waiting events", limit):
            tx.run("remove event", pk)
            told: dict[str, Any] = msgspec.json.decode(payload)
            about = {"conductor.event.messageId": str(pk), "conductor.event.name": event}
            for handler in handlers(tx, event, active_only=True):
                if _applies(handler, told):
                    for action in handler.actions:
                        self._act(tx, handler, action, told, about)

    def _act(
        self, tx: Tx, handler: EventHandler, action: HandlerAction, told: dict[str, Any], about: dict[str, Any]
    ) -> None:
        """One action: what cannot be done is a line in the log, and the others are done."""
        payload = _expanded(told) if action.expand_inline_json else told
        try:
            with tx.savepoint():
                asked = resolve(action.asked, named(payload))
                self._consequences.carry_out(tx, action.action, asked, about)
        except (ApiError, TooLarge) as error:
            why = error.in_one_line() if isinstance(error, ApiError) else error
            logger.warning("event handler %s could not %s: %s", handler.name, action.action, why)
        except Exception as error:
            if is_fault_of_file(error):
                raise
            logger.exception("event handler %s could not %s", handler.name, action.action)


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
