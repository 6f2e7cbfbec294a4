"""The stream of changes: what is gathered, how a client catches up, and its limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator

import pytest

from conductor.coordinator.store.transaction import Notes
from conductor.coordinator.views import change_feed
from conductor.coordinator.views.change_feed import ChangeFeed


@pytest.fixture(autouse=True)
def _publish_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "GATHER_S", 0.0)


def notes(*workflows: int) -> Notes:
    made = Notes()
    made.changed_workflows = set(workflows)
    return made


def open_stream(feed: ChangeFeed, last_id: str = "") -> AsyncGenerator[bytes]:
    return feed.stream(last_id, asyncio.Event())


def id_of(event: bytes) -> str:
    found = re.search(rb"^id: (.+)$", event, re.MULTILINE)
    assert found is not None
    return found[1].decode()


async def test_nothing_is_gathered_while_there_is_no_stream() -> None:
    feed = ChangeFeed(str)
    feed.note(notes(1))
    assert not feed.is_active
    stream = open_stream(feed)
    assert b"event: open" in await anext(stream)
    feed.note(notes(2, 1))
    assert b'data: {"workflows":["1","2"],"all":false}' in await anext(stream)
    feed.close()
    assert [part async for part in stream] == []


async def test_a_stream_ends_when_the_secret_of_its_client_has_expired() -> None:
    feed, admitted = ChangeFeed(str), [True]
    stream = feed.stream("", asyncio.Event(), lambda: admitted[0])
    await anext(stream)
    feed.note(notes(1))
    assert b"event: change" in await anext(stream)
    admitted[0] = False
    feed.note(notes(2))
    assert [part async for part in stream] == []
    feed.close()


async def test_many_changes_are_one_event_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "MAX_NAMED", 3)
    feed = ChangeFeed(str)
    stream = open_stream(feed)
    await anext(stream)
    for pk in range(10):
        feed.note(notes(pk))
    assert b'data: {"workflows":[],"all":true}' in await anext(stream)
    await stream.aclose()
    feed.close()


async def test_a_client_that_missed_too_many_events_is_told_to_read_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChangeFeed(str)
    stream = open_stream(feed)
    last_id = id_of(await anext(stream))
    for pk in range(change_feed.MAX_EVENTS + 1):
        feed.note(notes(pk))
        await asyncio.sleep(0.001)
    assert b"event: reset" in await anext(stream), "a slow reader"
    again = open_stream(feed, last_id)
    assert b"event: reset" in await anext(again), "a client that reconnects"
    newest = open_stream(feed, id_of(await anext(open_stream(feed))))
    assert b"event: open" in await anext(newest)
    feed.close()


async def test_changes_without_a_stream_are_missed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "LINGER_S", 0.0)
    feed = ChangeFeed(str)
    stream = open_stream(feed)
    last_id = id_of(await anext(stream))
    await stream.aclose()
    while feed.is_active:
        await asyncio.sleep(0)
    assert b"event: reset" in await anext(open_stream(feed, last_id))
    feed.close()


async def test_an_idle_stream_sends_a_comment_and_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "PING_S", 0.0)
    monkeypatch.setattr(change_feed, "MAX_STREAM_BYTES", 50)
    feed = ChangeFeed(str)
    parts = [part async for part in open_stream(feed)]
    assert set(parts[1:]) == {b": no changes\n\n"}
    assert 50 < sum(map(len, parts[1:])) < 100
    feed.close()


async def test_the_number_of_streams_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "MAX_STREAMS", 1)
    feed = ChangeFeed(str)
    stream = open_stream(feed)
    assert not feed.is_full, "the stream has not begun"
    await anext(stream)
    other = open_stream(feed)
    found = [feed.is_full]
    await stream.aclose()
    found.append(feed.is_full)
    await other.aclose()
    assert found == [True, False]
    feed.close()
