"""`/view/events`: tells open web UIs which workflows have changed, as server-sent events.

Each commit tells the feed which workflows it has changed. While there is a stream, and for `LINGER_S` after the last
one, the feed gathers these changes for `GATHER_S` and publishes them as one event. At other times a commit costs one
comparison.

All methods run on the coordinator's event loop. Streams share one ring buffer of encoded events. A client that
reconnects sends the id of its last event. If the ring buffer still has all later events, the client gets them;
otherwise it gets `reset`, and reads everything again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable

import msgspec

from conductor.coordinator.store.transaction import Notes

MAX_STREAMS = 64
#: A stream ends after this many bytes or seconds; its client connects again, and its token is checked again.
MAX_STREAM_BYTES = 10 * 1024 * 1024
MAX_STREAM_S = 600.0
#: An idle stream sends a comment, so that a connection that has died is noticed.
PING_S = 15.0
GATHER_S = 0.25
LINGER_S = 60.0
#: Number of events that a client can catch up on.
MAX_EVENTS = 256
#: An event names at most this many workflows. If more have changed, it says `all`.
MAX_NAMED = 100
#: The first line of each stream. It tells clients how many milliseconds to wait before they connect again.
_FIRST_LINE = b"retry: 2000\n"
_PING = b": no changes\n\n"


class ChangeFeed:
    """Gathers changes and streams them to any number of clients, up to `MAX_STREAMS`."""

    def __init__(self, make_id: Callable[[int], str]) -> None:
        self._make_id = make_id
        #: Part of each event id, because the event numbers of every process begin at 1.
        self._origin = secrets.token_hex(4)
        self._last = 0
        self._ring: deque[tuple[int, bytes]] = deque(maxlen=MAX_EVENTS)
        self._changed: set[int] = set()
        self._is_active = False
        self._is_closed = False
        self._streams = 0
        self._publish_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        #: Set, and replaced by a new object, whenever an event is published.
        self._news = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether no further stream can begin."""
        return self._streams >= MAX_STREAMS

    def note(self, notes: Notes) -> None:
        """Add the changes of a commit."""
        if self._is_active and (notes.changed_workflows or notes.ready):
            self._add(notes.changed_workflows)

    def note_tasks(self, workflows: Iterable[int | None]) -> None:
        """Add the workflows whose tasks workers have polled."""
        self._add(workflow for workflow in workflows if workflow is not None)

    @property
    def is_active(self) -> bool:
        """Whether changes are gathered."""
        return self._is_active

    def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        for timer in (self._publish_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        self._wake()

    async def stream(
        self, last_event_id: str, gone: asyncio.Event, is_admitted: Callable[[], bool] = lambda: True
    ) -> AsyncGenerator[bytes]:
        """Yield encoded events until the feed is closed, the client is `gone`, or a limit is reached.

        Args:
            last_event_id: The id of the last event that the client has, or an empty string.
            gone: Set when the client disconnects.
            is_admitted: Whether the client may still read the stream. Its secret can expire while the stream is open.
        """
        loop = asyncio.get_running_loop()
        ends_at, sent = loop.time() + MAX_STREAM_S, 0
        self._add_stream()
        try:
            known = self._find_position(last_event_id)
            position = self._last if known is None else known
            yield _FIRST_LINE + self._encode("open" if known is not None or not last_event_id else "reset", {})
            while not (self._is_closed or gone.is_set() or sent > MAX_STREAM_BYTES or loop.time() > ends_at):
                if not is_admitted():
                    return
                news = self._news
                parts = self._read_after(position)
                position = self._last
                for part in parts:
                    sent += len(part)
                    yield part
                if self._news is not news:
                    continue  # an event was published while the client was reading
                if not await _wait_for_any(news, gone):
                    sent += len(_PING)
                    yield _PING
        finally:
            self._remove_stream()

    # -- the streams

    def _add_stream(self) -> None:
        self._streams += 1
        self._is_active = True
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _remove_stream(self) -> None:
        self._streams -= 1
        if not self._streams and not self._is_closed:
            self._linger_timer = asyncio.get_running_loop().call_later(LINGER_S, self._stop_gathering)

    def _stop_gathering(self) -> None:
        """Stop gathering changes. Clients that reconnect later get `reset`, because the feed has missed changes."""
        self._linger_timer = None
        self._is_active = False
        self._ring.clear()
        self._changed.clear()
        self._last += 1

    def _find_position(self, last_event_id: str) -> int | None:
        """Return the number of the client's last event; None if it is unknown or too old."""
        origin, _, number = last_event_id.partition("-")
        if origin != self._origin or not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        position = int(number)
        oldest = self._ring[0][0] if self._ring else self._last + 1
        return position if oldest - 1 <= position <= self._last else None

    def _read_after(self, position: int) -> list[bytes]:
        oldest = self._ring[0][0] if self._ring else self._last + 1
        if position < oldest - 1:  # the client reads so slowly that events were dropped
            return [self._encode("reset", {})]
        return [part for number, part in self._ring if number > position]

    # -- the events

    def _add(self, workflows: Iterable[int]) -> None:
        if len(self._changed) <= MAX_NAMED:
            self._changed.update(workflows)
        if self._publish_timer is None and not self._is_closed:
            self._publish_timer = asyncio.get_running_loop().call_later(GATHER_S, self._publish)

    def _publish(self) -> None:
        self._publish_timer = None
        changed, self._changed = self._changed, set()
        if not self._is_active:
            return
        has_all = len(changed) > MAX_NAMED
        names = [] if has_all else [self._make_id(pk) for pk in sorted(changed)]
        self._last += 1
        self._ring.append((self._last, self._encode("change", {"workflows": names, "all": has_all})))
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _encode(self, event: str, data: object) -> bytes:
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (
            self._origin.encode(),
            self._last,
            event.encode(),
            msgspec.json.encode(data),
        )


async def _wait_for_any(*events: asyncio.Event) -> bool:
    """Wait until one of the events is set. Return False after `PING_S`."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for wait in waits:
            wait.cancel()
