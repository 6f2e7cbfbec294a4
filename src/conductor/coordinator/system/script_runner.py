"""Scripts in processes of their own: started when a script comes, kept for the next, ended when one takes too long.

A script can take any time and any memory, in places where no engine looks at the clock. So it never runs in this
process: the worst that it can do to the one it runs in is that it is killed and another takes its place.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.language.script_engines import Language, engine_files, missing_engine
from conductor.coordinator.limits import (
    MAX_VALUE_BYTES,
    QUICK_SCRIPT_CPU_S,
    QUICK_SCRIPT_S,
    SCRIPT_BYTES,
    SCRIPT_PROCESS_BYTES,
    SCRIPT_S,
)

logger = logging.getLogger(__name__)

#: The process ends a script at its limit by itself; only where it cannot is it killed, this much later.
GRACE_S = 1.0
#: A process that is not ready by then is replaced.
START_S = 10.0
OVERRUN = f"Script not evaluated within {SCRIPT_S} seconds, interrupted."
#: Where the libraries of the interpreter are found is all that the process has to know of its surroundings.
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_PROGRAM = Path(__file__).with_name("script_process.py")


class ScriptRequest(NamedTuple):
    """A script and the JSON that it is about."""

    language: Language
    text: str
    data: bytes


class ScriptError(Exception):
    """A script that has no value. `overran`: it took too long or too much, which may be different the next time."""

    def __init__(self, reason: str, *, overran: bool = False) -> None:
        super().__init__(reason)
        self.overran = overran


class ScriptTimeout(ScriptError):
    """A script that took longer than its limit."""

    def __init__(self) -> None:
        super().__init__(OVERRUN, overran=True)


class QuickRunTimeout(Exception):
    """A script that did not end in its first run."""


class ScriptRunner:
    """Runs scripts, several at a time if several threads ask. Safe to use from any thread."""

    def __init__(self) -> None:
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run_quickly(self, script: ScriptRequest) -> Any:
        """Return the value of a script that is short. Raises MoreTimeNeeded, or ScriptError."""
        try:
            return self._run(script, QUICK_SCRIPT_CPU_S, QUICK_SCRIPT_S)
        except ScriptTimeout:
            raise QuickRunTimeout from None

    def run(self, script: ScriptRequest) -> Any:
        """Return the value of a script. Raises ScriptError, at the latest soon after `SCRIPT_S`."""
        return self._run(script, SCRIPT_S, SCRIPT_S + GRACE_S)

    def _run(self, script: ScriptRequest, cpu_s: float, limit_s: float) -> Any:
        missing = missing_engine(script.language)
        if missing is not None:
            raise ScriptError(f"a script in {script.language} {missing}")
        process = self._take()
        try:
            answer = process.ask(script, cpu_s, limit_s)
        except BaseException:
            self._forget(process)
            raise
        with self._lock:
            kept = not self._closed
            if kept:
                self._idle.append(process)
        if not kept:
            self._forget(process)
        return _value(answer)

    def close(self) -> None:
        """End all processes; what still runs in them fails."""
        with self._lock:
            self._closed = True
            idle, busy = self._idle, self._all.difference(self._idle)
            self._idle = []
        for process in idle:
            self._forget(process)
        for process in busy:
            process.kill()  # whoever waits for it notices, and cleans up

    def _take(self) -> _Process:
        with self._lock:
            if self._closed:
                raise ScriptError("the coordinator is stopping", overran=True)
            while self._idle:
                process = self._idle.pop()
                if process.alive:
                    return process
                self._all.discard(process)
                process.end()
            process = _Process()
            self._all.add(process)
            return process

    def _forget(self, process: _Process) -> None:
        with self._lock:
            self._all.discard(process)
            with contextlib.suppress(ValueError):
                self._idle.remove(process)
        process.end()

    @property
    def pids(self) -> list[int]:
        """The processes there are."""
        with self._lock:
            return [process.pid for process in self._all]


class _Process:
    """One process and the pipes to it."""

    def __init__(self) -> None:
        engines = [f"{name}={path}" for name, path in engine_files().items()]
        limits = (SCRIPT_PROCESS_BYTES, SCRIPT_BYTES, MAX_VALUE_BYTES)
        self._process = subprocess.Popen(
            # Isolated, and without the packages of this environment: it loads the engines and nothing else.
            [sys.executable, "-I", "-S", str(_PROGRAM), *map(str, limits), *engines],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            cwd="/",
            close_fds=True,
            start_new_session=True,  # Ctrl-C in the terminal is not meant for it
        )
        self._pipes = [pipe for pipe in (self._process.stdin, self._process.stdout) if pipe is not None]
        self._in, self._out = (pipe.fileno() for pipe in self._pipes)
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, script: ScriptRequest, cpu_s: float, limit_s: float) -> bytes:
        """Return the process's answer about a script. Raises ScriptError if there is none in time, or it dies."""
        if not self._ready:
            self._exchange(b"", START_S)
            self._ready = True
        request = {"language": script.language, "script": script.text, "data": script.data.decode(), "cpu_s": cpu_s}
        return self._exchange(msgspec.json.encode(request) + b"\n", limit_s)

    def _exchange(self, request: bytes, limit_s: float) -> bytes:
        left, answer = memoryview(request), bytearray()
        ends = time.monotonic() + limit_s
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if left:
            poll.register(self._in, select.POLLOUT)
        while not answer.endswith(b"\n"):
            left_s = ends - time.monotonic()
            if left_s <= 0:
                raise ScriptTimeout
            for fd, _ in poll.poll(left_s * 1000):
                if fd == self._in:
                    left = self._write(left)
                    if not left:
                        poll.unregister(self._in)
                elif not self._read(answer):
                    raise self._died()
        return bytes(answer)

    def _write(self, left: memoryview) -> memoryview:
        try:
            return left[os.write(self._in, left) :]
        except BlockingIOError:
            return left
        except OSError:
            raise self._died() from None

    def _read(self, answer: bytearray) -> bool:
        """Whether there was something to read."""
        try:
            part = os.read(self._out, 1024 * 1024)
        except BlockingIOError:
            return True
        answer += part
        if len(answer) > 2 * MAX_VALUE_BYTES:
            raise ScriptError("the value of the script is too large")
        return bool(part)

    def _died(self) -> ScriptError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        code = self._process.returncode
        if code == -signal.SIGXCPU:
            return ScriptTimeout()
        how = f"exit status {code}" if code is None or code >= 0 else signal.Signals(-code).name
        logger.warning("Script process ended during a script: %s; a new one is started for the next script", how)
        return ScriptError(f"the script process ended during the script: {how}", overran=True)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """For good; whoever asked it is done with it."""
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()


def _value(answer: bytes) -> Any:
    """The value in an answer. A script can spoil its own answer, so nothing is taken for granted."""
    try:
        said = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScriptError(f"the value of the script cannot be written as JSON: {error}") from None
    if isinstance(said, dict) and "value" in said:
        return said["value"]
    if isinstance(said, dict) and said.get("overrun") is True:
        raise ScriptTimeout
    reason = said.get("error") if isinstance(said, dict) else None
    raise ScriptError(str(reason or "the value of the script cannot be written as JSON"))
