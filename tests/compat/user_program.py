"""Runs a program as its user would: a script in its own process, ended by a signal, with no process left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

HERE = Path(__file__).parent
_STRICT = {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "error"}
#: A worker never breaks off a long poll on a Conductor server, so that no task is lost; here it shall not take long.
_QUICK = {"CONDUCTOR_WORKER_ALL_IDLE_POLL_TIMEOUT": "200"}
#: How long a program may take to end once it was told to.
END_S = 60.0


class Program:
    """A running script. As a context manager it is killed, whole, if the test did not see it end."""

    def __init__(self, arguments: Sequence[str | Path], folder: Path, env: Mapping[str, str]) -> None:
        self._log = folder / "output.log"
        path = os.pathsep.join([str(folder), str(HERE)])
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path, **_STRICT, **_QUICK, **env},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # as a shell does for its jobs; and the session tells what belongs to it
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.members():
            process.kill()
        self._process.wait()
        print(self.output)  # shown where the test failed

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        """Return the output and log so far."""
        return self._log.read_text()

    @property
    def calm(self) -> bool:
        """Whether the output shows no error."""
        return not any(word in self.output for word in ("Traceback", "Exception ignored", "Warning:"))

    def members(self) -> list[psutil.Process]:
        """All processes that the program consists of, however they are related."""
        return [process for process in psutil.process_iter() if _session(process.pid) == self.pid and _lives(process)]

    def terminate(self) -> int:
        """Stop it as a service manager does."""
        return self._ended(lambda: os.kill(self.pid, signal.SIGTERM))

    def interrupt(self) -> int:
        """Press Ctrl-C: the signal reaches every process of the group."""
        return self._ended(lambda: os.killpg(self.pid, signal.SIGINT))

    def ended(self) -> int:
        """Wait until it ends by itself."""
        return self._ended(lambda: None)

    def _ended(self, stop: Callable[[], None]) -> int:
        """The exit code; fails if one of its processes is left."""
        stop()
        code = self._process.wait(END_S)
        for process in self.members():
            _wait(process)
        assert not self.members(), f"left behind: {self.members()}"
        return code


def _lives(process: psutil.Process) -> bool:
    """Whether it runs; an ended one may wait for its new parent to notice."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _wait(process: psutil.Process) -> None:
    """Wait until it has ended, noticed by its parent or not."""
    if not hasattr(os, "pidfd_open"):
        psutil.wait_procs([process], END_S)
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        select.select([descriptor], [], [], END_S)
    finally:
        os.close(descriptor)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
