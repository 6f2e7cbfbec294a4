"""Runs a user's program in its own process group, and checks that no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from conductor.testing.wait_until import Watch

#: How patient a test is with a real process on a busy machine.
PATIENCE_S = 60.0

#: Begins every program: what users import, a log that the test can read, and a function that stands at a gate.
PREAMBLE = '''
import asyncio, logging, os, signal, sys, time, urllib.error, urllib.request
from conductor.client.automator.task_handler import TaskHandler
from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import TaskRunnerEventsListener
from conductor.client.worker.worker import Worker
from conductor.client.worker.worker_task import worker_task

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")

def say(text):
    print(text, flush=True)

class Speaker(TaskRunnerEventsListener):
    """Says what a test waits for."""
    def on_worker_started(self, event):
        say(f"started {event.task_type}")
    def on_worker_stopping(self, event):
        say(f"stopping {event.task_type}")
    def on_worker_stopped(self, event):
        say(f"stopped {event.task_type} handed_back={event.handed_back}")

def stand_at_gate(url):
    """Returns when the server lets it go."""
    try:
        urllib.request.urlopen(url, timeout=60).close()
    except urllib.error.HTTPError as error:
        error.close()
    return {"pid": os.getpid()}

async def stand_at_gate_async(url):
    return await asyncio.get_running_loop().run_in_executor(GATES, stand_at_gate, url)

from concurrent.futures import ThreadPoolExecutor
GATES = ThreadPoolExecutor(64)
'''


class Program:
    """A running script. Use it as a `with` block: processes that are left at the end are killed."""

    def __init__(self, directory: Path, script: str, *, server: str = "", preamble: str = PREAMBLE) -> None:
        self._path = directory / "program.py"
        self._path.write_text(preamble + textwrap.dedent(script))
        self._env = {**os.environ, "CONDUCTOR_SERVER_URL": server, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "error"}
        self._output: list[str] = []
        self._watch = Watch(lambda: f"the program said:\n{self.output}")
        self._seen: dict[int, psutil.Process] = {}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, str(self._path)],
            env=self._env,
            cwd=self._path.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.group():
            process.kill()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        if error is not None:
            error.add_note(f"The program said:\n{self.output}")

    @property
    def pid(self) -> int:
        """The process that the test started."""
        return self._process.pid

    @property
    def output(self) -> str:
        """All that the program and its children printed and logged so far."""
        return "".join(self._output)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until the program has said this so often."""
        self._watch.wait_for(lambda: self.output.count(text) >= times, PATIENCE_S)

    def wait_until(self, predicate: Callable[[], object]) -> None:
        """Poll the state of a process, which sends no notification."""
        ends_s = time.monotonic() + PATIENCE_S
        while not predicate():
            assert time.monotonic() < ends_s, self.output
            threading.Event().wait(0.02)

    def signal(self, number: int) -> None:
        """Signal the program alone."""
        self._process.send_signal(number)

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the whole group."""
        os.killpg(self.pid, signal.SIGINT)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for the end of the program; its exit code."""
        return self._process.wait(timeout_s)

    def group(self) -> list[psutil.Process]:
        """The living processes of its group, children of children too."""
        alive = []
        for process in psutil.process_iter():
            try:
                if os.getpgid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process)
            except (ProcessLookupError, psutil.Error):
                continue
        return alive

    def wait_gone(self) -> None:
        """Wait until no process of the group is left."""
        _, alive = psutil.wait_procs(self.group(), timeout=PATIENCE_S)
        assert not alive, f"left behind: {[(p.pid, p.cmdline()) for p in alive]}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._output.append(line)
            self._watch.notify()
