"""Workers that are loaded again whenever a file is saved; those before finish what they have in hand.

New code is imported first, in a process of its own. Only when that has worked are the old workers relieved: they take
no more tasks, finish what they have, and end. So a mistake costs nothing but a line on the terminal. A spare process
that has everything but the user's code waits for the next save, which then takes no longer than importing that code.
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

#: Ended by themselves so soon after their start, workers would do it again: they wait for another save.
SHORT_LIFE_S = 5.0
#: How long new workers wait until the old ones take no more tasks.
QUIET_S = 2.0


class WorkerProcess:
    """The workers of one state of the code."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._writer = writer
        self._said: dict[str, asyncio.Future[list[str] | None]] = {}
        self._hearing = asyncio.create_task(self._hear(reader))
        self.began = time.monotonic()
        self.ended = asyncio.create_task(asyncio.to_thread(process.wait))

    @classmethod
    async def start(cls, terminal: Path, url: str, modules: Sequence[str], *, show_traceback: bool) -> WorkerProcess:
        """Start the process, on this terminal and in this group: a debugger in it reads from the keyboard."""
        ours, theirs = socket.socketpair()
        words = [str(theirs.fileno()), str(terminal), url, str(int(show_traceback)), *modules]
        # Ctrl-C goes to the whole group. It finds this one deaf until it can be ignored, which the process does itself.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                [sys.executable, "-m", "conductor.cli.dev_workers", *words], pass_fds=[theirs.fileno()]
            )
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            theirs.close()
        return cls(process, *await asyncio.open_unix_connection(sock=ours))

    async def loaded(self, limit_s: float) -> list[str] | None:
        """Import the code as it is now, and return the task types of its workers. None: it could not be imported.

        An import that takes longer than `limit_s` is ended.
        """
        self._tell(LOAD)
        loaded = self._word(LOADED)
        await asyncio.wait({loaded}, timeout=limit_s)
        if not loaded.done():
            print_line(f"The import has not ended after {limit_s:g} s, and is given up (--import-timeout).")
            self.kill()
        return await loaded

    async def ready(self) -> bool:
        """Wait until every worker has polled. False: it ended before."""
        return await self._word(READY) is not None

    def dismiss(self) -> None:
        """It is not needed after all."""
        self._writer.close()

    def go(self) -> None:
        """Take tasks."""
        self.began = time.monotonic()
        self._tell(GO)

    async def relieve(self) -> None:
        """Take no more tasks, finish those in hand, and end. Returns when no task can come to it any more."""
        self._tell(RELIEVED)
        # A coroutine that a debugger has stopped holds up its whole process; that is no reason to wait.
        await asyncio.wait({self._word(QUIET)}, timeout=QUIET_S)

    def stop(self) -> None:
        """Finish what is in hand within the grace; told again, hand it back at once."""
        if not self.ended.done():
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, whatever it does: a debugger that waits for a command hears nothing else."""
        if not self.ended.done():
            self._process.kill()

    async def close(self) -> None:
        """Wait for its end, and let go of the channel."""
        await self.ended
        self._writer.close()

    def _tell(self, order: str) -> None:
        self._writer.write(f"{order}\n".encode())

    def _word(self, word: str) -> asyncio.Future[list[str] | None]:
        """What it says with this word, now or later; None when it has ended without."""
        said = self._said.setdefault(word, asyncio.get_running_loop().create_future())
        if self._hearing.done() and not said.done():
            said.set_result(None)
        return said

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                word, *rest = line.decode().split()
                said = self._word(word)
                if not said.done():
                    said.set_result(rest)
        for said in self._said.values():
            if not said.done():
                said.set_result(None)


class Reloading:
    """Keeps the workers of the newest code that can be imported at work."""

    def __init__(
        self, terminal: Path, url: str, modules: Sequence[str], *, show_traceback: bool, import_limit_s: float
    ) -> None:
        #: The file whose lock is the right to talk to the user.
        self._terminal = terminal
        self._url = url
        self._modules = list(modules)
        self._show_traceback = show_traceback
        self._import_limit_s = import_limit_s
        #: The process that imports the user's code. It has no tasks, so it can be killed.
        self._importing: WorkerProcess | None = None
        self._at_work: WorkerProcess | None = None
        self._spare: WorkerProcess | None = None
        self._all: set[WorkerProcess] = set()
        self._side: set[asyncio.Task[None]] = set()
        self._one_load = asyncio.Lock()
        self._stopping = False

    async def load(self, why: str | None = None) -> None:
        """Bring in workers of the code as it is now; if it cannot be imported, those before stay."""
        async with self._one_load:
            await self._load(why)

    async def _load(self, why: str | None) -> None:
        began = time.monotonic()
        if why is not None:
            print_line(why)
        workers = self._importing = await self._next()
        names = await workers.loaded(self._import_limit_s)
        self._importing = None
        if names is None or self._stopping:
            workers.dismiss()
            await self._gone(workers)
            if not self._stopping:
                self._spare = await self._new()
                stay = "the workers before stay at work" if self._at_work else "no workers run"
                print_line(f"Not loaded: {stay}. Save a correction.")
            return
        before, self._at_work = self._at_work, workers
        if before is not None:
            await before.relieve()
        workers.go()
        self._beside(self._until_gone(workers))
        self._beside(self._announce(workers, "Ready" if why is None else "Reloaded", names, began))
        self._spare = await self._new()

    async def _announce(self, workers: WorkerProcess, what: str, names: list[str], began: float) -> None:
        if await workers.ready() and not self._stopping:
            took = f"in {time.monotonic() - began:.1f} s"
            print_line(f"{what} {took}: {escape(', '.join(names))}. Save a file to load them again; Ctrl-C ends.")

    async def _next(self) -> WorkerProcess:
        spare, self._spare = self._spare, None
        return spare if spare is not None and not spare.ended.done() else await self._new()

    async def _new(self) -> WorkerProcess:
        workers = await WorkerProcess.start(
            self._terminal, self._url, self._modules, show_traceback=self._show_traceback
        )
        self._all.add(workers)
        return workers

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        going = asyncio.create_task(work)
        self._side.add(going)
        going.add_done_callback(self._side.discard)

    async def _until_gone(self, workers: WorkerProcess) -> None:
        status = await workers.ended
        await self._gone(workers)
        if workers is not self._at_work or self._stopping:
            return
        self._at_work = None
        ended = f"The workers ended by themselves (exit status {status})"
        if time.monotonic() - workers.began < SHORT_LIFE_S:
            print_line(f"{ended}, as soon as they had started. Save a correction.")
        else:
            await self.load(f"{ended}: they are started again")

    async def _gone(self, workers: WorkerProcess) -> None:
        await workers.close()
        self._all.discard(workers)

    def give_up_import(self) -> None:
        """End the process that imports the user's code, if there is one."""
        if self._importing is not None:
            self._importing.kill()

    def stop(self) -> None:
        """Let all of them finish what they have in hand; told again, end them at once."""
        self._stopping = True
        self.give_up_import()
        for workers in self._all:
            if workers is self._spare:
                workers.dismiss()
            else:
                workers.stop()

    def kill(self) -> None:
        """End all of them, whatever they do."""
        for workers in self._all:
            workers.kill()

    async def ended(self, timeout_s: float | None = None) -> bool:
        """Wait until none is left. False: some are."""
        ends = {workers.ended for workers in self._all}
        if ends:
            await asyncio.wait(ends, timeout=timeout_s)
        return all(end.done() for end in ends)


def describe_change(changes: Sequence[str]) -> str:
    """The line that names what was saved."""
    here = os.getcwd()  # noqa: PTH109 - a text to cut off
    names = sorted({str(Path(path).relative_to(here)) if path.startswith(here + os.sep) else path for path in changes})
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} saved: loading the workers again"
