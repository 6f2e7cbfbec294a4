"""The processes of a chaos run: a coordinator that comes back on another port, and worker programs that come back."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

_COORDINATOR = """
import signal, sys, threading
from conductor.coordinator import Coordinator
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
with Coordinator(database=sys.argv[1]) as coordinator:
    print(coordinator.port, flush=True)
    over.wait()
"""
#: A process that was asked to end has this long.
END_S = 60.0
#: A worker program has a grace of one second; this is far beyond it.
DRAIN_S = 20.0


class CoordinatorProcess:
    """A coordinator on one file. `on_port` learns where it listens each time it starts."""

    def __init__(self, directory: Path, on_port: Callable[[int], None]) -> None:
        self._database = directory / "coordinator.db"
        self._log = directory / "coordinator.log"
        self._on_port = on_port
        self.port = 0
        self.kills = 0
        self.start()

    def start(self) -> None:
        """Start it, and return when it answers."""
        with self._log.open("ab") as log:
            command = [sys.executable, "-c", _COORDINATOR, str(self._database)]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the coordinator did not start:\n{self._log.read_text()[-3000:]}"
        self.port = int(line)
        self._on_port(self.port)

    def kill(self) -> None:
        """-9: nothing it holds in memory survives."""
        self.kills += 1
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to drain; its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=END_S)
        return self.process.returncode


class WorkerProgram:
    """A program of workers in a session of its own, so that nothing of it is left behind."""

    def __init__(self, name: str, command: Sequence[str], directory: Path, environment: dict[str, str]) -> None:
        self.name = name
        self._command = list(command)
        self._log = directory / f"{name}.log"
        self._environment = {**os.environ, **environment}
        self.kills = 0
        self.drains = 0
        #: Every process that was killed.
        self.killed_pids: set[int] = set()
        #: Drains that did not come to an end.
        self.stubborn = 0
        self._sessions: set[int] = set()
        self.start()

    def start(self) -> None:
        """Start it and return at once."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self._sessions.add(self.process.pid)

    def kill_one(self, rng: random.Random) -> bool:
        """-9 for the program or for one of its children. True: the program itself, which must be started again."""
        self.kills += 1
        processes = self._family()
        victim = rng.choice(processes) if processes else self.process.pid
        self.killed_pids.add(victim)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if victim == self.process.pid:
            self.process.wait(timeout=END_S)
            return True
        return False

    def drain(self) -> None:
        """SIGTERM, and wait for the end; -9 for one that does not end."""
        self.drains += 1
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=DRAIN_S)
        except subprocess.TimeoutExpired:
            self.stubborn += 1
            self.process.kill()
            self.process.wait(timeout=END_S)

    def end(self) -> None:
        """Whatever is left of it, of every start."""
        for session in self._sessions:
            try:
                os.killpg(session, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(timeout=END_S)

    def _family(self) -> list[int]:
        try:
            parent = psutil.Process(self.process.pid)
            return [parent.pid, *(child.pid for child in parent.children(recursive=True))]
        except psutil.NoSuchProcess:
            return []
