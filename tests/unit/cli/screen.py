"""A real terminal of a given width: what a program writes to it, byte for byte."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.unit.cli.program import DEADLINE_S

#: Variables that only a pipe, a CI system or another terminal would set.
_FORGET = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "CI")


class Screen(NamedTuple):
    """The output of a program, and its exit status."""

    status: int
    text: str

    @property
    def lines(self) -> list[str]:
        """Line by line."""
        return self.text.replace("\r\n", "\n").splitlines()


def run_in_terminal(
    command: Sequence[str], cwd: Path, columns: int, env: Mapping[str, str] | None = None, typed: str = ""
) -> Screen:
    """Run a program in a terminal of that many columns; `typed` is waiting at its keyboard."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in _FORGET}
    process = subprocess.Popen(
        [*command],
        cwd=cwd,
        env={**inherited, "TERM": "xterm-256color", "PYTHONUTF8": "1", **(env or {})},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    if typed:
        os.write(master, typed.encode())
    seen = b""
    try:
        while chunk := _read(master):
            seen += chunk
        return Screen(process.wait(DEADLINE_S), seen.decode())
    finally:
        os.close(master)
        process.kill()
        process.wait(DEADLINE_S)


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65_536)
    except OSError:  # Linux says so when the last one has closed the other end
        return b""
