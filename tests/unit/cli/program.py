"""The command line as users run it: real processes, watched line by line."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

#: The machine may be busy; nothing here waits that long unless something is wrong.
DEADLINE_S = 200.0

CLI = (sys.executable, "-m", "conductor.cli")
CONSOLE_SCRIPT = (str(Path(sys.executable).with_name("conductor-worker")),)


class Program:
    """A running program: its lines as they come, its end. None in `env` takes a variable away."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str | None] | None = None) -> None:
        self._process = subprocess.Popen(
            [*command],
            cwd=cwd,
            env={name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.output = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def line_with(self, text: str) -> str:
        """Wait for a line that has this in it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {text!r} in time; there were:\n{self.output}") from None
            if line is None:
                raise AssertionError(f"the program ended without a line with {text!r}:\n{self.output}")
            self.output += line
            if text in line:
                return line.strip()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, number: int) -> None:
        """Send a signal to the program alone."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; the exit status. `output` is complete then."""
        status = self._process.wait(DEADLINE_S)
        while (line := self._lines.get(timeout=DEADLINE_S)) is not None:
            self.output += line
        return status

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind, whatever went wrong: the program, and what it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(DEADLINE_S)


def url_in(line: str) -> str:
    """The URL in a line of output."""
    return next(word for word in line.split() if word.startswith(("http://", "https://")))
