"""The handle of one worker process: starts it, reads its messages, and schedules its restarts."""

from __future__ import annotations

import logging
import math
import multiprocessing
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import register_after_fork
from pathlib import Path

from conductor.client.automator.child import (
    CANNOT_START,
    DRAIN,
    PAUSE,
    RECYCLE,
    RESUME,
    WORKING,
    ChildSpec,
    run_child,
)
from conductor.client.automator.recovery import ProcessEnd, Recovery
from conductor.client.configuration.option import ConfigurationError
from conductor.common.backoff import Backoff
from conductor.common.clock import SYSTEM_CLOCK

logger = logging.getLogger(__name__)

#: The module that the fork server imports, so that worker processes need not import the same modules again.
PRELOAD = "conductor.client.automator.preload"
#: A process that has run this long is healthy, and its restarts count from zero again.
HEALTHY_S = 60.0
#: An error is logged if a process has sent no message after this time.
READY_S = 20.0


def is_loading_main() -> bool:
    """Return whether this worker process is still importing the user's script.

    The script must not start worker processes during this import.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        return True
    # A process that the script forks during the import has no `_inheriting`, and its script is not `__main__` yet.
    loaded = sys.modules.get("__mp_main__")
    return loaded is not None and loaded is not sys.modules.get("__main__")


def make_start_context(method: str | None) -> BaseContext:
    """Return the context that starts worker processes, without changing the program's default.

    Args:
        method: `forkserver`, `spawn` or `fork`; None chooses the best one that is available.
    """
    if method is None:
        main = sys.modules.get("__main__")
        file = getattr(main, "__file__", None)  # a program from standard input has a `__file__` that does not exist
        is_script = (file is not None and Path(file).exists()) or getattr(main, "__spec__", None) is not None
        available = multiprocessing.get_all_start_methods()
        # The functions of a notebook exist only in its process, so only a forked process has them.
        preferred = ["forkserver", "spawn"] if is_script else ["fork", "spawn"]
        method = next(name for name in preferred if name in available)
    if method == "forkserver":
        _preload_imports()
    return multiprocessing.get_context(method)


def _preload_imports() -> None:
    """Let the fork server import this library's modules, besides those that the program has chosen.

    From Python 3.14 on, the fork server would by default also import the program's script. It must not: a script that
    runs forever at its top level would keep the fork server from starting any process, and all processes would share
    the connections of the script.
    """
    from multiprocessing import forkserver

    chosen = [name for name in getattr(forkserver._forkserver, "_preload_modules", ()) if name != "__main__"]
    if PRELOAD not in chosen:
        forkserver.set_forkserver_preload([*chosen, PRELOAD])


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Whether and when a process that ended by itself is started again."""

    on_failure: bool = True
    first_s: float = 0.5
    cap_s: float = 30.0
    #: The most restarts in a row; 0 for no limit.
    max_attempts: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.cap_s:
            raise ConfigurationError(
                f"restart_backoff_seconds is {self.first_s:g} and restart_backoff_max_seconds {self.cap_s:g}: "
                "both must be more than 0, and restart_backoff_seconds must not be the larger one"
            )
        if self.max_attempts < 0:
            raise ConfigurationError(f"restart_max_attempts is {self.max_attempts}: it must be 0 (no limit) or more")


class WorkerProcess:
    """A worker process, and its restarts. `process` is the current one."""

    def __init__(
        self,
        spec: ChildSpec,
        context: BaseContext,
        restarts: RestartPolicy | None = None,
        *,
        paused: Iterable[str] = (),
        recovery: Recovery | None = None,
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._context = context
        self.process: BaseProcess | None = None
        #: The connection to the process: orders are sent, and messages are received. None after the process has ended.
        self.connection: Connection | None = None
        self.restarts = 0
        self.failures = 0  # how many processes in a row ended within `HEALTHY_S`
        self._policy = restarts or RestartPolicy()
        self._backoff = Backoff(self._policy.first_s, self._policy.cap_s, jitter=0.2)
        self._started_at = 0.0
        self._started_ms = 0
        #: Whether this program has killed the process. If so, none of its tasks is blamed for the death.
        self._was_killed = False
        #: When the process is started again; None while it runs, and infinite if it is never started again.
        self.restart_at: float | None = None
        #: When an error is logged if the process has sent no message; None after the first message or the error.
        self.ready_by: float | None = None
        #: The names of its workers that take no new tasks.
        self.paused = set(paused)
        self.is_draining = False
        #: Takes over the journal of the process after its death.
        self._recovery = recovery
        #: Whether the process polls, and whether it or a predecessor ever did.
        self.is_working = False
        self.has_worked = False
        #: Why the workers cannot be set up; None if they can.
        self.start_error: str | None = None
        #: The time at which a successor is to be started; None if none was requested, or if the start has begun.
        self.succeed_at: float | None = None
        self._is_successor = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its workers."""
        return self._spec.names or (self.name,)

    @property
    def health_names(self) -> list[str]:
        """The names of its workers in metrics and health: task types, if the process has several workers."""
        if len(self.names) == 1:
            return list(self.names)
        return list(dict.fromkeys(name.partition("@")[0] for name in self.names))

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.is_alive()

    def make_successor(self) -> WorkerProcess:
        """Return the next process for the same workers, which is not started yet."""
        successor = WorkerProcess(self._spec, self._context, self._policy, paused=self.paused, recovery=self._recovery)
        successor.restarts, successor.has_worked, successor._is_successor = self.restarts, self.has_worked, True
        return successor

    def start(self) -> None:
        """Start the process, for the first time or again."""
        ours, theirs = self._context.Pipe()
        # A forked child inherits the parent's ends of all pipes. The child must close them. Otherwise its own pipe
        # would stay open when the parent dies, and the child would not notice.
        register_after_fork(ours, Connection.close)
        process = self._context.Process(  # type: ignore[attr-defined]
            target=run_child, args=(self._spec, theirs), name=f"conductor-{self.name}", daemon=False
        )
        self._started_ms = SYSTEM_CLOCK.wall_ms()
        process.start()
        theirs.close()
        self.process, self.connection = process, ours
        self._started_at = time.monotonic()
        self._was_killed = False
        self.ready_by = self._started_at + READY_S
        self.restart_at = self.succeed_at = self.start_error = None
        self.is_working = False
        for name in self.names:
            if name in self.paused or self.restarts or self._is_successor:
                # `pause` and `resume` also apply to later processes, whatever the worker's options say.
                self.send(PAUSE if name in self.paused else RESUME, name)
        if self.is_draining:  # the order to drain came before this start
            self.send(DRAIN)

    def pause(self, name: str, paused: bool) -> None:
        """Let one worker take no new tasks, or take tasks again."""
        if paused:
            self.paused.add(name)
        else:
            self.paused.discard(name)
        self.send(PAUSE if paused else RESUME, name)

    def drain(self) -> None:
        """Drain the process, or the one that is being started."""
        self.is_draining = True
        self.send(DRAIN)

    def send(self, order: str, name: str | None = None) -> None:
        """Send an order; a process that has ended ignores it."""
        if self.connection is not None:
            try:
                self.connection.send((order, name))
            except (OSError, ValueError):
                pass

    def kill(self) -> None:
        """Kill the process. The tasks of the process are requeued, and none of them is blamed for the death."""
        if self.process is not None:
            self._was_killed = True
            self.process.kill()

    def receive(self) -> None:
        """Read the messages of the process. Log an error once if no message has arrived within `READY_S`."""
        try:
            while self.connection is not None and self.connection.poll():
                message, text = self.connection.recv()
                self.ready_by = None
                if message == WORKING:
                    self.is_working = self.has_worked = True
                elif message == CANNOT_START:
                    self.start_error = text
                elif message == RECYCLE:
                    logger.info("Worker process '%s' gets a successor: %s", self.name, text)
                    self.succeed_at = time.monotonic()
        except (EOFError, OSError):  # the process ends, which the supervisor notices soon
            if self.connection is not None:
                self.connection.close()
                self.connection = None
        if self.ready_by is not None and time.monotonic() > self.ready_by:
            self.ready_by = None
            logger.error(
                "Worker process '%s' (pid %s) has not begun to work after %.0f s. If the script does lengthy "
                "work at its top level, move it under `if __name__ == '__main__':`, "
                "because every worker process runs the top level first",
                self.name,
                self.process.pid if self.process else None,
                READY_S,
            )

    def on_ended(self) -> None:
        """Schedule the restart of a process that ended by itself, and take over its journal."""
        assert self.process is not None  # noqa: S101
        exit_code = self.process.exitcode
        self._close()
        if time.monotonic() - self._started_at > HEALTHY_S:
            self._backoff.reset()
            self.failures = 0
        delay_s = self._next_delay_s()
        self.failures += 1
        self.restart_at = time.monotonic() + delay_s
        again = "it is not started again" if delay_s == math.inf else f"it starts again in {delay_s:.1f} s"
        logger.error(
            "Worker process '%s' (pid %s) ended with exit code %s; %s", self.name, self.process.pid, exit_code, again
        )
        self._recover()

    def _next_delay_s(self) -> float:
        """Return the seconds until the restart; infinite if there is none."""
        if not self._policy.on_failure:
            return math.inf
        if self._policy.max_attempts and self.failures >= self._policy.max_attempts:
            logger.error(
                "Not restarting worker process: max restart attempts reached (worker=%s, attempts=%d)",
                self.name,
                self.failures,
            )
            return math.inf
        self.restarts += 1
        return self._backoff.next()

    def postpone(self, error: Exception) -> None:
        """Schedule another start after one that failed, for example because memory or the fork server was missing."""
        self.restart_at = time.monotonic() + self._policy.cap_s
        logger.error(
            "Worker process '%s' cannot be started (%s); next try in %.0f s", self.name, error, self._policy.cap_s
        )

    def on_retired(self) -> None:
        """Clean up after a process that has a successor, or a successor that did not begin to work."""
        self.recover_if_killed()
        self._close()

    def recover_if_killed(self) -> None:
        """Take over the journal of a process that has ended with an error or a signal."""
        if self.process is not None and self.process.exitcode != 0:
            self._recover()

    def wait_for_recovery(self, until: float) -> None:
        """Wait until the journals are taken over, or the time `until`.

        The next start of the program takes over the remaining journals.
        """
        if self._recovery is not None:
            self._recovery.end(max(0.0, until - time.monotonic()))

    def _recover(self) -> None:
        if self._recovery is not None and self.process is not None:
            end = ProcessEnd(self.process.pid, self.process.exitcode, self._started_ms, self._was_killed)
            self._recovery.begin(end)

    def _close(self) -> None:
        assert self.process is not None  # noqa: S101
        self.ready_by = self.succeed_at = None
        self.process.join()
        if self.connection is not None:
            self.connection.close()
            self.connection = None
