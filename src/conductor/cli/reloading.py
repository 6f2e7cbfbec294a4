"""Reloads the workers after a file is saved; the previous workers finish their running tasks.

New code is imported first, in a separate process. Only if that succeeds are the old workers retired: they take
no more tasks, finish the running ones, and exit. If the import fails, the old workers keep running. A spare process
that has loaded everything except the user's code waits for the next save, so that a reload is fast.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from conductor.cli.console import print_line
from conductor.cli.dev_workers import GO, LOAD, LOADED, QUIET, READY, RELIEVED
from conductor.common.text import escape

#: Workers that exit sooner after their start are not restarted before the next save.
SHORT_LIFE_S = 5.0
#: New workers wait at most this long for the old ones to stop polling.
QUIET_S = 2.0


class DevProcess:
    """The process of the workers of one version of the code."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._writer = writer
        self._messages: dict[str, asyncio.Future[list[str] | None]] = {}
        self._reading = asyncio.create_task(self._read_messages(reader))
        self.began = time.monotonic()
        self.ended = asyncio.create_task(asyncio.to_thread(process.wait))

    @classmethod
    async def start(cls, terminal: Path, url: str, modules: Sequence[str], *, show_traceback: bool) -> DevProcess:
        """Start the process on this terminal and in this process group, so that a debugger can read the keyboard."""
        ours, theirs = socket.socketpair()
        words = [str(theirs.fileno()), str(terminal), url, str(int(show_traceback)), *modules]
        # Ctrl-C goes to the whole process group. SIGINT stays blocked in the new process until that process ignores it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - returns immediately
                [sys.executable, "-m", "conductor.cli.dev_workers", *words], pass_fds=[theirs.fileno()]
            )
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            theirs.close()
        return cls(process, *await asyncio.open_unix_connection(sock=ours))

    async def load(self, limit_s: float) -> list[str] | None:
        """Import the current code and return the task types of its workers; None if the import failed.

        An import that takes longer than `limit_s` is killed.
        """
        self._tell(LOAD)
        loaded = self._message(LOADED)
        await asyncio.wait({loaded}, timeout=limit_s)
        if not loaded.done():
            print_line(f"The import did not finish within {limit_s:g} s and was cancelled (--import-timeout).")
            self.kill()
        return await loaded

    async def ready(self) -> bool:
        """Wait until every worker has polled; return False if the process exits first."""
        return await self._message(READY) is not None

    def dismiss(self) -> None:
        """End a process that has not started its workers."""
        self._writer.close()

    def go(self) -> None:
        """Start the workers."""
        self.began = time.monotonic()
        self._tell(GO)

    async def relieve(self) -> None:
        """Tell the process to stop polling, finish its running tasks and exit. Return when it has stopped polling."""
        self._tell(RELIEVED)
        # The wait has a limit, because a coroutine in a debugger blocks its whole process.
        await asyncio.wait({self._message(QUIET)}, timeout=QUIET_S)

    def stop(self) -> None:
        """Tell the process to finish its tasks within the grace period. A second call requeues them immediately."""
        if not self.ended.done():
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process, because a process in a debugger does not react to other signals."""
        if not self.ended.done():
            self._process.kill()

    async def close(self) -> None:
        """Wait for the exit of the process and close the channel."""
        await self.ended
        self._writer.close()

    def _tell(self, order: str) -> None:
        self._writer.write(f"{order}\n".encode())

    def _message(self, word: str) -> asyncio.Future[list[str] | None]:
        """Return a future for the message with this first word. It results in None if the process exits first."""
        message = self._messages.setdefault(word, asyncio.get_running_loop().create_future())
        if self._reading.done() and not message.done():
            message.set_result(None)
        return message

    async def _read_messages(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                word, *rest = line.decode().split()
                message = self._message(word)
                if not message.done():
                    message.set_result(rest)
        for message in self._messages.values():
            if not message.done():
                message.set_result(None)


class Reloader:
    """Keeps the workers of the latest importable code running."""

    def __init__(
        self, terminal: Path, url: str, modules: Sequence[str], *, show_traceback: bool, import_limit_s: float
    ) -> None:
        #: The file that `breakpoint()` locks in the worker processes, so that one debugger at a time uses the terminal.
        self._terminal = terminal
        self._url = url
        self._modules = list(modules)
        self._show_traceback = show_traceback
        self._import_limit_s = import_limit_s
        #: The process that imports the user's code. It has no tasks, so it can be killed.
        self._importing: DevProcess | None = None
        self._at_work: DevProcess | None = None
        self._spare: DevProcess | None = None
        self._all: set[DevProcess] = set()
        self._side: set[asyncio.Task[None]] = set()
        self._one_load = asyncio.Lock()
        self._stopping = False

    async def load(self, why: str | None = None) -> None:
        """Import the current code and replace the workers. If the import fails, the previous workers stay."""
        async with self._one_load:
            await self._load(why)

    async def _load(self, why: str | None) -> None:
        began = time.monotonic()
        if why is not None:
            print_line(why)
        workers = self._importing = await self._next()
        names = await workers.load(self._import_limit_s)
        self._importing = None
        if names is None or self._stopping:
            workers.dismiss()
            await self._discard(workers)
            if not self._stopping:
                self._spare = await self._new()
                stay = "the previous workers keep running" if self._at_work else "no workers are running"
                print_line(f"Not loaded: {stay}. Correct the code and save it.")
            return
        before, self._at_work = self._at_work, workers
        if before is not None:
            await before.relieve()
        workers.go()
        self._run_in_background(self._watch_exit(workers))
        self._run_in_background(self._announce(workers, "Ready" if why is None else "Reloaded", names, began))
        self._spare = await self._new()

    async def _announce(self, workers: DevProcess, what: str, names: list[str], began: float) -> None:
        if await workers.ready() and not self._stopping:
            took = f"in {time.monotonic() - began:.1f} s"
            print_line(f"{what} {took}: {escape(', '.join(names))}. Save a file to reload; press Ctrl-C to stop.")

    async def _next(self) -> DevProcess:
        spare, self._spare = self._spare, None
        return spare if spare is not None and not spare.ended.done() else await self._new()

    async def _new(self) -> DevProcess:
        workers = await DevProcess.start(self._terminal, self._url, self._modules, show_traceback=self._show_traceback)
        self._all.add(workers)
        return workers

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        going = asyncio.create_task(work)
        self._side.add(going)
        going.add_done_callback(self._side.discard)

    async def _watch_exit(self, workers: DevProcess) -> None:
        status = await workers.ended
        await self._discard(workers)
        if workers is not self._at_work or self._stopping:
            return
        self._at_work = None
        ended = f"The workers ended by themselves (exit status {status})"
        if time.monotonic() - workers.began < SHORT_LIFE_S:
            print_line(f"{ended} right after their start. Correct the code and save it.")
        else:
            await self.load(f"{ended}: restarting them")

    async def _discard(self, workers: DevProcess) -> None:
        await workers.close()
        self._all.discard(workers)

    def cancel_import(self) -> None:
        """Kill the process that imports the user's code, if there is one."""
        if self._importing is not None:
            self._importing.kill()

    def stop(self) -> None:
        """Let all processes finish their running tasks. A second call requeues the tasks immediately."""
        self._stopping = True
        self.cancel_import()
        for workers in self._all:
            if workers is self._spare:
                workers.dismiss()
            else:
                workers.stop()

    def kill(self) -> None:
        """Kill all processes."""
        for workers in self._all:
            workers.kill()

    async def wait_ended(self, timeout_s: float | None = None) -> bool:
        """Wait until all processes have exited; return False after the timeout."""
        ends = {workers.ended for workers in self._all}
        if ends:
            await asyncio.wait(ends, timeout=timeout_s)
        return all(end.done() for end in ends)


def describe_change(changes: Sequence[str]) -> str:
    """Return a line that names the saved files."""
    here = os.getcwd()  # noqa: PTH109 - a string prefix
    names = sorted({str(Path(path).relative_to(here)) if path.startswith(here + os.sep) else path for path in changes})
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} saved: reloading the workers"
