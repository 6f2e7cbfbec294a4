"""The workers of one process on one event loop: started together, stopped in a written order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from conductor.client.automator.engine import Engine
from conductor.client.automator.session import Session
from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
from conductor.client.worker.registry import list_lifespans
from conductor.client.worker.resources import Resources
from conductor.client.worker.worker import get_code_options, get_function
from conductor.client.worker.worker_choice import make_unknown_worker_error
from conductor.client.worker.worker_config import ResolvedConfig, resolve_worker_config
from conductor.common.backoff import Backoff
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.telemetry import tracing

if TYPE_CHECKING:
    from conductor.client.automator.journal import Journal
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.configuration.settings.metrics_settings import MetricsSettings
    from conductor.client.http.async_api_client import AsyncApiClient
    from conductor.client.telemetry.process_telemetry import ProcessTelemetry
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: How long the answers to a hand-back are waited for.
HAND_BACK_S = 4.0
#: The same, when the stop itself is in a hurry.
HURRIED_S = 2.0
#: A program's stop waits this long for a parked poll of an idle worker; what that brings later is handed back.
PARKED_POLL_S = 0.5
#: Options that mean something only where a process is ours alone.
OF_OWN_PROCESSES = ("max_tasks_per_process", "max_memory_mb", "memory_limit_mb", "nice", "kill_stuck")
#: How often slots in use and stuck tasks are noted for metrics and health.
NOTE_S = 1.0


class WorkerGroup:
    """Runs workers until `drain()`. Everything but the constructor belongs on the event loop."""

    def __init__(
        self,
        workers: Sequence[WorkerInterface],
        configuration: Configuration,
        *,
        options: dict[str, Any] | None = None,
        listeners: Iterable[object] = (),
        telemetry: ProcessTelemetry | None = None,
        metrics_settings: MetricsSettings | None = None,
        http_client: Any | None = None,
        clock: Clock = SYSTEM_CLOCK,
        own_process: bool = False,
        lifespans: Iterable[Callable[..., Any]] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self._workers = list(workers)
        #: What they are called, where that is not their task type alone.
        self._names = list(names) or [worker.get_task_definition_name() for worker in self._workers]
        self._configuration = configuration
        self._telemetry = telemetry
        self._metrics_settings = metrics_settings
        self._http_client = http_client
        self._clock = clock
        self._events = SyncEventDispatcher([*(telemetry.listeners if telemetry else ()), *listeners])
        # Resolved before anything is started: a bad value stops the start with one line.
        self._configs = [config_of(worker, options or {}) for worker in self._workers]
        functions = [function for worker in self._workers if (function := get_function(worker)) is not None]
        self._resources = Resources(list_lifespans() if lifespans is None else lifespans, functions)
        #: How long a drain waits for what is in hand.
        self.grace_s = longest_grace_s(self._configs)
        self.engines: list[Engine] = []
        #: The client that all workers share; None before and after `run()`.
        self.client: AsyncApiClient | None = None
        self._own_process = own_process
        self._logs = _task_logs(self._configs, own_process)
        tracing.use_program_provider()
        self._stop = asyncio.Event()
        self._retiring = asyncio.Event()
        self._abandoned = asyncio.Event()
        self._all_paused = False
        self._journal: Journal | None = None
        #: Whether functions of tasks that were handed back, or lost, may still run in this process.
        self.left_work = False

    async def run(self, started: Callable[[], None] | None = None) -> None:
        """Run all workers until `drain()`, then drain them. Around that, set up and tear down what they need."""
        if not self._own_process:
            self._warn_of_process_options()
        with self._logs, self._metered():
            async with self._resources:
                try:
                    await self._run(started)
                finally:
                    self.client = None

    def _warn_of_process_options(self) -> None:
        given = [name for name in OF_OWN_PROCESSES if any(config[name] for config in self._configs)]
        if given:
            logger.warning(
                "%s: only the worker processes of TaskHandler can be replaced and limited; here it has no effect",
                ", ".join(given),
            )

    def end_at_once(self) -> None:
        """End the process at once. The process that adopts its journal gives the tasks back and blames none of them."""
        if self._journal is not None:
            self._journal.blame_none()
        os._exit(128 + signal.SIGTERM)

    async def _run(self, started: Callable[[], None] | None) -> None:
        async with self._session() as session:
            self.client = session.client
            self._journal = session.journal
            self._make_engines(session)
            for name, engine in zip(self._names, self.engines, strict=True):
                if engine.paused or self._all_paused:
                    self.pause(name)
            running = [asyncio.create_task(self._keep_running(engine)) for engine in self.engines]
            side = [asyncio.create_task(work()) for work in self._side_work()]
            if started is not None:
                started()
            try:
                await self._until_stopped(running)
            finally:
                self.drain()
                try:
                    await self._drain(session, running)
                except asyncio.CancelledError:
                    # A second Ctrl-C: everything on the loop is cancelled, what was to hand back the tasks as well.
                    await session.give_back(HURRIED_S)
                    raise
                finally:
                    self._close(side)
                await asyncio.gather(*side, return_exceptions=True)

    async def _until_stopped(self, running: list[asyncio.Task[None]]) -> None:
        """Wait for `drain()`; or, after `retire()`, for the end of what is in hand."""
        stopped = asyncio.create_task(self._stop.wait())
        retired = asyncio.create_task(self._retired(running))
        try:
            await asyncio.wait({stopped, retired}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            retired.cancel()

    async def _retired(self, running: list[asyncio.Task[None]]) -> None:
        await self._retiring.wait()
        await asyncio.gather(*(self._finish(*pair) for pair in zip(self.engines, running, strict=True)))

    async def run_once(self) -> int:
        """One poll of every worker, its tasks carried to their verdicts. Returns how many tasks there were."""
        with self._logs, self._metered():
            async with self._resources:
                return await self._run_once()

    async def _run_once(self) -> int:
        async with self._session() as session:
            self._make_engines(session)
            try:
                return sum(await asyncio.gather(*(engine.run_once() for engine in self.engines)))
            finally:
                self._close([])

    def _make_engines(self, session: Session) -> None:
        pairs = zip(self._workers, self._configs, strict=True)
        self.engines = [Engine(worker, config, session) for worker, config in pairs]

    def drain(self) -> None:
        """Stop polling at once, finish what is in hand within the grace, hand back the rest. Returns at once."""
        if not self._stop.is_set():
            _log_in_hand(self.engines)
        for engine in self.engines:
            engine.stop_polling()
        self._stop.set()

    def retire(self) -> None:
        """Stop polling at once, and end when what is in hand is finished, however long that takes. Returns at once."""
        for engine in self.engines:
            engine.stop_polling()
        self._retiring.set()

    def abandon(self) -> None:
        """Stop, and wait for nothing but the hand-back of what is in hand, and for that not long."""
        self._abandoned.set()
        self.drain()

    def pause(self, name: str | None = None) -> None:
        """Take no new tasks of this type, or of any."""
        self._all_paused = self._all_paused or name is None
        for engine in self._named(name):
            engine.pause()
            if self._telemetry is not None:
                self._telemetry.paused(engine.name, True)

    def resume(self, name: str | None = None) -> None:
        """Take tasks again."""
        self._all_paused = self._all_paused and name is not None
        for engine in self._named(name):
            engine.resume()
            if self._telemetry is not None:
                self._telemetry.paused(engine.name, False)

    def _named(self, name: str | None) -> list[Engine]:
        pairs = zip(self._names, self.engines, strict=False)  # before the start there are no engines
        named = [engine for known, engine in pairs if name in (None, known)]
        if name is not None and not named:
            raise make_unknown_worker_error(name, self._names)
        return named

    @contextmanager
    def _metered(self) -> Iterator[None]:
        """Metrics and health of workers that run on their own; in a child process they are the parent's."""
        if self._metrics_settings is None:
            yield
            return
        from conductor.client.telemetry.metrics_hub import MetricsHub
        from conductor.client.telemetry.process_telemetry import ProcessTelemetry

        hub = MetricsHub(self._metrics_settings, clock=self._clock)
        hub.start()
        for worker in self._workers:
            hub.health.expect(worker.get_task_definition_name())
        self._telemetry = ProcessTelemetry(hub.child_settings(), clock=self._clock)
        for listener in self._telemetry.listeners:
            self._events.register_listener(listener)
        try:
            yield
        finally:
            self._telemetry.close()
            hub.stop()

    def _session(self) -> Session:
        options = self._configs[0] if self._configs else resolve_worker_config("")
        on_request = self._telemetry.on_request if self._telemetry else None
        return Session(
            self._configuration,
            options,
            self._events,
            self._clock,
            http_client=self._http_client,
            on_request=on_request,
            resources=self._resources,
        )

    def _side_work(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        return [] if self._telemetry is None else [self._telemetry.pulse, self._note]

    async def _note(self) -> None:
        assert self._telemetry is not None  # noqa: S101
        while True:
            for engine in self.engines:
                self._telemetry.slots_in_use(engine.name, engine.slots_in_use)
                self._telemetry.stuck(engine.name, engine.stuck)
            await self._clock.sleep(NOTE_S)

    async def _keep_running(self, engine: Engine) -> None:
        """An engine that fails is a bug of ours: said loudly, and started again rather than left dead."""
        backoff = Backoff(1.0, 60.0)
        while not (self._stop.is_set() or self._retiring.is_set()):
            try:
                await engine.run()
            except Exception:
                delay_s = backoff.next()
                logger.critical("Worker '%s' failed; it starts again in %.0f s", engine.name, delay_s, exc_info=True)
                await self._clock.wait(self._stop, delay_s)

    async def _drain(self, session: Session, running: list[asyncio.Task[None]]) -> None:
        finished = asyncio.gather(*(self._finish(*pair) for pair in zip(self.engines, running, strict=True)))
        if not await self._unless_abandoned(finished, self.grace_s):
            session.reporter.hurry()
            await self._hand_back()
            finished.cancel()
        await asyncio.gather(finished, return_exceptions=True)
        self.left_work = any(engine.handed_back or engine.in_hand for engine in self.engines)
        for engine in self.engines:
            engine.stopped()

    async def _finish(self, engine: Engine, polling: asyncio.Task[None]) -> None:
        """The last poll may still bring tasks: first its end, then theirs.

        A process of ours waits for it; a program's stop does not, for the program may have more to do.
        """
        await asyncio.wait({polling}, timeout=None if self._own_process else PARKED_POLL_S)
        if not polling.done() and engine.leave_poll():
            polling.cancel()
        await asyncio.wait({polling})
        await engine.finish()

    def _close(self, side: list[asyncio.Task[None]]) -> None:
        for engine in self.engines:
            engine.close()
        for task in side:
            task.cancel()

    async def _unless_abandoned(self, work: asyncio.Future[Any], timeout_s: float) -> bool:
        """Wait for the work, for the time, or until the work is abandoned, whichever comes first. True: it is done."""
        abandoned: asyncio.Future[Any] = asyncio.ensure_future(self._abandoned.wait())
        await asyncio.wait({work, abandoned}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        abandoned.cancel()
        return work.done()

    async def _hand_back(self) -> None:
        handing_back = [asyncio.create_task(engine.hand_back()) for engine in self.engines]
        await asyncio.wait(handing_back, timeout=HURRIED_S if self._abandoned.is_set() else HAND_BACK_S)
        for late in handing_back:
            late.cancel()
        await asyncio.gather(*handing_back, return_exceptions=True)
        await asyncio.gather(*(engine.leave() for engine in self.engines))
        handed_back = sum(engine.handed_back for engine in self.engines)
        if handed_back:
            logger.warning("Unfinished tasks that were handed back: %d (worker shutting down)", handed_back)


def longest_grace_s(configs: Sequence[ResolvedConfig]) -> float:
    """How long a drain of these workers waits for what is in hand."""
    return max((config.shutdown_grace_seconds for config in configs), default=0.0)


def _log_in_hand(engines: Iterable[Engine]) -> None:
    """What a stop waits for: a line for each worker that has something in hand."""
    for engine in engines:
        if engine.in_hand:
            many = f"{engine.in_hand} tasks are" if engine.in_hand > 1 else "1 task is"
            logger.info("Stopping worker '%s': %s in hand", engine.name, many)


def _task_logs(configs: list[ResolvedConfig], own_process: bool) -> AbstractContextManager[object]:
    """Records that know their task: always in a process of ours, in a program's own only when it asks."""
    levels = [logging.getLevelName(config.task_log_level) for config in configs if config.task_log_level]
    if not levels and not own_process:
        return nullcontext()
    from conductor.client.telemetry.task_logs import TaskLogs

    return TaskLogs(min(levels, default=None))


def config_of(worker: WorkerInterface, options: dict[str, Any]) -> ResolvedConfig:
    """The worker's options, resolved: those of its code win over those of the handler, the environment over both."""
    return resolve_worker_config(worker.get_task_definition_name(), {**options, **get_code_options(worker)})
