"""Child processes of the suite: each has a log file, a deadline for its start and a clean end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

#: Between two looks at something that has no event to wait on.
LOOK_EVERY_S = 0.1


def listens(port: int) -> bool:
    """Whether a process accepts connections on this port."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A program in the background, in a session of its own, its output in a file."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        cwd: Path | None = None,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self._output: IO[bytes] = log.open("ab")
        self._child = subprocess.Popen(
            command,
            cwd=cwd or log.parent,
            user=user,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**_environment(), **(environment or {})},
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def wait_until(self, ready: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        """Wait for a sign of life; the end of the log is in the message if there is none."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                raise RuntimeError(f"{what} ended with {self._child.returncode} before it was ready:\n{self.tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{what} was not ready after {timeout_s:.0f} s:\n{self.tail()}")
            time.sleep(LOOK_EVERY_S)

    def stop(self, *, how: signal.Signals = signal.SIGTERM, timeout_s: float = 60) -> None:
        """Ask it to end, and end it if it does not."""
        if self.running:
            self._child.send_signal(how)
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._output.close()

    def kill(self) -> None:
        """kill -9, for the process and what it started."""
        if self.running:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        self._output.close()

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])


def _environment() -> dict[str, str]:
    """Ours without what would configure a server behind the suite's back."""
    unwanted = ("CONDUCTOR", "SPRING_", "SERVER_", "JAVA_TOOL_OPTIONS")
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(unwanted)}
