"""A program on a terminal of its own: what it shows, keys that are pressed, how it leaves the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from conductor.testing.wait_until import Watch
from tests.unit.cli.program import DEADLINE_S

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>()][0B]?|\r")


class Terminal:
    """A command in the foreground of a new terminal. Processes that are left at the end are killed."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str | None] | None = None,
        *,
        columns: int = 120,
        lines: int = 40,
    ) -> None:
        self._screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        #: How the terminal was, to be compared with how it is left. It stays open, so that it can be asked.
        self._terminal = terminal
        self.settings_before = termios.tcgetattr(terminal)
        given = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": None,
            "LINES": None,
            "NO_COLOR": None,
            **(env or {}),
        }
        self._process = subprocess.Popen(
            [*command],
            cwd=cwd,
            env={name: value for name, value in given.items() if value is not None},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.raw = ""
        self._seen = 0
        self._watch = Watch(lambda: f"the terminal shows:\n{self.text}")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """All that was shown so far, without control sequences."""
        return _CONTROL.sub("", self.raw)

    def wait_for(self, text: str) -> str:
        """Wait until `text` is shown after the last match. Return the output in between."""

        def shown() -> int:
            found = self.text.find(text, self._seen)
            return 0 if found < 0 else found + len(text)

        end = self._watch.wait_for(shown, DEADLINE_S)
        before, self._seen = self.text[self._seen : end], end
        return before

    def wait_for_raw(self, text: str) -> None:
        """Wait until this was written, control sequences and all."""
        self._watch.wait_for(lambda: text in self.raw, DEADLINE_S)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._screen, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal signals all processes in the foreground."""
        self.type("\x03")

    def send(self, number: int) -> None:
        """Send a signal to the program alone."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end; the exit status."""
        return self._process.wait(DEADLINE_S)

    @property
    def settings(self) -> list[Any]:
        """How the terminal is now."""
        return termios.tcgetattr(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(DEADLINE_S)
        os.close(self._terminal)
        self._reader.join(DEADLINE_S)
        os.close(self._screen)

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._screen, 65536)
            except OSError:  # no process has the terminal open any more
                return
            if not read:
                return
            self.raw += read.decode(errors="replace")
            self._watch.notify()
