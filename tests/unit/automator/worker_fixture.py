"""Shared by the tests of the worker core: running workers, what they publish, and gates that hold their tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import EVENT_TYPES, handler_name
from conductor.client.worker.worker import Worker
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.testing import ConductorStub
from conductor.testing.wait_until import Watch

T = TypeVar("T")

#: The two ways to write a worker's function.
KINDS = ("def", "async def")


class Events:
    """A listener that remembers everything a worker publishes, in order."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        #: Nothing more is noted.
        self.closed = False
        self._watch = Watch(lambda: f"events: {self.names}")
        for event_type in EVENT_TYPES:
            setattr(self, handler_name(event_type), self._note)

    def _note(self, event: Any) -> None:
        if self.closed:
            return
        with self._watch.held:
            self.all.append(event)
        self._watch.notify()

    @property
    def names(self) -> list[str]:
        """The names of the events, in order."""
        return [type(event).__name__ for event in self.all]

    def of(self, *event_types: type[T]) -> list[T]:
        """Return the events of some types."""
        return [event for event in self.all if isinstance(event, event_types)]

    async def until(self, event_type: type[T], count: int = 1) -> list[T]:
        """Wait until there are that many events of a type."""
        await self._watch.until(lambda: len(self.of(event_type)) >= count)
        return self.of(event_type)

    async def until_any(self, event_types: tuple[type[Any], ...], count: int) -> None:
        """Wait until there are that many events of some types together."""
        await self._watch.until(lambda: len(self.of(*event_types)) >= count)

    def wait_any(self, event_types: tuple[type[Any], ...], count: int = 1) -> None:
        """The blocking version of the method above."""
        self._watch.wait_for(lambda: len(self.of(*event_types)) >= count)

    def wait(self, event_type: type[T], count: int = 1) -> list[T]:
        """The blocking version of the method above."""
        self._watch.wait_for(lambda: len(self.of(event_type)) >= count)
        return self.of(event_type)


class Gate:
    """Holds every task that comes to it, in a thread or in a coroutine, until the test lets it go."""

    def __init__(self) -> None:
        #: How many have come so far, and how many of them were let go.
        self.entered = 0
        self.passed = 0
        #: The most that were inside at the same time.
        self.most_inside = 0
        self._permits = 0
        self._open = False
        self._watch = Watch(lambda: f"entered: {self.entered}, passed: {self.passed}")

    def enter(self) -> None:
        """For a `def`."""
        self._arrive()
        self._watch.wait_for(self._leave)

    async def enter_async(self) -> None:
        """For an `async def`."""
        self._arrive()
        await self._watch.until(self._leave)

    def let_go(self, count: int | None = None) -> None:
        """Let some go, or all from now on."""
        with self._watch.held:
            self._open = self._open or count is None
            self._permits += count or 0
        self._watch.notify()

    async def until_entered(self, count: int) -> None:
        """Wait until that many have come."""
        await self._watch.until(lambda: self.entered >= count)

    def wait_entered(self, count: int) -> None:
        """The blocking version of the method above."""
        self._watch.wait_for(lambda: self.entered >= count)

    def worker(self, kind: str, name: str = "job", **options: Any) -> Worker:
        """A worker whose tasks wait here."""

        def hold() -> dict[str, bool]:
            self.enter()
            return {"held": True}

        async def hold_async() -> dict[str, bool]:
            await self.enter_async()
            return {"held": True}

        return Worker(name, hold if kind == "def" else hold_async, **options)

    def _arrive(self) -> None:
        with self._watch.held:
            self.entered += 1
            self.most_inside = max(self.most_inside, self.entered - self.passed)
        self._watch.notify()

    def _leave(self) -> bool:
        if not self._open and not self._permits:
            return False
        self._permits -= 0 if self._open else 1
        self.passed += 1
        return True


def of_kind(kind: str, function: Callable[..., Any], name: str = "job", **options: Any) -> Worker:
    """A worker of the same plain function, called as it is or from an `async def`."""

    async def called(task):  # type: ignore[no-untyped-def]
        return function(task)

    return Worker(name, function if kind == "def" else called, **options)


@asynccontextmanager
async def working(
    stub: ConductorStub,
    *workers: Any,
    clock: Clock = SYSTEM_CLOCK,
    events: Iterable[object] | object = (),
    grace_s: float = 0.0,
    **options: Any,
) -> AsyncIterator[TaskHandlerAsyncIO]:
    """Run workers on this event loop against the stub. Afterwards nothing is waited for: the stub goes first.

    What a worker then says of a server that is gone (a poll that was refused, say) is chance, and no test hears it.
    """
    listeners = list(events) if isinstance(events, list | tuple) else [events]
    handler = TaskHandlerAsyncIO(
        workers=list(workers),
        configuration=Configuration(stub.url),
        event_listeners=listeners,
        clock=clock,
        shutdown_grace_seconds=grace_s,
        **options,
    )
    await handler.start()
    try:
        yield handler
    finally:
        for listener in listeners:
            if isinstance(listener, Events):
                listener.closed = True
        logging.disable()
        try:
            stub.stop()
            await handler.stop()
        finally:
            logging.disable(logging.NOTSET)


def lines(caplog: Any, level: int = logging.WARNING) -> list[str]:
    """The messages of our loggers from a level on."""
    return [r.getMessage() for r in caplog.records if r.name.startswith("conductor") and r.levelno >= level]


async def turn_loop(times: int = 20) -> None:
    """Let everything that is ready on this event loop run."""
    for _ in range(times):
        await asyncio.sleep(0)


def wait_until(predicate: Callable[[], object]) -> None:
    """Poll for a condition without a notification: the state of a process, a line of a log."""
    ends_s = time.monotonic() + 60.0
    while not predicate():
        assert time.monotonic() < ends_s
        time.sleep(0.02)
