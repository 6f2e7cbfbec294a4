"""Run scripts in a pool of processes, and kill a process whose script takes too long.

A script can use any amount of time and memory, also in places where its engine checks no limit. So scripts never run in
the coordinator's process. The worst that a script can do is to have its own process killed; the next script gets a new
one. Processes are started on demand and reused.
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
from typing import NamedTuple

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
from conductor.protocol.json_types import Json

logger = logging.getLogger(__name__)

#: A process stops a script at its time limit. If it has not done so after this additional time, it is killed.
GRACE_S = 1.0
#: A process that is not ready after this time is killed, and its script counts as timed out.
MAX_PROCESS_START_S = 10.0
#: If the system cannot start a process, for example for lack of memory or open files, a script waits `START_AGAIN_S`
#: for each further attempt, and fails after `START_WITHIN_S`.
START_AGAIN_S, START_WITHIN_S = 0.5, 60.0
TIMEOUT_REASON = f"Script not evaluated within {SCRIPT_S} seconds, interrupted."
#: The only environment variables that a script process inherits. Its interpreter needs them to find its libraries.
_INHERITED_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_PROGRAM = Path(__file__).with_name("script_process.py")


class ScriptRequest(NamedTuple):
    """A script, and the JSON that it can read."""

    language: Language
    text: str
    data: bytes


class ScriptError(Exception):
    """A script that failed. `overran` is true if it used too much time or memory, so that a retry may succeed."""

    def __init__(self, reason: str, *, overran: bool = False) -> None:
        super().__init__(reason)
        self.overran = overran


class ScriptTimeout(ScriptError):
    """A script that took longer than its limit."""

    def __init__(self) -> None:
        super().__init__(TIMEOUT_REASON, overran=True)


class QuickRunTimeout(Exception):
    """A script that did not end within the limits of a quick run."""


class ScriptRunner:
    """Runs scripts in a pool of processes. Thread-safe: each call blocks its thread and uses a process of its own."""

    def __init__(self) -> None:
        self._idle: list[_ScriptProcess] = []
        self._all: set[_ScriptProcess] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run_quickly(self, script: ScriptRequest) -> Json:
        """Return the value of a short script. Raises QuickRunTimeout or ScriptError."""
        try:
            return self._run(script, QUICK_SCRIPT_CPU_S, QUICK_SCRIPT_S)
        except ScriptTimeout:
            raise QuickRunTimeout from None

    def run(self, script: ScriptRequest) -> Json:
        """Return the value of a script. Raises ScriptError, also if the script takes longer than `SCRIPT_S`."""
        return self._run(script, SCRIPT_S, SCRIPT_S + GRACE_S)

    def _run(self, script: ScriptRequest, cpu_s: float, limit_s: float) -> Json:
        missing = missing_engine(script.language)
        if missing is not None:
            raise ScriptError(f"a script in {script.language} {missing}")
        process = self._get_process()
        try:
            answer = process.evaluate(script, cpu_s, limit_s)
        except BaseException:
            self._remove(process)
            raise
        with self._lock:
            closed = self._closed
            if not closed:
                self._idle.append(process)
        if closed:
            self._remove(process)
        return _read_value(answer)

    def close(self) -> None:
        """End all processes. Running scripts fail."""
        with self._lock:
            self._closed = True
            idle, busy = self._idle, self._all.difference(self._idle)
            self._idle = []
        for process in idle:
            self._remove(process)
        for process in busy:
            process.kill()  # the thread that waits for the answer then removes the process

    def _get_process(self) -> _ScriptProcess:
        """Return an idle process, or start one."""
        began, has_failed = time.monotonic(), False
        while True:
            try:
                return self._take_or_start()
            except OSError as error:
                if time.monotonic() - began > START_WITHIN_S:
                    reason = f"no process for the script could be started within {START_WITHIN_S:g} s"
                    raise ScriptError(f"{reason}: {error.strerror}", overran=True) from error
                if not has_failed:
                    logger.error(
                        "Script process could not be started: error=%r gives_up_in=%gs", str(error), START_WITHIN_S
                    )
                has_failed = True
            time.sleep(START_AGAIN_S)

    def _take_or_start(self) -> _ScriptProcess:
        with self._lock:
            if self._closed:
                raise ScriptError("the coordinator is stopping", overran=True)
            while self._idle:
                process = self._idle.pop()
                if process.alive:
                    return process
                self._all.discard(process)
                process.end()
            process = _ScriptProcess()
            self._all.add(process)
            return process

    def _remove(self, process: _ScriptProcess) -> None:
        with self._lock:
            self._all.discard(process)
            with contextlib.suppress(ValueError):
                self._idle.remove(process)
        process.end()

    @property
    def pids(self) -> list[int]:
        """The process ids of the pool."""
        with self._lock:
            return [process.pid for process in self._all]


class _ScriptProcess:
    """A script process and the pipes to it."""

    def __init__(self) -> None:
        engines = [f"{name}={path}" for name, path in engine_files().items()]
        limits = (SCRIPT_PROCESS_BYTES, SCRIPT_BYTES, MAX_VALUE_BYTES)
        self._process = subprocess.Popen(
            # Isolated and without site-packages, because the process loads only the files in `engines`.
            [sys.executable, "-I", "-S", str(_PROGRAM), *map(str, limits), *engines],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
            cwd="/",
            close_fds=True,
            start_new_session=True,  # Ctrl-C in the terminal must not end the process
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

    def evaluate(self, script: ScriptRequest, cpu_s: float, limit_s: float) -> bytes:
        """Return the answer to a script. Raises ScriptError if the process ends first or the answer is late."""
        if not self._ready:
            self._exchange(b"", MAX_PROCESS_START_S)
            self._ready = True
        request = {"language": script.language, "script": script.text, "data": script.data.decode(), "cpu_s": cpu_s}
        return self._exchange(msgspec.json.encode(request) + b"\n", limit_s)

    def _exchange(self, request: bytes, limit_s: float) -> bytes:
        """Write a request and read the line that answers it, both within `limit_s`."""
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
                    raise self._exit_error()
        return bytes(answer)

    def _write(self, left: memoryview) -> memoryview:
        try:
            return left[os.write(self._in, left) :]
        except BlockingIOError:
            return left
        except OSError:
            raise self._exit_error() from None

    def _read(self, answer: bytearray) -> bool:
        """Append available output to `answer`. Return False at the end of the output."""
        try:
            part = os.read(self._out, 1024 * 1024)
        except BlockingIOError:
            return True
        answer += part
        if len(answer) > 2 * MAX_VALUE_BYTES:
            raise ScriptError(f"the answer of the script process has more than {2 * MAX_VALUE_BYTES} bytes")
        return bool(part)

    def _exit_error(self) -> ScriptError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        code = self._process.returncode
        if code == -signal.SIGXCPU:
            return ScriptTimeout()
        cause = f"exit status {code}" if code is None or code >= 0 else signal.Signals(-code).name
        logger.warning("Script process ended during a script: cause=%r; the next script gets a new process", cause)
        return ScriptError(f"the script process ended during the script: {cause}", overran=True)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Kill the process and free its pipes."""
        self._process.kill()
        self._process.wait()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()


def _read_value(answer: bytes) -> Json:
    """Return the value in an answer. A script can corrupt its answer, so its form is not trusted."""
    try:
        decoded = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScriptError(f"the value of the script cannot be written as JSON: {error}") from None
    fields = decoded if isinstance(decoded, dict) else {}
    if "value" in fields:
        return fields["value"]
    if fields.get("overrun") is True:
        raise ScriptTimeout
    reason = fields.get("error")
    raise ScriptError(str(reason or "the value of the script cannot be written as JSON"))
