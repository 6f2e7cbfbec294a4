"""The warning about a blocked event loop names the user's function, never the code of the SDK."""

from __future__ import annotations

import asyncio
import copy
import logging
import queue
import threading
from typing import Any

import pytest

from conductor.client.automator import blocked_loop
from conductor.client.automator.blocked_loop import LoopGuard


class WarningSeen(logging.Handler):
    """Keeps the last record, and then sets an event."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()
        self.message = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.message = record.getMessage()
        self.event.set()


def block_deep_inside_the_standard_library(release: queue.SimpleQueue[None]) -> None:
    """Block below more frames of `copy` than a short stack would show."""

    class Blocker:
        pass

    innermost: Any = Blocker()
    innermost.__deepcopy__ = release.get  # deepcopy calls it with its memo, which stands for block=True
    for _ in range(30):
        innermost = [innermost]
    copy.deepcopy(innermost)


def test_the_first_line_names_the_users_function_below_a_deep_stack_u4_39(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocked_loop, "BLOCKED_LOOP_S", 0.2)
    release: queue.SimpleQueue[None] = queue.SimpleQueue()
    seen = WarningSeen()

    async def watch(guard: LoopGuard) -> None:
        watching = asyncio.create_task(guard.run(lambda: True))
        await asyncio.to_thread(seen.event.wait, 60)
        watching.cancel()

    async def job() -> None:
        guard = LoopGuard()
        threads.append(threading.Thread(target=lambda: asyncio.run(watch(guard))))
        threads[-1].start()
        block_deep_inside_the_standard_library(release)

    def unblock() -> None:
        seen.event.wait(60)
        release.put(None)

    threads = [threading.Thread(target=unblock)]
    blocked_loop.logger.addHandler(seen)
    try:
        threads[0].start()
        asyncio.run(job())
        for thread in threads:
            thread.join()
    finally:
        blocked_loop.logger.removeHandler(seen)
    first_line = seen.message.splitlines()[0]
    assert f"block_deep_inside_the_standard_library() ({__file__}:" in first_line
    assert "automator" not in first_line.replace(__file__, "")


def test_without_user_code_no_code_of_the_sdk_is_named_u4_39(caplog: pytest.LogCaptureFixture) -> None:
    async def report() -> None:
        LoopGuard()._report()

    asyncio.run(report())
    text = "The event loop has been blocked for 2 s, but no user code was found on its stack"
    assert any(message.startswith(text) for message in caplog.messages), caplog.messages


def test_the_program_that_started_the_loop_does_not_block_it_u4_39() -> None:
    async def look() -> list[str]:
        return [frame.name for frame in LoopGuard()._find_user_frames()]

    assert asyncio.run(look())[:1] == ["look"], "no frame of pytest, and not the function of this test"


def test_a_block_of_little_more_than_the_limit_is_found_u4_39(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that begins within the block finds it, so the pause before a check is time in which a block is missed."""
    pauses: list[float] = []

    async def sleep(delay_s: float) -> None:
        pauses.append(delay_s)
        raise asyncio.CancelledError

    async def watch() -> None:
        monkeypatch.setattr(asyncio, "sleep", sleep)
        await LoopGuard().run(lambda: True)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(watch())
    assert pauses[0] <= blocked_loop.BLOCKED_LOOP_S / 4
