"""A request while it arrives: flow control, limits, and the end of its client."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from conductor.coordinator.http import body
from conductor.coordinator.http.body import UNREAD_BODY_BYTES, IncomingRequest, read_body
from conductor.coordinator.http.memory_budget import MemoryBudget, Reservation
from conductor.coordinator.http.request import RequestHead
from conductor.coordinator.request_errors import ApiError

LIMIT = 4 * UNREAD_BODY_BYTES


class Source:
    """A connection that notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def send_continue(self) -> None:
        self.calls.append("continue")


def request(source: Source, version: str = "1.1", **headers: bytes) -> IncomingRequest:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return IncomingRequest(RequestHead("POST", b"/", b"", named, version), source)


async def read(incoming: IncomingRequest, budget_bytes: int = LIMIT) -> bytes:
    return await read_body(incoming, LIMIT, Reservation(MemoryBudget(budget_bytes, "large requests")))


async def test_a_body_that_has_arrived_is_read_without_a_word_to_its_connection() -> None:
    source = Source()
    incoming = request(source)
    incoming.body.feed(b"ab")
    incoming.body.feed(b"c")
    incoming.body.finish()
    assert await read(incoming) == b"abc"
    assert source.calls == []


async def test_a_body_of_tiny_chunks_takes_no_more_memory_than_its_size() -> None:
    incoming = request(Source())
    part = b"ab" * 2
    tracemalloc.start()
    try:
        for at in range(30_000):
            incoming.body.feed(part[at % 2 : at % 2 + 2])  # a new object each time
        incoming.body.finish()
        assert await read(incoming) == b"abba" * 15_000
        assert tracemalloc.get_traced_memory()[1] < 4 * incoming.body.size
    finally:
        tracemalloc.stop()


async def test_a_large_body_waits_until_it_is_read() -> None:
    source = Source()
    incoming = request(source)
    incoming.body.feed(b"x" * (UNREAD_BODY_BYTES + 1))
    assert source.calls == ["pause"]
    reading = asyncio.create_task(read(incoming))
    await asyncio.sleep(0)
    assert source.calls == ["pause", "resume"]
    incoming.body.feed(b"y")
    incoming.body.finish()
    assert len(await reading) == UNREAD_BODY_BYTES + 2


@pytest.mark.parametrize(
    ("version", "expect", "calls"),
    [
        ("1.1", b"100-Continue", ["continue", "resume"]),
        ("1.0", b"100-continue", ["resume"]),
        ("1.1", b"else", ["resume"]),
    ],
)
async def test_a_client_that_awaits_100_continue_is_asked_once(version: str, expect: bytes, calls: list[str]) -> None:
    source = Source()
    incoming = request(source, version, expect=expect)
    reading = asyncio.create_task(read(incoming))
    await asyncio.sleep(0)
    assert source.calls == calls
    assert not incoming.body.awaits_continue
    incoming.body.feed(b"{}")
    incoming.body.finish()
    assert await reading == b"{}"
    assert "continue" not in source.calls[len(calls) :]


async def test_a_body_that_is_too_large_is_a_413_before_and_after_it_arrives() -> None:
    announced = request(Source(), content_length=b"%d" % (LIMIT + 1))
    chunked = request(Source())
    chunked.body.feed(b"x" * (LIMIT + 1))
    for incoming in (announced, chunked):
        with pytest.raises(ApiError) as error:
            await read(incoming)
        assert error.value.status == 413


async def test_a_body_that_does_not_arrive_in_time_is_a_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_TIMEOUT_S", 0.01)
    with pytest.raises(ApiError) as error:
        await read(request(Source()))
    assert error.value.status == 408
    assert error.value.closes


async def test_a_reader_learns_that_the_client_has_disconnected() -> None:
    incoming = request(Source())
    reading = asyncio.create_task(read(incoming))
    await asyncio.sleep(0)
    incoming.client_disconnected()
    with pytest.raises(ConnectionResetError):
        await reading


def test_a_callback_for_a_disconnect_is_called_even_if_it_comes_late() -> None:
    calls: list[str] = []
    early, late = request(Source()), request(Source())
    early.on_disconnect(lambda: calls.append("early"))
    early.client_fell_silent()
    late.client_disconnected()
    late.on_disconnect(lambda: calls.append("late"))
    assert calls == ["early", "late"]
