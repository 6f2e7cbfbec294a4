"""The parent's side of worker processes: start them, watch them, start them again, stop them."""

from __future__ import annotations

import ast
import inspect
import logging
import math
import multiprocessing
import os
import pickle
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import register_after_fork
from pathlib import Path
from typing import Any

from conductor.client.automator.child import (
    CANNOT_START,
    DRAIN,
    END_NOW,
    PAUSE,
    RESUME,
    RETIRE,
    WORKING,
    WORN,
    ChildSpec,
    WorkerReference,
    run_child,
)
from conductor.client.automator.recovery import ProcessEnd, Recovery
from conductor.client.configuration.option import ConfigurationError
from conductor.client.worker import registry
from conductor.client.worker.dependencies import get_name
from conductor.client.worker.worker import Worker
from conductor.common.backoff import Backoff
from conductor.common.clock import SYSTEM_CLOCK
from conductor.common.machine import try_lock

logger = logging.getLogger(__name__)

#: What the fork server loads, so that its children need not.
PRELOAD = "conductor.client.automator.preload"
#: A child that has lived this long has recovered: its restarts count from zero again.
HEALTHY_S = 60.0
#: A process that has not begun to work after this long is complained about.
READY_S = 20.0
#: After a drain's grace, a child has this long to hand back and end before it is killed.
KILL_AFTER_S = 8.0
#: A child that is told to end now has this long to hand back what it has.
END_NOW_S = 2.5
#: A successor that did not begin to work is followed by another one after this long.
SUCCEED_AGAIN_S = 30.0
#: At the end, what killed children left is given back for this long; what is left then is the next program's.
RECOVERY_S = 3.0


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
    """A fork server that is still to start loads our modules first; what else the program wants loaded stays.

    But not its script, which is Python's default and done from 3.14 on: what lasts at the top of it would keep the
    fork server from ever starting a process, and all of them would share its connections.
    """
    from multiprocessing import forkserver

    wanted = [name for name in getattr(forkserver._forkserver, "_preload_modules", ()) if name != "__main__"]
    if PRELOAD not in wanted:
        forkserver.set_forkserver_preload([*wanted, PRELOAD])


def portable(spec: ChildSpec) -> ChildSpec:
    """The same, as it can travel to another process; an error that says which worker cannot, and what to do."""
    spec = replace(spec, workers=tuple(map(_portable_worker, spec.workers)))
    for lifespan in spec.lifespans:
        _refuse_hidden_name(f"lifespan {get_name(lifespan)}", lifespan)
        _must_travel(
            lifespan, f"lifespan {get_name(lifespan)}", "Define it at the top of a module, not inside a function"
        )
    advice = "Define its class at the top of a module and keep files, locks and clients out of its attributes"
    for listener in spec.listeners:
        _must_travel(listener, f"event listener {listener!r}", advice)
    return spec


def _must_travel(thing: Any, called: str, advice: str) -> None:
    try:
        ForkingPickler.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"{called} cannot be sent to the worker processes ({error}). {advice}; "
            "or use start_method='fork' or TaskHandlerAsyncIO"
        ) from None


def _portable_worker(worker: Any) -> Any:
    function = getattr(worker, "execute_function", None)
    source = function if inspect.isfunction(function) else type(worker)
    _refuse_hidden_name(f"worker '{worker.get_task_definition_name()}'", source)
    try:
        ForkingPickler.dumps(worker)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return _reference(worker, error)
    return worker


def _reference(worker: Any, error: Exception) -> WorkerReference:
    name = worker.get_task_definition_name()
    function = getattr(worker, "execute_function", None)
    local = "<locals>" in getattr(function, "__qualname__", "<locals>")
    if isinstance(worker, Worker) and function is not None and not local and registry.find_worker(function) is worker:
        return WorkerReference(function.__module__, name, worker.domain)
    raise TypeError(
        f"worker '{name}' cannot be sent to its process ({error}). Define its function or class at the top of a "
        "module, not inside a function; or use start_method='fork' or TaskHandlerAsyncIO"
    ) from None


def runs_workers(pid: int) -> bool:
    """Whether a process that this program has started runs worker processes of ours."""
    try:
        flag = os.open(_flag_of(pid), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(flag)
    finally:
        os.close(flag)


def _raise_flag() -> int | None:
    """Let the program that started this process know of its workers: by a file that is locked while they run."""
    try:
        flag = os.open(_flag_of(os.getpid()), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None  # then the program waits for this process as for any other
    try_lock(flag)
    return flag


def _flag_of(pid: int) -> Path:
    return Path(tempfile.gettempdir()) / f"conductor-workers-{os.getuid()}-{pid}"


def _refuse_hidden_name(what: str, source: Any) -> None:
    """What only the program itself has: its process would look for it in vain, again and again."""
    name = get_name(source).partition(".")[0]
    if getattr(source, "__module__", None) == "__main__" and name in _names_under_main_guard():
        raise TypeError(
            f"{what} cannot be sent to its process: {name} is defined under "
            '`if __name__ == "__main__":`, which worker processes do not run. Move it out of there, to the top of the '
            "script or of a module; or use start_method='fork' or TaskHandlerAsyncIO"
        )


def _names_under_main_guard() -> set[str]:
    """Functions and classes that the script defines where only the program itself comes by, and nowhere else."""
    try:
        script = ast.parse(inspect.getsource(sys.modules["__main__"]))
    except (OSError, TypeError, SyntaxError):  # no file, or one that has changed
        return set()
    guarded = [node for node in script.body if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)]
    open_to_all = _defined(node for node in script.body if node not in guarded)
    return _defined(inner for node in guarded for inner in node.body) - open_to_all


def _defined(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


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


class WorkerProcess:
    """One process of workers, and those that are started when it has died."""

    def __init__(
        self,
        spec: ChildSpec,
        context: BaseContext,
        restarts: Restarts | None = None,
        *,
        paused: Iterable[str] = (),
        recovery: Recovery | None = None,
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
        self._started_ms = 0
        #: Whether this program has killed the process: then its tasks are not to blame.
        self._was_killed = False
        #: When it is started again; None: it runs, or nobody has noticed its end yet; infinite: never.
        self.restart_at: float | None = None
        #: By when the process must have said that it begins; None: it has, or was complained about.
        self.ready_by: float | None = None
        #: The names of its workers that take no new tasks.
        self.paused = set(paused)
        self.draining = False
        #: Gives back what the process had in hand, should it die.
        self._recovery = recovery
        #: Whether it is set up and polls, and whether this, or one before it, ever was.
        self.working = False
        self.has_worked = False
        #: Why it cannot be set up.
        self.start_error: str | None = None
        #: When it gets a successor, because it has asked for one; None: it has not, or the successor is under way.
        self.succeed_at: float | None = None
        self._succeeds = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its workers."""
        return self._spec.names or (self.name,)

    @property
    def health_names(self) -> list[str]:
        """What its workers are called in metrics and health: by their task types, where it has several."""
        if len(self.names) == 1:
            return list(self.names)
        return list(dict.fromkeys(name.partition("@")[0] for name in self.names))

    def successor(self) -> WorkerProcess:
        """The next process for the same workers, still to be started."""
        made = WorkerProcess(self._spec, self._context, self._rule, paused=self.paused, recovery=self._recovery)
        made.restarts, made.has_worked, made._succeeds = self.restarts, self.has_worked, True
        return made

    def start(self) -> None:
        """Start the process, the first or the next."""
        ours, theirs = self._context.Pipe()
        # A forked child inherits our ends, its own too, and would never see them close when we die.
        register_after_fork(ours, Connection.close)
        process = self._context.Process(  # type: ignore[attr-defined]
            target=run_child, args=(self._spec, theirs), name=f"conductor-{self.name}", daemon=False
        )
        self._started_ms = SYSTEM_CLOCK.wall_ms()
        process.start()
        theirs.close()
        self.process, self._orders = process, ours
        self._started_at = time.monotonic()
        self._was_killed = False
        self.ready_by = self._started_at + READY_S
        self.restart_at = self.succeed_at = self.start_error = None
        self.working = False
        for name in self.names:
            if name in self.paused or self.restarts or self._succeeds:
                # What was said at run time holds for its successors, whatever its options say.
                self.order(PAUSE if name in self.paused else RESUME, name)
        if self.draining:  # meanwhile
            self.order(DRAIN)

    def pause(self, name: str, paused: bool) -> None:
        """Let one of its workers take no new tasks, or take some again."""
        (self.paused.add if paused else self.paused.discard)(name)
        self.order(PAUSE if paused else RESUME, name)

    def drain(self) -> None:
        """Tell the child to finish, or the one that is just being started."""
        self.draining = True
        self.order(DRAIN)

    def order(self, order: str, name: str | None = None) -> None:
        """Tell the child; one that is gone cannot hear."""
        if self._orders is not None:
            try:
                self._orders.send((order, name))
            except (OSError, ValueError):
                pass

    def ended(self) -> None:
        """The process ended by itself: note when it may start again."""
        assert self.process is not None  # noqa: S101
        code = self.process.exitcode
        self._close()
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
        self._recover()

    def _close(self) -> None:
        """The process is over."""
        assert self.process is not None  # noqa: S101
        self.ready_by = self.succeed_at = None
        self.process.join()
        if self._orders is not None:
            self._orders.close()
            self._orders = None

    def retired(self) -> None:
        """The process has ended after a successor has taken its place, or could not take the place of another."""
        self.killed()
        self._close()

    def _recover(self) -> None:
        if self._recovery is not None and self.process is not None:
            end = ProcessEnd(self.process.pid, self.process.exitcode, self._started_ms, self._was_killed)
            self._recovery.begin(end)

    def killed(self) -> None:
        """The program ends: what the process left, if it was killed, is given back before that."""
        if self.process is not None and self.process.exitcode != 0:
            self._recover()

    def settle(self, ends_at: float) -> None:
        """Wait for that, but not longer: what is left then is the next program's."""
        if self._recovery is not None:
            self._recovery.end(max(0.0, ends_at - time.monotonic()))

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
        """Where the process says how it is, while there is somebody to say it."""
        return self._orders

    def hear(self) -> None:
        """Take in what the process has said; complain once if it should have begun and has not."""
        try:
            while self._orders is not None and self._orders.poll():
                self._heard(*self._orders.recv())
        except (EOFError, OSError):  # it ends, which is noticed soon
            if self._orders is not None:
                self._orders.close()
                self._orders = None
        if self.ready_by is not None and time.monotonic() > self.ready_by:
            self.ready_by = None
            logger.error(
                "Worker process '%s' (pid %s) has not begun to work after %.0f s. If the program does something that "
                "lasts at the top level of its script, put that under `if __name__ == '__main__':`: "
                "every worker process runs the script's top level first",
                self.name,
                self.process.pid if self.process else None,
                READY_S,
            )

    def _heard(self, what: str, text: str) -> None:
        self.ready_by = None
        if what == WORKING:
            self.working = self.has_worked = True
        elif what == CANNOT_START:
            self.start_error = text
        elif what == WORN:
            logger.info("Worker process '%s' gets a successor: %s", self.name, text)
            self.succeed_at = time.monotonic()

    def kill(self) -> None:
        """End the process at once. Its tasks are given back, and none of them is blamed."""
        if self.process is not None:
            self._was_killed = True
            self.process.kill()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.is_alive()


class Supervisor:
    """Keeps the children running in a thread of its own, until `stop()`."""

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
        #: Process → the one that is to take its place, and is being set up.
        self._successors: dict[WorkerProcess, WorkerProcess] = {}
        #: Processes that finish what they have in hand, and are no children any more.
        self._retiring: list[WorkerProcess] = []
        #: Why workers cannot start; then all of them are drained.
        self.start_error: str | None = None
        self._on_retired = on_retired or (lambda: None)
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
        self._flag: int | None = None

    def start(self) -> None:
        """Start all children, and watch them."""
        if self._above:
            self._flag = _raise_flag()
        for child in self.children:
            self._start(child)
        self._thread = threading.Thread(target=self._watch, name="conductor-supervisor", daemon=True)
        self._thread.start()

    def _start(self, child: WorkerProcess) -> None:
        child.start()
        for name in child.health_names:
            self._on_started(name)

    @property
    def _everybody(self) -> list[WorkerProcess]:
        return [*self.children, *self._successors.values(), *self._retiring]

    def drain(self, grace_s: float) -> None:
        """Tell all children to finish; none is started again, and one that outlasts the grace is killed.

        Safe in a signal handler: it only sends.
        """
        if not self._stopping:
            self._kill_at = time.monotonic() + grace_s + KILL_AFTER_S
        self._stopping = True
        for child in self._everybody:
            child.drain()
        self._wake()

    def stop(self, grace_s: float) -> None:
        """Drain, and wait for the end."""
        self.drain(grace_s)
        self.wait(grace_s + KILL_AFTER_S + 5)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no child runs any more. Signal handlers may do so while the main thread does."""
        return bool(wait([self._over_r], timeout_s))

    def end_now(self) -> None:
        """Tell all children to hand back what they have, and to end; one that does not is killed. It only sends."""
        self._stopping = True
        self._kill_at = min(self._kill_at, time.monotonic() + END_NOW_S)
        for child in self._everybody:
            child.order(END_NOW)
        self._wake()

    def kill(self) -> None:
        """End all children at once."""
        self._stopping = True
        self._kill_at = math.inf
        for child in self._everybody:
            if child.alive and child.process is not None:
                logger.error("Worker process '%s' (pid %s) does not end and is killed", child.name, child.process.pid)
                child.kill()
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_w, b".")
        except OSError:
            pass  # the watch is over

    def _watch(self) -> None:
        try:
            while True:
                running = [child for child in self._everybody if child.alive]
                none_will_run = all(child.restart_at == math.inf for child in self.children)
                if not running and (self._stopping or none_will_run):
                    return
                # One that died since the last look is watched, too: its sentinel is ready at once.
                watched = running if self._stopping else [one for one in self._everybody if one.restart_at is None]
                sentinels = [child.process.sentinel for child in watched if child.process is not None]
                news = [child.news for child in running if child.news is not None]
                if set(wait([*sentinels, *news, *self._above, self._wake_r], self._next_look_s())) & set(self._above):
                    self._above = []
                    logger.warning("The process that started the workers' program is dead: they are drained")
                    self.drain(self._grace_s)
                self._look_after()
        finally:
            self._settle()
            if self._flag is not None:
                _flag_of(os.getpid()).unlink(missing_ok=True)
                os.close(self._flag)
            self._over_w.send(None)

    def _settle(self) -> None:
        for child in self._everybody:
            child.killed()
        ends_at = time.monotonic() + RECOVERY_S
        for child in self.children:
            child.settle(ends_at)

    def _next_look_s(self) -> float | None:
        """Seconds until something is due; None: nothing is."""
        times = [
            at
            for child in self._everybody
            for at in (child.restart_at, child.ready_by, child.succeed_at)
            if at is not None
        ]
        due = min([self._kill_at, *([] if self._stopping else times)])
        return None if due == math.inf else max(0.0, due - time.monotonic())

    def _look_after(self) -> None:
        while wait([self._wake_r], 0):
            os.read(self._wake_r, 4096)
        if time.monotonic() >= self._kill_at:
            self.kill()
        for child in self._everybody:
            child.hear()
        for child in self.children:
            if child.start_error is not None and not child.has_worked:
                self._give_up(child)
            if self._stopping:
                child.restart_at = None
            elif child.restart_at is not None:
                self._start_again(child)
            elif not child.alive:
                self._ended(child)
        if not self._stopping:
            self._look_after_successors()

    def _give_up(self, child: WorkerProcess) -> None:
        """What cannot be set up at the start will not be set up by trying again: that is an error of the start."""
        if self.start_error is None:
            self.start_error = child.start_error
            logger.error("Worker process '%s' cannot start, so all end: %s", child.name, child.start_error)
            self.drain(self._grace_s)

    def _ended(self, child: WorkerProcess) -> None:
        child.ended()
        for name in child.health_names:
            self._on_ended(name, child.process.exitcode if child.process else None)
        if child in self._successors:  # it is under way already
            self._successors[child].restarts = child.restarts
            for name in child.health_names:
                self._on_started(name)
            self._replace(child)

    def _look_after_successors(self) -> None:
        for child in [one for one in self.children if one.succeed_at is not None]:
            if child.succeed_at is not None and child.succeed_at <= time.monotonic():
                self._start_successor(child)
        for child, successor in list(self._successors.items()):
            if not successor.alive:
                del self._successors[child]
                successor.retired()
                child.succeed_at = time.monotonic() + SUCCEED_AGAIN_S
                why = successor.start_error or f"exit code {successor.process.exitcode if successor.process else None}"
                logger.error(
                    "The successor of worker process '%s' has not begun to work (%s); the next is started in %.0f s",
                    child.name,
                    why,
                    SUCCEED_AGAIN_S,
                )
            elif successor.working:
                self._replace(child)
        for retired in [one for one in self._retiring if not one.alive]:
            self._retiring.remove(retired)
            retired.retired()
            self._on_retired()

    def _start_successor(self, child: WorkerProcess) -> None:
        child.succeed_at = None
        # Known before it is started: what is said to all reaches it, too.
        successor = self._successors[child] = child.successor()
        successor.draining = self._stopping
        try:
            successor.start()
        except (OSError, EOFError, RuntimeError) as error:
            del self._successors[child]
            child.succeed_at = time.monotonic() + SUCCEED_AGAIN_S
            logger.error("Worker process '%s' cannot be given a successor (%s)", child.name, error)

    def _replace(self, child: WorkerProcess) -> None:
        """The successor takes over: the other takes no new tasks, and ends when it has finished those in hand."""
        successor = self._successors[child]
        for name in child.paused ^ successor.paused:  # said while the successor was set up
            successor.pause(name, name in child.paused)
        if child.alive:
            self._retiring.append(child)
        self.children[self.children.index(child)] = successor
        del self._successors[child]  # last: a signal that comes in between finds everybody
        child.order(RETIRE)

    def _start_again(self, child: WorkerProcess) -> None:
        if child.restart_at is None or time.monotonic() < child.restart_at:
            return
        try:
            self._start(child)
        except (OSError, EOFError, RuntimeError) as error:
            child.postpone(error)
