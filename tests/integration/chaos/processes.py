"""The processes of a chaos run: a coordinator that restarts on another port, and worker programs that restart."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import psutil

_COORDINATOR = """
import signal, sys, threading
from conductor.coordinator import Coordinator
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
with Coordinator(database=sys.argv[1], port=int(sys.argv[2])) as coordinator:
    print(coordinator.port, flush=True)
    over.wait()
"""
#: A process that was asked to end has this long.
END_S = 60.0
#: A worker program has a grace of one second; this is far beyond it.
DRAIN_S = 20.0


class CoordinatorProcess:
    """A coordinator on one file. `on_port` learns where it listens each time it starts. For a `with` block."""

    def __init__(
        self,
        database: Path,
        log: Path,
        on_port: Callable[[int], None] = lambda _port: None,
        *,
        keeps_port: bool = False,
    ) -> None:
        self._database = database
        self.log = log
        self._on_port = on_port
        self._keeps_port = keeps_port
        self.port = 0
        self.start()

    def __enter__(self) -> CoordinatorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()

    @property
    def pid(self) -> int:
        """The process of the latest start."""
        return self.process.pid

    def start(self) -> None:
        """Start it, and return when it answers."""
        command = [sys.executable, "-c", _COORDINATOR, str(self._database), str(self.port if self._keeps_port else 0)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        # The log goes through a pipe, so that a process that cannot write files can still log that.
        self._logging = threading.Thread(target=_append, args=(self.process.stderr, self.log), daemon=True)
        self._logging.start()
        line = self.process.stdout.readline()
        if not line:
            self._logging.join(END_S)
            raise AssertionError(f"the coordinator did not start:\n{self.log.read_text()[-3000:]}")
        self.port = int(line)
        self._on_port(self.port)

    def kill(self) -> None:
        """-9: nothing it holds in memory survives."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to drain; its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        self.process.send_signal(number)
        self.process.wait(timeout=END_S)
        self._logging.join(END_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.returncode


def _append(lines: IO[bytes], path: Path) -> None:
    with lines, path.open("ab", buffering=0) as log:
        for line in lines:
            log.write(line)


class WorkerProgram:
    """A program of workers in a session of its own, so that nothing of it is left behind."""

    def __init__(self, name: str, command: Sequence[str], directory: Path, environment: dict[str, str]) -> None:
        self.name = name
        self._command = list(command)
        self.log = directory / f"{name}.log"
        self._environment = {**os.environ, **environment}
        #: Every process that was killed.
        self.killed_pids: set[int] = set()
        #: Drains that did not come to an end.
        self.stubborn = 0
        self._sessions: set[int] = set()
        self.start()

    def start(self) -> None:
        """Start it and return at once."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self._sessions.add(self.process.pid)

    def kill_one(self, rng: random.Random) -> None:
        """-9 for the program or for one of its children; the program itself is started again."""
        victim = self._one(rng)
        self.killed_pids.add(victim)
        _signal(victim, signal.SIGKILL)
        if victim == self.process.pid:
            self.process.wait(timeout=END_S)
            self.start()

    def stop_one(self, rng: random.Random, seconds: float) -> None:
        """Send SIGSTOP to the program or to one of its children, and SIGCONT after `seconds`."""
        victim = self._one(rng)
        _signal(victim, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            _signal(victim, signal.SIGCONT)

    def drain(self) -> None:
        """SIGTERM, and wait for the end; -9 for one that does not end."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=DRAIN_S)
        except subprocess.TimeoutExpired:
            self.stubborn += 1
            self.process.kill()
            self.process.wait(timeout=END_S)

    def wait_gone(self) -> list[str]:
        """Wait until no process of any start is left; those that stay, by what they are."""
        _, alive = psutil.wait_procs(self._left(), timeout=DRAIN_S)
        return [f"{self.name}: {process}" for process in alive]

    def end(self) -> None:
        """Whatever is left of it, of every start."""
        for process in self._left():
            _signal(process.pid, signal.SIGKILL)
        self.process.wait(timeout=END_S)

    def _left(self) -> list[psutil.Process]:
        left = []
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                if os.getsid(process.pid) in self._sessions and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(process)
        return left

    def _one(self, rng: random.Random) -> int:
        """Draw a living process of the program. They are sorted: equal draws give the same kind of process."""
        try:
            parent = psutil.Process(self.process.pid)
            family = [parent.pid, *sorted(child.pid for child in parent.children(recursive=True))]
        except psutil.NoSuchProcess:
            family = [self.process.pid]
        return family[int(rng.random() * len(family))]  # one draw, however many there are


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
