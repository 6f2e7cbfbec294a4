"""Hands events to listeners, synchronously and in order. A slow or broken listener never slows or breaks a worker."""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections.abc import Callable, Container, Iterable
from typing import Any, ParamSpec

from conductor.client.event.task_runner_events import TaskRunnerEvent, handlers_of

logger = logging.getLogger(__name__)

#: A listener that takes longer is named in the log.
SLOW_LISTENER_S = 0.1

P = ParamSpec("P")


class SyncEventDispatcher:
    """`register(event_type, function)`, then `publish(event)` calls every function registered for its type."""

    def __class_getitem__(cls, _event_type: object) -> type[SyncEventDispatcher]:
        """`SyncEventDispatcher[TaskRunnerEvent]()` is how programs for conductor-python write it."""
        return cls

    def __init__(self, listeners: Iterable[object] = ()) -> None:
        self._handlers: dict[type[Any], list[Callable[[Any], object]]] = {}
        #: The types of event that somebody listens to. Who makes events looks here first: most are never made.
        self.heard: Container[type[Any]] = self._handlers
        for listener in listeners:
            self.register_listener(listener)

    def register(self, event_type: type[Any], listener: Callable[[Any], object]) -> None:
        """Call `listener(event)` for every event of exactly this type."""
        self._handlers.setdefault(event_type, []).append(listener)

    def unregister(self, event_type: type[Any], listener: Callable[[Any], object]) -> None:
        """Undo one `register`; unknown listeners are ignored."""
        handlers = self._handlers.get(event_type, [])
        if listener in handlers:
            handlers.remove(listener)

    def register_listener(self, listener: object) -> None:
        """Register every `on_…` method that the object has."""
        for event_type, method in handlers_of(listener):
            self.register(event_type, method)

    def has_listeners(self, event_type: type[Any]) -> bool:
        """Whether anybody listens to this type of event."""
        return bool(self._handlers.get(event_type))

    def listener_count(self, event_type: type[Any]) -> int:
        """How many listen to this type of event."""
        return len(self._handlers.get(event_type, ()))

    def publish(self, event: TaskRunnerEvent) -> None:
        """Hand the event to its listeners, in the order in which they were registered."""
        for handler in self._handlers.get(type(event), ()):
            _call(handler, event)

    def emit(self, event_type: Callable[P, TaskRunnerEvent], *args: P.args, **kwargs: P.kwargs) -> None:
        """Like `publish(event_type(*args))`, but an event nobody listens to is never built."""
        handlers = self._handlers.get(event_type)  # type: ignore[call-overload]
        if handlers:
            event = event_type(*args, **kwargs)
            for handler in handlers:
                _call(handler, event)


def _call(handler: Callable[[Any], object], event: TaskRunnerEvent) -> None:
    started = time.monotonic()
    try:
        handler(event)
    except (Exception, SystemExit, CancelledError) as error:  # these two would end the worker
        logger.error("Event listener failed: %s", error, exc_info=True)
    took = time.monotonic() - started
    if took > SLOW_LISTENER_S:
        name = getattr(handler, "__qualname__", repr(handler))
        logger.warning(
            "Event listener %s took %.0f ms for %s; it holds up its worker", name, took * 1000, type(event).__name__
        )


#: The name the design guide uses.
EventDispatcher = SyncEventDispatcher
