"""Calls listeners for events, synchronously and in order. An exception of a listener does not affect the worker."""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec

from conductor.client.event.task_runner_events import TaskRunnerEvent, find_handlers

logger = logging.getLogger(__name__)

#: A call of a listener that takes longer than this is logged as slow.
SLOW_LISTENER_S = 0.1

P = ParamSpec("P")


class SyncEventDispatcher:
    """Calls the listeners that are registered for the type of an event.

    Args:
        listeners: Objects whose `on_…` methods are registered.

    Example:
        dispatcher = SyncEventDispatcher()
        dispatcher.register(PollFailure, lambda event: print(event.cause))
    """

    def __class_getitem__(cls, _event_type: object) -> type[SyncEventDispatcher]:
        """Return the class itself. Programs for conductor-python write `SyncEventDispatcher[TaskRunnerEvent]()`."""
        return cls

    def __init__(self, listeners: Iterable[object] = ()) -> None:
        self._handlers: dict[type[Any], list[Callable[[Any], object]]] = {}
        for listener in listeners:
            self.register_listener(listener)

    def register(self, event_type: type[Any], listener: Callable[[Any], object]) -> None:
        """Call `listener(event)` for every event of exactly this type."""
        self._handlers.setdefault(event_type, []).append(listener)

    def unregister(self, event_type: type[Any], listener: Callable[[Any], object]) -> None:
        """Remove one registration. An unknown listener is ignored."""
        handlers = self._handlers.get(event_type, [])
        if listener in handlers:
            handlers.remove(listener)

    def register_listener(self, listener: object) -> None:
        """Register every `on_…` method of an object."""
        for event_type, method in find_handlers(listener):
            self.register(event_type, method)

    def has_listeners(self, event_type: type[Any]) -> bool:
        """Return whether this type of event has listeners."""
        return bool(self._handlers.get(event_type))

    def listener_count(self, event_type: type[Any]) -> int:
        """Return the number of listeners for this type of event."""
        return len(self._handlers.get(event_type, ()))

    def publish(self, event: TaskRunnerEvent) -> None:
        """Call the listeners for an event, in the order of their registration."""
        for handler in self._handlers.get(type(event), ()):
            _call(handler, event)

    def emit(self, event_type: Callable[P, TaskRunnerEvent], *args: P.args, **kwargs: P.kwargs) -> None:
        """Publish a new event. It is only created if its type has listeners."""
        handlers = self._handlers.get(event_type)  # type: ignore[call-overload]
        if handlers:
            event = event_type(*args, **kwargs)
            for handler in handlers:
                _call(handler, event)


def _call(handler: Callable[[Any], object], event: TaskRunnerEvent) -> None:
    started = time.monotonic()
    try:
        handler(event)
    except (Exception, SystemExit, CancelledError) as error:  # SystemExit or CancelledError would end the worker
        logger.error("Event listener failed: %s", error, exc_info=True)
    took = time.monotonic() - started
    if took > SLOW_LISTENER_S:
        name = getattr(handler, "__qualname__", repr(handler))
        logger.warning(
            "Slow event listener: %s took %.0f ms for %s and delayed its worker",
            name,
            took * 1000,
            type(event).__name__,
        )


#: The design guide of conductor-python calls the class by this name.
EventDispatcher = SyncEventDispatcher
