"""What a connection repeats is not read again, and nobody can tell that from the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conductor.clock import SYSTEM_CLOCK
from conductor.coordinator.core import Core
from conductor.coordinator.http.app import App, Request
from conductor.coordinator.http.connection import Connection, Connections
from conductor.coordinator.http.heads import MAX_HEAD_BYTES, MAX_HEADERS, MAX_HEADS, Heads
from conductor.coordinator.http.origins import Origins
from conductor.coordinator.http.routes import ROUTES
from conductor.coordinator.store.file import MEMORY
from conductor.coordinator.store.writer import Store


def no_reports(length: int) -> bytes:
    """The head of a request that changes nothing."""
    head = b"POST /api/tasks/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % length


BODY = b"[   ]"
REPORTS = no_reports(5)
#: Lengths that a parser understands, in other words than most clients use.
SPELT = [
    REPORTS.replace(b"Content-Length: 5", spelling)
    for spelling in (b"Content-Length:5", b"content-length:  5", b"Content-Length: 5 ", b"Content-Length: 0000000005")
]
NO_LENGTH = REPORTS.replace(b"Length: 5", b"Length: ")
POLL = no_reports(0).replace(b"reports", b"poll/batch/none?timeout=0")
TEXT_WITHOUT_BODY = POLL.replace(b"application/json", b"text/plain")
TEXT_WITH_BODY = TEXT_WITHOUT_BODY.replace(b"Length: 0", b"Length: 5") + BODY
ASK = b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"POST /api/nosuch HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"\r\n\r\n"
EXPECTING = REPORTS.replace(END, b"\r\nExpect: 100-continue" + END)
SEGMENTS = [
    *SPELT, *(spelt + BODY for spelt in SPELT), BODY, REPORTS, REPORTS + BODY, no_reports(4) + b"[  ]", no_reports(0),
    NO_LENGTH, TEXT_WITHOUT_BODY, TEXT_WITH_BODY, ASK, ASK + ASK, ASK[:-4], ASK[-2:], END, CHUNKED, b"0" + END,
    CHUNKED + b"0" + END, ASK + b"GET /api/nosuch HTTP/1.1\r\nX: ", REPORTS + b"[ ", b"  ]",
    ASK.replace(b"HTTP/1.1", b"HTTP/1.0"), ASK.replace(END, b"\r\nConnection: keep-alive" + END),
    ASK.replace(b"GET", b"HEAD"), ASK.replace(b"localhost", b"elsewhere.example"),
    b"\r\nHost: elsewhere.example" + END, EXPECTING,
    EXPECTING + BODY, ASK.replace(END, b"\r\nConnection: Upgrade\r\nUpgrade: h2c" + END),
    ASK.replace(END, b"\r\nContent-Length: 5" + END) + BODY,
]  # fmt: skip


class Wire(asyncio.Transport):
    """A socket whose pieces arrive as they are cut."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = write_eof = close

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Whoever uses this waits for the answer before it says more."""

    resume_reading = pause_reading


class Talk:
    """A connection, and what is said on it."""

    def __init__(self, app: App) -> None:
        self.wire = Wire()
        self.connection = Connection(Connections(app))
        self.connection.connection_made(self.wire)

    async def say(self, segment: bytes) -> None:
        """The next piece arrives, once all before it is answered that can be."""
        if self.wire.closed:
            return
        self.connection.data_received(segment)
        while self._is_answered_soon():
            await asyncio.sleep(0)

    def _is_answered_soon(self) -> bool:
        current, task = self.connection._current, self.connection._task
        waits_for_body = current is not None and not current.body_complete and current._arrived is not None
        return task is not None and not task.done() and not waits_for_body and not self.wire.closed

    def end(self) -> None:
        self.connection.cut()
        self.connection.connection_lost(None)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    found = Store(MEMORY)
    yield found
    found.close()


def app_of(store: Store) -> App:
    return App(Core(store, SYSTEM_CLOCK), ROUTES, Origins("127.0.0.1"))


async def answers(store: Store, segments: list[bytes]) -> bytes:
    talk = Talk(app_of(store))
    for segment in segments:
        await talk.say(segment)
    talk.end()
    return talk.wire.written


@given(segments=st.lists(st.sampled_from(SEGMENTS), min_size=2, max_size=8))
@example(segments=[SPELT[0], BODY, SPELT[0], BODY])
@example(segments=[SPELT[1] + BODY, SPELT[1], BODY])
@example(segments=[TEXT_WITHOUT_BODY, TEXT_WITH_BODY])
@example(segments=[ASK, ASK + b"GET /api/nosuch HTTP/1.1\r\nX: ", ASK, ASK])
@example(segments=[END, ASK, END, ASK])
@example(segments=[ASK, ASK[:-4], b"\r\nHost: elsewhere.example" + END])
@example(segments=[CHUNKED, b"0" + END + ASK, CHUNKED, b"0" + END])
@example(segments=[REPORTS + BODY, REPORTS + BODY, REPORTS, BODY, REPORTS + b"[ ", b"  ]", NO_LENGTH])
def test_the_same_answers_as_if_all_were_read(store: Store, segments: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Heads, "request", lambda _heads, _data: None)
        expected = asyncio.run(answers(store, segments))
    assert asyncio.run(answers(store, segments)) == expected


async def test_what_is_repeated_is_not_parsed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(app_of(store))
    await talk.say(REPORTS + BODY)
    await talk.say(ASK)
    monkeypatch.setattr(Connection, "_parse", lambda *_: pytest.fail("it was parsed"))
    for said in (REPORTS + BODY, ASK, no_reports(4) + b"[  ]"):
        await talk.say(said)
    assert talk.wire.written.count(b"HTTP/1.1 200 OK") == 5
    talk.end()


async def test_what_is_kept_of_a_connection_is_little(store: Store) -> None:
    talk = Talk(app_of(store))
    lines = [b"x: %d" % number for number in range(9)]
    many = b"\r\n".join(b"x%d: y" % number for number in range(40))
    for more in (*lines, many, b"x: " + b"y" * MAX_HEAD_BYTES):
        await talk.say(ASK.replace(END, b"\r\n" + more + END))
    await talk.say(ASK.replace(END, b"\r\nContent-Length: 5" + END) + BODY)
    known = talk.connection._heads._known
    assert 0 < len(known) <= MAX_HEADS
    assert all(len(head) <= MAX_HEAD_BYTES and len(one.headers) <= MAX_HEADERS for head, one in known.items())
    assert {one.body + one.whole_body() for one in known.values()} == {b""}
    talk.end()


def test_one_that_comes_again_has_all_that_a_request_has() -> None:
    request = Request("GET", b"/api/version?a=b", {b"host": b"localhost"})
    request.core = None  # type: ignore[assignment] # nobody asks it
    again = request.again(b"body")
    assert all(hasattr(again, name) for name in Request.__slots__)
    assert (again.query("a"), again.whole_body(), again.body_complete) == ("b", b"body", True)
