"""Supervises the worker processes of a program: starts, watches, restarts and stops them."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

from conductor.client.automator.child import END_NOW, RETIRE
from conductor.client.automator.worker_process import WorkerProcess
from conductor.common.machine import try_lock

logger = logging.getLogger(__name__)

#: After the grace period of a drain, a process has this long to requeue its tasks and end before it is killed.
KILL_AFTER_S = 8.0
#: After the order to end now, a process has this long to requeue its tasks and end before it is killed.
END_NOW_S = 2.5
#: If a successor ends before its workers poll, another one is started after this time.
SUCCEED_AGAIN_S = 30.0
#: A program that ends waits at most this long for the recovery of the journals of killed processes.
RECOVERY_S = 3.0


class Supervisor:
    """Keeps the worker processes running, in a thread of its own, until `stop()`."""

    def __init__(
        self,
        children: list[WorkerProcess],
        *,
        grace_s: float = 0.0,
        on_started: Callable[[str], None] | None = None,
        on_ended: Callable[[str, int | None], None] | None = None,
        on_retired: Callable[[], None] | None = None,
    ) -> None:
        self.children = children
        #: Successors that are being set up, by the process that they will replace.
        self._successors: dict[WorkerProcess, WorkerProcess] = {}
        #: Replaced processes that finish their running tasks.
        self._retiring: list[WorkerProcess] = []
        #: The error of a worker process that could not start; None without such an error. After it, all processes are
        #: drained.
        self.start_error: str | None = None
        self._grace_s = grace_s
        self._on_started = on_started or (lambda _name: None)
        self._on_ended = on_ended or (lambda _name, _code: None)
        self._on_retired = on_retired or (lambda: None)
        self._stopping = False
        self._kill_at = math.inf
        self._wake_reader, self._wake_writer = os.pipe()
        # A pipe, not a threading.Event. `Event.wait` takes a lock: a signal handler that calls it while the interrupted
        # thread holds that lock would deadlock.
        self._end_reader, self._end_writer = multiprocessing.Pipe(duplex=False)
        self._thread: threading.Thread | None = None
        #: Becomes readable when the parent process dies; the workers are then drained.
        parent = multiprocessing.parent_process()
        self._parent_sentinels = [] if parent is None else [parent.sentinel]
        self._flag: int | None = None

    def start(self) -> None:
        """Start all worker processes, and the thread that watches them."""
        if self._parent_sentinels:
            self._flag = _lock_flag_file()
        for child in self.children:
            self._start(child)
        self._thread = threading.Thread(target=self._run, name="conductor-supervisor", daemon=True)
        self._thread.start()

    def drain(self, grace_s: float) -> None:
        """Drain all processes. A process that outlasts the grace period is killed. Safe in a signal handler."""
        if not self._stopping:
            self._kill_at = time.monotonic() + grace_s + KILL_AFTER_S
        self._stopping = True
        for child in self._all:
            child.drain()
        self._wake()

    def stop(self, grace_s: float) -> None:
        """Drain all processes, and wait until they have ended."""
        self.drain(grace_s)
        self.wait(grace_s + KILL_AFTER_S + 5)

    def end_now(self) -> None:
        """Let all processes requeue their tasks and end; then kill the rest. Safe in a signal handler."""
        self._stopping = True
        self._kill_at = min(self._kill_at, time.monotonic() + END_NOW_S)
        for child in self._all:
            child.send(END_NOW)
        self._wake()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no process runs any more; return False after the timeout.

        A signal handler may wait while the main thread waits.
        """
        return bool(wait([self._end_reader], timeout_s))

    @property
    def _all(self) -> list[WorkerProcess]:
        return [*self.children, *self._successors.values(), *self._retiring]

    def _start(self, child: WorkerProcess) -> None:
        child.start()
        for name in child.health_names:
            self._on_started(name)

    def _wake(self) -> None:
        try:
            os.write(self._wake_writer, b".")
        except OSError:
            pass  # the thread has ended

    def _run(self) -> None:
        try:
            while True:
                running = [child for child in self._all if child.alive]
                has_ended = all(child.restart_at == math.inf for child in self.children)
                if not running and (self._stopping or has_ended):
                    return
                # A process that died since the last check is also watched: its sentinel is ready immediately.
                watched = running if self._stopping else [child for child in self._all if child.restart_at is None]
                sentinels = [child.process.sentinel for child in watched if child.process is not None]
                connections = [child.connection for child in running if child.connection is not None]
                ready = wait(
                    [*sentinels, *connections, *self._parent_sentinels, self._wake_reader], self._next_check_s()
                )
                if set(ready) & set(self._parent_sentinels):
                    self._parent_sentinels = []
                    logger.warning("The process that started this program is dead; its workers are drained")
                    self.drain(self._grace_s)
                self._check()
        finally:
            self._recover()
            if self._flag is not None:
                _flag_path(os.getpid()).unlink(missing_ok=True)
                os.close(self._flag)
            self._end_writer.send(None)

    def _next_check_s(self) -> float | None:
        """Return the seconds until the next restart, successor, readiness check or kill is due; None if none is."""
        times = [
            at for child in self._all for at in (child.restart_at, child.ready_by, child.succeed_at) if at is not None
        ]
        due = min([self._kill_at, *([] if self._stopping else times)])
        return None if due == math.inf else max(0.0, due - time.monotonic())

    def _check(self) -> None:
        while wait([self._wake_reader], 0):
            os.read(self._wake_reader, 4096)
        if time.monotonic() >= self._kill_at:
            self._kill_all()
        for child in self._all:
            child.receive()
        for child in self.children:
            if child.start_error is not None and not child.has_worked:
                self._on_start_error(child)
            if self._stopping:
                child.restart_at = None
            elif child.restart_at is not None:
                self._start_again(child)
            elif not child.alive:
                self._on_child_ended(child)
        if not self._stopping:
            self._check_successors()

    def _kill_all(self) -> None:
        self._kill_at = math.inf
        for child in self._all:
            if child.alive and child.process is not None:
                logger.error("Worker process '%s' (pid %s) does not end and is killed", child.name, child.process.pid)
                child.kill()

    def _on_start_error(self, child: WorkerProcess) -> None:
        """Drain all processes after a failed set-up, because another attempt would also fail."""
        if self.start_error is None:
            self.start_error = child.start_error
            logger.error("Worker process '%s' cannot start, so all are drained: %s", child.name, child.start_error)
            self.drain(self._grace_s)

    def _start_again(self, child: WorkerProcess) -> None:
        if child.restart_at is None or time.monotonic() < child.restart_at:
            return
        try:
            self._start(child)
        except (OSError, EOFError, RuntimeError) as error:
            child.postpone(error)

    def _on_child_ended(self, child: WorkerProcess) -> None:
        child.on_ended()
        for name in child.health_names:
            self._on_ended(name, child.process.exitcode if child.process else None)
        if child in self._successors:  # its successor is already starting
            self._successors[child].restarts = child.restarts
            for name in child.health_names:
                self._on_started(name)
            self._replace(child)

    def _check_successors(self) -> None:
        for child in list(self.children):
            if child.succeed_at is not None and child.succeed_at <= time.monotonic():
                self._start_successor(child)
        for child, successor in list(self._successors.items()):
            if not successor.alive:
                del self._successors[child]
                successor.on_retired()
                child.succeed_at = time.monotonic() + SUCCEED_AGAIN_S
                why = successor.start_error or f"exit code {successor.process.exitcode if successor.process else None}"
                logger.error(
                    "The successor of worker process '%s' has not begun to work (%s); the next is started in %.0f s",
                    child.name,
                    why,
                    SUCCEED_AGAIN_S,
                )
            elif successor.is_working:
                self._replace(child)
        for retired in [child for child in self._retiring if not child.alive]:
            self._retiring.remove(retired)
            retired.on_retired()
            self._on_retired()

    def _start_successor(self, child: WorkerProcess) -> None:
        child.succeed_at = None
        # Added before the start, so that orders to all processes reach the successor.
        successor = self._successors[child] = child.make_successor()
        successor.is_draining = self._stopping
        try:
            successor.start()
        except (OSError, EOFError, RuntimeError) as error:
            del self._successors[child]
            child.succeed_at = time.monotonic() + SUCCEED_AGAIN_S
            logger.error("Successor of worker process '%s' could not be started: %s", child.name, error)

    def _replace(self, child: WorkerProcess) -> None:
        """Let the successor take over. The old process takes no new tasks, and ends after its running tasks."""
        successor = self._successors[child]
        for name in child.paused ^ successor.paused:  # paused or resumed while the successor started
            successor.pause(name, name in child.paused)
        if child.alive:
            self._retiring.append(child)
        self.children[self.children.index(child)] = successor
        del self._successors[child]  # removed last, so that a signal handler finds every process in `_all`
        child.send(RETIRE)

    def _recover(self) -> None:
        for child in self._all:
            child.recover_if_killed()
        until = time.monotonic() + RECOVERY_S
        for child in self.children:
            child.wait_for_recovery(until)


def runs_workers(pid: int) -> bool:
    """Return whether a process that this program has started runs worker processes."""
    try:
        flag = os.open(_flag_path(pid), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(flag)
    finally:
        os.close(flag)


def _lock_flag_file() -> int | None:
    """Lock a file as long as worker processes run, and return its descriptor.

    `runs_workers` in the parent process checks the lock.
    """
    try:
        flag = os.open(_flag_path(os.getpid()), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None  # without the file, `runs_workers` returns False for this process
    try_lock(flag)
    return flag


def _flag_path(pid: int) -> Path:
    return Path(tempfile.gettempdir()) / f"conductor-workers-{os.getuid()}-{pid}"
