"""The background loop for coroutines called from plain code."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.http.models.task import Task
from conductor.client.worker.worker import BackgroundEventLoop as FromWorkerModule
from conductor.client.worker.worker import Worker


@pytest.fixture(autouse=True)
def _own_loop() -> Iterator[None]:
    BackgroundEventLoop().cleanup()
    yield
    BackgroundEventLoop().cleanup()


async def where() -> tuple[int, int]:
    return threading.get_ident(), id(asyncio.get_running_loop())


class TestOneForAll:
    def test_there_is_one_background_loop(self) -> None:
        assert BackgroundEventLoop() is BackgroundEventLoop()
        assert FromWorkerModule is BackgroundEventLoop

    def test_many_threads_at_once_make_one_background_loop(self) -> None:
        BackgroundEventLoop._instance = None
        with ThreadPoolExecutor(8) as pool:
            made = set(pool.map(lambda _: id(BackgroundEventLoop()), range(64)))
        assert len(made) == 1

    def test_the_loop_persists_between_calls(self) -> None:
        first = BackgroundEventLoop().run_coroutine(where())
        second = BackgroundEventLoop().run_coroutine(where())
        assert first == second
        assert first[0] != threading.get_ident()


class TestLife:
    def test_the_background_loop_starts_with_the_first_coroutine(self) -> None:
        loop = BackgroundEventLoop()
        assert not loop.is_running
        loop.run_coroutine(where())
        assert loop.is_running

    def test_a_sync_worker_never_starts_it(self) -> None:
        Worker("job", lambda: 1).execute(Task(task_id="t"))
        assert not BackgroundEventLoop().is_running

    def test_an_async_worker_called_directly_uses_it(self) -> None:
        async def work() -> dict[str, str]:
            return {"thread": threading.current_thread().name}

        result = Worker("job", work).execute(Task(task_id="t"))
        assert result.output_data == {"thread": "conductor-background-loop"}

    def test_a_cleanup_ends_its_thread_and_the_next_coroutine_starts_anew(self) -> None:
        loop = BackgroundEventLoop()
        ident, _ = loop.run_coroutine(where())
        # By its number: the thread of another test may be on its way out under the same name.
        (thread,) = [one for one in threading.enumerate() if one.ident == ident]
        loop.cleanup()
        thread.join(60)
        assert not thread.is_alive()
        assert not loop.is_running
        loop.run_coroutine(where())
        assert loop.is_running

    def test_a_cleanup_cancels_what_still_runs(self) -> None:
        loop = BackgroundEventLoop()
        started, ended = threading.Event(), threading.Event()

        async def forever() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        future = loop.submit(forever())
        assert started.wait(60)
        loop.cleanup()
        assert ended.wait(60)
        with pytest.raises(CancelledError):
            future.result(60)

    def test_a_program_that_used_it_ends(self) -> None:
        code = (
            "from conductor.client.worker.worker import BackgroundEventLoop\n"
            "async def f(): return 42\n"
            "print(BackgroundEventLoop().run_coroutine(f()))\n"
        )
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_child_has_one_of_its_own(self) -> None:
        code = (
            "import os\n"
            "from conductor.client.worker.worker import BackgroundEventLoop\n"
            "async def f(): return os.getpid()\n"
            "parent = BackgroundEventLoop().run_coroutine(f())\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    os._exit(0 if BackgroundEventLoop().run_coroutine(f()) == os.getpid() else 1)\n"
            "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        )
        assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


class TestCalls:
    def test_calls_give_back_the_value(self) -> None:
        async def add(a: int, b: int) -> int:
            await asyncio.sleep(0)
            return a + b

        assert BackgroundEventLoop().run_coroutine(add(1, 2)) == 3

    def test_calls_raise_the_exception_of_the_coroutine(self) -> None:
        async def fail() -> None:
            raise LookupError("nothing here")

        with pytest.raises(LookupError, match="nothing here"):
            BackgroundEventLoop().run_coroutine(fail())

    def test_calls_from_many_threads_run_side_by_side(self) -> None:
        """Each waits for all the others: one after the other would never end."""
        everyone_in: list[asyncio.Event] = []
        arrived = 0

        async def meet() -> int:
            nonlocal arrived
            if not everyone_in:
                everyone_in.append(asyncio.Event())
            arrived += 1
            if arrived == 8:
                everyone_in[0].set()
            await asyncio.wait_for(everyone_in[0].wait(), 60)
            return arrived

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda _: BackgroundEventLoop().run_coroutine(meet()), range(8)))
        assert results == [8] * 8

    def test_calls_from_the_loop_itself_would_wait_for_ever_and_are_refused(self) -> None:
        async def outer() -> None:
            BackgroundEventLoop().run_coroutine(where())

        with pytest.raises(RuntimeError, match="a blocking call on the background event loop never returns"):
            BackgroundEventLoop().run_coroutine(outer())
        gc.collect()  # the refused coroutine was closed: no warning about it
