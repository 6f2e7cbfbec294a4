"""Runs the workers of one process on one event loop: starts them together, and drains them in a fixed order.

`run` sets up, starts the engines, waits for `drain` or `retire`, and shuts down. A shutdown finishes the running tasks
within the grace period, then requeues the rest, and finally cancels what could not be requeued.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
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

#: How long a shutdown waits for the answers to requeues.
REQUEUE_S = 4.0
#: How long a shutdown waits for the answers to requeues after `abandon`.
ABANDONED_REQUEUE_S = 2.0
#: In the program's own process, a stop waits this long for the parked poll of an idle worker. Tasks in a later answer
#: are requeued.
PARKED_POLL_S = 0.5
#: The options that have an effect only in worker processes of a TaskHandler.
PROCESS_OPTIONS = ("max_tasks_per_process", "max_memory_mb", "memory_limit_mb", "nice", "kill_stuck")
#: The interval between two updates of the gauges for slots in use and stuck tasks.
GAUGES_S = 1.0


class WorkerGroup:
    """Runs workers until `drain()`. All methods but the constructor run on the event loop."""

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
        #: The names of the workers: the task type, with the domain if two workers share a task type.
        self._names = list(names) or [worker.get_task_definition_name() for worker in self._workers]
        self._configuration = configuration
        self._telemetry = telemetry
        self._metrics_settings = metrics_settings
        self._http_client = http_client
        self._clock = clock
        self._events = SyncEventDispatcher([*(telemetry.listeners if telemetry else ()), *listeners])
        # Resolved before anything starts, so that an invalid value fails the start.
        self._configs = [resolve_config(worker, options or {}) for worker in self._workers]
        functions = [function for worker in self._workers if (function := get_function(worker)) is not None]
        self._resources = Resources(list_lifespans() if lifespans is None else lifespans, functions)
        #: How long a drain waits for running tasks.
        self.grace_s = longest_grace_s(self._configs)
        self.engines: list[Engine] = []
        #: The client that all workers share; None before and after `run()`.
        self.client: AsyncApiClient | None = None
        self._own_process = own_process
        self._logs = _make_task_logs(self._configs, own_process)
        tracing.use_program_provider()
        self._stop = asyncio.Event()
        self._retiring = asyncio.Event()
        self._abandoned = asyncio.Event()
        self._all_paused = False
        self._journal: Journal | None = None
        #: Whether functions of requeued or lost tasks may still run in this process.
        self.has_leftover_work = False

    async def run(self, started: Callable[[], None] | None = None) -> None:
        """Run all workers until `drain()`, then drain them. Set up and tear down the resources that they need."""
        if not self._own_process:
            self._warn_of_process_options()
        with self._logs, self._serve_metrics():
            async with self._resources:
                try:
                    await self._run(started)
                finally:
                    self.client = None

    def _warn_of_process_options(self) -> None:
        given = [name for name in PROCESS_OPTIONS if any(config[name] for config in self._configs)]
        if given:
            logger.warning(
                "Options without effect: %s. They apply only to the worker processes of TaskHandler",
                ", ".join(given),
            )

    def end_at_once(self) -> None:
        """End the process at once. The process that adopts its journal requeues the tasks and blames none of them."""
        if self._journal is not None:
            self._journal.remove_marks()
        os._exit(128 + signal.SIGTERM)

    async def _run(self, started: Callable[[], None] | None) -> None:
        async with self._open_session() as session:
            self.client = session.client
            self._journal = session.journal
            self._make_engines(session)
            for name, engine in zip(self._names, self.engines, strict=True):
                if engine.paused or self._all_paused:
                    self.pause(name)
            running = [asyncio.create_task(self._keep_running(engine)) for engine in self.engines]
            telemetry = self._start_telemetry(session)
            if started is not None:
                started()
            try:
                await self._wait_until_stopped(running)
            finally:
                self.drain()
                try:
                    await self._shut_down(session, running)
                except asyncio.CancelledError:
                    # A second Ctrl-C cancels all asyncio tasks, including those that were requeueing. The journal still
                    # has their tasks.
                    await session.requeue_held_tasks(ABANDONED_REQUEUE_S)
                    raise
                finally:
                    for engine in self.engines:
                        engine.close()
                    for task in telemetry:
                        task.cancel()
                await asyncio.gather(*telemetry, return_exceptions=True)

    async def _wait_until_stopped(self, running: list[asyncio.Task[None]]) -> None:
        """Wait for `drain()`, or for `retire()` and then the verdicts of all running tasks."""
        stopped = asyncio.create_task(self._stop.wait())
        retired = asyncio.create_task(self._wait_until_retired(running))
        try:
            await asyncio.wait({stopped, retired}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            retired.cancel()

    async def _wait_until_retired(self, running: list[asyncio.Task[None]]) -> None:
        await self._retiring.wait()
        await asyncio.gather(*(self._finish(*pair) for pair in zip(self.engines, running, strict=True)))

    async def run_once(self) -> int:
        """Poll once per worker, execute the tasks, and wait until each has its verdict. Return the number of tasks."""
        with self._logs, self._serve_metrics():
            async with self._resources, self._open_session() as session:
                self._make_engines(session)
                try:
                    return sum(await asyncio.gather(*(engine.run_once() for engine in self.engines)))
                finally:
                    for engine in self.engines:
                        engine.close()

    def _make_engines(self, session: Session) -> None:
        pairs = zip(self._workers, self._configs, strict=True)
        self.engines = [Engine(worker, config, session) for worker, config in pairs]

    def drain(self) -> None:
        """Stop polling, finish running tasks within the grace period, and requeue the rest. Return at once."""
        for engine in self.engines:
            if engine.running_count and not self._stop.is_set():
                logger.info("Stopping worker '%s': running_tasks=%d", engine.name, engine.running_count)
            engine.stop_polling()
        self._stop.set()

    def retire(self) -> None:
        """Stop polling, and end when the running tasks are finished, without a time limit. Return at once."""
        for engine in self.engines:
            engine.stop_polling()
        self._retiring.set()

    def abandon(self) -> None:
        """Stop without a grace period: requeue the running tasks, and wait briefly for the answers."""
        self._abandoned.set()
        self.drain()

    def pause(self, name: str | None = None) -> None:
        """Let this worker, or every worker, take no new tasks."""
        self._all_paused = self._all_paused or name is None
        for engine in self._find_engines(name):
            engine.pause()
            if self._telemetry is not None:
                self._telemetry.set_paused(engine.name, True)

    def resume(self, name: str | None = None) -> None:
        """Let this worker, or every worker, take tasks again."""
        self._all_paused = self._all_paused and name is not None
        for engine in self._find_engines(name):
            engine.resume()
            if self._telemetry is not None:
                self._telemetry.set_paused(engine.name, False)

    def _find_engines(self, name: str | None) -> list[Engine]:
        pairs = zip(self._names, self.engines, strict=False)  # before the start there are no engines
        engines = [engine for known, engine in pairs if name in (None, known)]
        if name is not None and not engines:
            raise make_unknown_worker_error(name, self._names)
        return engines

    @contextmanager
    def _serve_metrics(self) -> Iterator[None]:
        """Serve metrics and health for the block. In a worker process the parent serves them."""
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

    def _open_session(self) -> Session:
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

    def _start_telemetry(self, session: Session) -> list[asyncio.Task[None]]:
        if self._telemetry is None:
            return []
        return [
            asyncio.create_task(self._telemetry.pulse()),
            asyncio.create_task(self._set_gauges(self._telemetry, session)),
        ]

    async def _set_gauges(self, telemetry: ProcessTelemetry, session: Session) -> None:
        # A journal that this process took over can contain reports of other task types.
        task_types = {worker.get_task_definition_name() for worker in self._workers}
        while True:
            for engine in self.engines:
                telemetry.set_slots_in_use(engine.name, engine.slots_in_use)
                telemetry.set_stuck(engine.name, engine.stuck)
            waiting = session.count_waiting_reports()
            task_types.update(waiting)
            for task_type in task_types:
                telemetry.set_journal_reports(task_type, waiting[task_type])
            await self._clock.sleep(GAUGES_S)

    async def _keep_running(self, engine: Engine) -> None:
        """Run an engine. If it fails, which is a bug of this library, log that and start it again."""
        backoff = Backoff(1.0, 60.0)
        while not (self._stop.is_set() or self._retiring.is_set()):
            try:
                await engine.run()
            except Exception:
                delay_s = backoff.next()
                logger.critical("Worker '%s' failed; it starts again in %.0f s", engine.name, delay_s, exc_info=True)
                await self._clock.wait(self._stop, delay_s)

    async def _shut_down(self, session: Session, running: list[asyncio.Task[None]]) -> None:
        finished = asyncio.gather(*(self._finish(*pair) for pair in zip(self.engines, running, strict=True)))
        if not await self._wait_unless_abandoned(finished, self.grace_s):
            session.reporter.hurry()
            await self._requeue_running()
            finished.cancel()
        await asyncio.gather(finished, return_exceptions=True)
        self.has_leftover_work = any(engine.requeued or engine.running_count for engine in self.engines)
        for engine in self.engines:
            engine.on_stopped()

    async def _finish(self, engine: Engine, polling: asyncio.Task[None]) -> None:
        """Wait for the last poll, whose answer may contain tasks, and then for the verdicts of all tasks.

        A worker process waits as long as the poll takes. The program's own process waits only `PARKED_POLL_S`, because
        the program may have more to do.
        """
        await asyncio.wait({polling}, timeout=None if self._own_process else PARKED_POLL_S)
        if not polling.done() and engine.abandon_poll():
            polling.cancel()
        await asyncio.wait({polling})
        await engine.wait_until_reported()

    async def _wait_unless_abandoned(self, work: asyncio.Future[Any], timeout_s: float) -> bool:
        """Wait until the work is done, the time is over, or `abandon()` is called. Return whether the work is done."""
        abandoned: asyncio.Future[Any] = asyncio.ensure_future(self._abandoned.wait())
        await asyncio.wait({work, abandoned}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        abandoned.cancel()
        return work.done()

    async def _requeue_running(self) -> None:
        requeueing = [asyncio.create_task(engine.requeue_running()) for engine in self.engines]
        await asyncio.wait(requeueing, timeout=ABANDONED_REQUEUE_S if self._abandoned.is_set() else REQUEUE_S)
        for late in requeueing:
            late.cancel()
        await asyncio.gather(*requeueing, return_exceptions=True)
        await asyncio.gather(*(engine.cancel_running() for engine in self.engines))
        requeued = sum(engine.requeued for engine in self.engines)
        if requeued:
            logger.warning("Unfinished tasks that were requeued: %d (worker shutting down)", requeued)


def longest_grace_s(configs: Sequence[ResolvedConfig]) -> float:
    """Return how long a drain of these workers waits for running tasks."""
    return max((config.shutdown_grace_seconds for config in configs), default=0.0)


def _make_task_logs(configs: list[ResolvedConfig], own_process: bool) -> AbstractContextManager[object]:
    """Return a context that adds the task to log records.

    Without a `task_log_level`, it has an effect only in a worker process.
    """
    levels = [logging.getLevelName(config.task_log_level) for config in configs if config.task_log_level]
    if not levels and not own_process:
        return nullcontext()
    from conductor.client.telemetry.task_logs import TaskLogs

    return TaskLogs(min(levels, default=None))


def resolve_config(worker: WorkerInterface, options: dict[str, Any]) -> ResolvedConfig:
    """Return a worker's options. The environment overrides the worker's code, which overrides the handler."""
    return resolve_worker_config(worker.get_task_definition_name(), {**options, **get_code_options(worker)})
