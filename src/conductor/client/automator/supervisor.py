"""The parent's side of worker processes: start them, watch them, start them again, stop them."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import register_after_fork
from pathlib import Path
from typing import Any

from conductor.client.automator.child import DRAIN, PAUSE, RESUME, ChildSpec, WorkerReference, run_child
from conductor.client.automator.poll import Backoff
from conductor.client.worker import registry
from conductor.client.worker.option import ConfigurationError
from conductor.client.worker.worker import Worker

logger = logging.getLogger(__name__)

#: What the fork server loads, so that its children need not.
PRELOAD = "conductor.client.automator.preload"
#: A child that has lived this long has recovered: its restarts count from zero again.
HEALTHY_S = 60.0
#: A process that has not begun to work after this long is complained about.
READY_S = 20.0
#: After a drain's grace, a child has this long to hand back and end before it is killed.
KILL_AFTER_S = 8.0


def loading_main() -> bool:
    """Whether this process is a child that loads the user's script, which would start children of its own again.

    Also true in what such a script forks meanwhile: there the script's module is not yet the main module.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        return True
    loaded = sys.modules.get("__mp_main__")
    return loaded is not None and loaded is not sys.modules.get("__main__")


def start_context(method: str | None) -> BaseContext:
    """The way children start: a context of our own, so that nothing global changes."""
    if method is None:
        main = sys.modules.get("__main__")
        file = getattr(main, "__file__", None)  # of a program from standard input it is a name without a file
        scripted = (file is not None and Path(file).exists()) or getattr(main, "__spec__", None) is not None
        known = multiprocessing.get_all_start_methods()
        # A notebook's functions exist nowhere else: only a fork knows them.
        preferred = ["forkserver", "spawn"] if scripted else ["fork", "spawn"]
        method = next(name for name in preferred if name in known)
    if method == "forkserver":
        _share_imports()
    return multiprocessing.get_context(method)


def _share_imports() -> None:
    """A fork server that is still to start loads our modules first; what else the program wants loaded stays."""
    from multiprocessing import forkserver

    wanted = getattr(forkserver._forkserver, "_preload_modules", ["__main__"])
    if PRELOAD not in wanted:
        forkserver.set_forkserver_preload([*wanted, PRELOAD])


def portable(spec: ChildSpec) -> ChildSpec:
    """The same, as it can travel to another process; an error that says which worker cannot, and what to do."""
    try:
        ForkingPickler.dumps(spec.worker)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        spec = replace(spec, worker=_reference(spec.worker, error))
    for listener in spec.listeners:
        try:
            ForkingPickler.dumps(listener)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"event listener {listener!r} cannot be sent to the worker processes ({error}). Define its class "
                "at the top of a module and keep files, locks and clients out of its attributes; or use "
                "start_method='fork' or TaskHandlerAsyncIO"
            ) from None
    return spec


def _reference(worker: Any, error: Exception) -> WorkerReference:
    name = worker.get_task_definition_name()
    function = getattr(worker, "execute_function", None)
    local = "<locals>" in getattr(function, "__qualname__", "<locals>")
    if isinstance(worker, Worker) and function is not None and not local and registry.worker_of(function) is worker:
        return WorkerReference(function.__module__, name, worker.domain)
    raise TypeError(
        f"worker '{name}' cannot be sent to its process ({error}). Define its function or class at the top of a "
        "module, not inside a function; or use start_method='fork' or TaskHandlerAsyncIO"
    ) from None


@dataclass(frozen=True, slots=True)
class Restarts:
    """How a process that ended by itself is started again."""

    on_failure: bool = True
    first_s: float = 0.5
    cap_s: float = 30.0
    #: So many in a row, and no more; 0: no limit.
    max_attempts: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.cap_s:
            raise ConfigurationError(
                f"restart_backoff_seconds is {self.first_s:g} and restart_backoff_max_seconds {self.cap_s:g}: "
                "the first must be more than 0, and not more than the second"
            )
        if self.max_attempts < 0:
            raise ConfigurationError(f"restart_max_attempts is {self.max_attempts}: it must be 0 (no limit) or more")


class Child:
    """One worker's process, and its successors."""

    def __init__(
        self, spec: ChildSpec, context: BaseContext, restarts: Restarts | None = None, *, paused: bool = False
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._context = context
        self.process: BaseProcess | None = None
        self._orders: Connection | None = None
        self.restarts = 0
        self.failures = 0  # ends in a row without a healthy life between them
        self._rule = restarts or Restarts()
        self._backoff = Backoff(self._rule.first_s, self._rule.cap_s, jitter=0.2)
        self._started_at = 0.0
        #: When it is started again; None: it runs, or nobody has noticed its end yet; infinite: never.
        self.restart_at: float | None = None
        #: By when the process must have said that it works; None: it has, or was complained about.
        self.ready_by: float | None = None
        self.paused = paused
        self.draining = False

    def start(self) -> None:
        """Start the process, the first or the next."""
        ours, theirs = self._context.Pipe()
        # A forked child inherits our ends, its own too, and would never see them close when we die.
        register_after_fork(ours, Connection.close)
        process = self._context.Process(  # type: ignore[attr-defined]
            target=run_child, args=(self._spec, theirs), name=f"conductor-{self.name}", daemon=False
        )
        process.start()
        theirs.close()
        self.process, self._orders = process, ours
        self._started_at = time.monotonic()
        self.ready_by = self._started_at + READY_S
        self.restart_at = None
        if self.paused or self.restarts:
            # What was said at run time holds for its successors, whatever its options say.
            self.order(PAUSE if self.paused else RESUME)
        if self.draining:  # meanwhile
            self.order(DRAIN)

    def drain(self) -> None:
        """Tell the child to finish, or the one that is just being started."""
        self.draining = True
        self.order(DRAIN)

    def order(self, order: str) -> None:
        """Tell the child; one that is gone cannot hear."""
        if self._orders is not None:
            try:
                self._orders.send(order)
            except (OSError, ValueError):
                pass

    def ended(self) -> None:
        """The process ended by itself: note when it may start again."""
        assert self.process is not None  # noqa: S101
        self.ready_by = None
        code = self.process.exitcode
        self.process.join()
        if self._orders is not None:
            self._orders.close()
            self._orders = None
        if time.monotonic() - self._started_at > HEALTHY_S:
            self._backoff.reset()
            self.failures = 0
        delay_s = self._next_start_s()
        self.failures += 1
        self.restart_at = time.monotonic() + delay_s
        again = "it is not started again" if delay_s == math.inf else f"it starts again in {delay_s:.1f} s"
        logger.error(
            "Worker process '%s' (pid %s) ended with exit code %s; %s", self.name, self.process.pid, code, again
        )

    def _next_start_s(self) -> float:
        """Seconds until it is started again; infinite: never."""
        if not self._rule.on_failure:
            return math.inf
        if self._rule.max_attempts and self.failures >= self._rule.max_attempts:
            logger.error(
                "Not restarting worker process: max restart attempts reached (worker=%s, attempts=%d)",
                self.name,
                self.failures,
            )
            return math.inf
        self.restarts += 1
        return self._backoff.next()

    def postpone(self, error: Exception) -> None:
        """It cannot be started now: no memory, no thread, no fork server. That is not for ever."""
        self.restart_at = time.monotonic() + self._rule.cap_s
        logger.error(
            "Worker process '%s' cannot be started (%s); next try in %.0f s", self.name, error, self._rule.cap_s
        )

    @property
    def news(self) -> Connection | None:
        """Where the process says that it works, while that is waited for."""
        return self._orders if self.ready_by is not None else None

    def check_ready(self) -> None:
        """Read whether it works; say so once if it should and does not."""
        if self.ready_by is None or self._orders is None:
            return
        if self._orders.poll():
            self.ready_by = None
        elif time.monotonic() > self.ready_by:
            self.ready_by = None
            logger.error(
                "Worker process '%s' (pid %s) has not begun to work after %.0f s. If the program does something that "
                "lasts at the top level of its script, put that under `if __name__ == '__main__':`: "
                "every worker process runs the script's top level first",
                self.name,
                self.process.pid if self.process else None,
                READY_S,
            )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.is_alive()


class Supervisor:
    """Keeps the children running in a thread of its own, until `stop()`."""

    def __init__(
        self,
        children: list[Child],
        *,
        grace_s: float = 0.0,
        on_started: Callable[[str], None] | None = None,
        on_ended: Callable[[str, int | None], None] | None = None,
    ) -> None:
        self.children = children
        self._grace_s = grace_s
        self._on_started = on_started or (lambda _name: None)
        self._on_ended = on_ended or (lambda _name, _code: None)
        self._stopping = False
        self._kill_at = math.inf
        self._wake_r, self._wake_w = os.pipe()
        # Not a threading.Event: whoever waits for that holds its lock, and a signal handler may wait here as well.
        self._over_r, self._over_w = multiprocessing.Pipe(duplex=False)
        self._thread: threading.Thread | None = None
        #: Ready when the process that started this one is dead: then nobody is left to stop the children.
        above = multiprocessing.parent_process()
        self._above = [] if above is None else [above.sentinel]

    def start(self) -> None:
        """Start all children, and watch them."""
        for child in self.children:
            child.start()
            self._on_started(child.name)
        self._thread = threading.Thread(target=self._watch, name="conductor-supervisor", daemon=True)
        self._thread.start()

    def drain(self, grace_s: float) -> None:
        """Tell all children to finish; none is started again, and one that outlasts the grace is killed.

        Safe in a signal handler: it only sends.
        """
        if not self._stopping:
            self._kill_at = time.monotonic() + grace_s + KILL_AFTER_S
        self._stopping = True
        for child in self.children:
            child.drain()
        self._wake()

    def stop(self, grace_s: float) -> None:
        """Drain, and wait for the end."""
        self.drain(grace_s)
        self.wait(grace_s + KILL_AFTER_S + 5)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no child runs any more. Signal handlers may do so while the main thread does."""
        return bool(wait([self._over_r], timeout_s))

    def kill(self) -> None:
        """End all children at once."""
        self._stopping = True
        self._kill_at = math.inf
        for child in self.children:
            if child.alive and child.process is not None:
                logger.error("Worker process '%s' (pid %s) does not end and is killed", child.name, child.process.pid)
                child.process.kill()
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_w, b".")
        except OSError:
            pass  # the watch is over

    def _watch(self) -> None:
        try:
            while True:
                running = [child for child in self.children if child.alive]
                none_will_run = all(child.restart_at == math.inf for child in self.children)
                if not running and (self._stopping or none_will_run):
                    return
                # One that died since the last look is watched, too: its sentinel is ready at once.
                watched = running if self._stopping else [child for child in self.children if child.restart_at is None]
                sentinels = [child.process.sentinel for child in watched if child.process is not None]
                news = [child.news for child in running if child.news is not None]
                if set(wait([*sentinels, *news, *self._above, self._wake_r], self._next_look_s())) & set(self._above):
                    self._above = []
                    logger.warning("The process that started the workers' program is dead: they are drained")
                    self.drain(self._grace_s)
                self._look_after()
        finally:
            self._over_w.send(None)

    def _next_look_s(self) -> float | None:
        """Seconds until something is due; None: nothing is."""
        times = [at for child in self.children for at in (child.restart_at, child.ready_by) if at is not None]
        due = min([self._kill_at, *([] if self._stopping else times)])
        return None if due == math.inf else max(0.0, due - time.monotonic())

    def _look_after(self) -> None:
        while wait([self._wake_r], 0):
            os.read(self._wake_r, 4096)
        if time.monotonic() >= self._kill_at:
            self.kill()
        for child in self.children:
            child.check_ready()
            if self._stopping:
                child.restart_at = None
            elif child.restart_at is not None:
                self._start_again(child)
            elif not child.alive:
                child.ended()
                self._on_ended(child.name, child.process.exitcode if child.process else None)

    def _start_again(self, child: Child) -> None:
        if child.restart_at is None or time.monotonic() < child.restart_at:
            return
        try:
            child.start()
            self._on_started(child.name)
        except (OSError, EOFError, RuntimeError) as error:
            child.postpone(error)
