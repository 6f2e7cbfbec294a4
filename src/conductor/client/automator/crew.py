"""The workers of one process on one event loop: started together, stopped in a written order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from conductor.client.automator.engine import Engine
from conductor.client.automator.poll import Backoff
from conductor.client.automator.session import Session
from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
from conductor.client.worker.worker import given_options
from conductor.client.worker.worker_config import ResolvedConfig, resolve_worker_config
from conductor.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.configuration.settings.metrics_settings import MetricsSettings
    from conductor.client.telemetry.process_telemetry import ProcessTelemetry
    from conductor.client.worker.worker_interface import WorkerInterface

logger = logging.getLogger(__name__)

#: How long the answers to a hand-back are waited for.
HAND_BACK_S = 4.0
#: How often slots in use and stuck tasks are noted for metrics and health.
NOTE_S = 1.0


class Crew:
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
    ) -> None:
        self._workers = list(workers)
        self._configuration = configuration
        self._telemetry = telemetry
        self._metrics_settings = metrics_settings
        self._http_client = http_client
        self._clock = clock
        self._events = SyncEventDispatcher([*(telemetry.listeners if telemetry else ()), *listeners])
        # Resolved before anything is started: a bad value stops the start with one line.
        self._configs = [_config_of(worker, options or {}) for worker in self._workers]
        self.engines: list[Engine] = []
        self._logs = _task_logs(self._configs, own_process)
        self._stop = asyncio.Event()
        self._abandoned = asyncio.Event()
        self._all_quiet = False
        #: Tasks that were handed back unfinished: their functions may still run in this process.
        self.handed_back = 0

    @property
    def grace_s(self) -> float:
        """How long a drain waits for what is in hand."""
        return max((config.shutdown_grace_seconds for config in self._configs), default=0.0)

    async def run(self, started: Callable[[], None] | None = None) -> None:
        """Run all workers until `drain()`, then drain them."""
        with self._logs, self._metered():
            await self._run(started)

    async def _run(self, started: Callable[[], None] | None) -> None:
        async with self._session() as session:
            pairs = zip(self._workers, self._configs, strict=True)
            self.engines = [Engine(worker, session, config) for worker, config in pairs]
            for engine in self.engines:
                if engine.paused or self._all_quiet:
                    self.pause(engine.name)
            running = [asyncio.create_task(self._keep_running(engine)) for engine in self.engines]
            side = [asyncio.create_task(work()) for work in self._side_work()]
            if started is not None:
                started()
            try:
                await self._stop.wait()
            finally:
                self.drain()
                try:
                    await self._drain(session, running)
                finally:
                    self._close(side)
                await asyncio.gather(*side, return_exceptions=True)

    async def run_once(self) -> int:
        """One poll of every worker, its tasks carried to their verdicts. Returns how many tasks there were."""
        with self._logs, self._metered():
            return await self._run_once()

    async def _run_once(self) -> int:
        async with self._session() as session:
            pairs = zip(self._workers, self._configs, strict=True)
            self.engines = [Engine(worker, session, config) for worker, config in pairs]
            try:
                return sum(await asyncio.gather(*(engine.run_once() for engine in self.engines)))
            finally:
                self._close([])

    def drain(self) -> None:
        """Stop polling at once, finish what is in hand within the grace, hand back the rest. Returns at once."""
        for engine in self.engines:
            engine.stop_polling()
        self._stop.set()

    def abandon(self) -> None:
        """Stop, and wait for nothing: what is in hand is neither finished nor handed back."""
        self._abandoned.set()
        self.drain()

    def pause(self, name: str | None = None) -> None:
        """Take no new tasks of this type, or of any."""
        self._all_quiet = self._all_quiet or name is None
        for engine in self._named(name):
            engine.pause()
            if self._telemetry is not None:
                self._telemetry.paused(engine.name, True)

    def resume(self, name: str | None = None) -> None:
        """Take tasks again."""
        self._all_quiet = self._all_quiet and name is not None
        for engine in self._named(name):
            engine.resume()
            if self._telemetry is not None:
                self._telemetry.paused(engine.name, False)

    def _named(self, name: str | None) -> list[Engine]:
        named = [engine for engine in self.engines if name in (None, engine.name)]
        if name is not None and not named:
            known = ", ".join(engine.name for engine in self.engines) or "none"
            raise KeyError(f"there is no running worker for task type '{name}'; there are: {known}")
        return named

    @contextmanager
    def _metered(self) -> Iterator[None]:
        """Metrics and health of a crew that is on its own; in a child process they are the parent's."""
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
        )

    def _side_work(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        return [] if self._telemetry is None else [self._telemetry.pulse, self._note]

    async def _note(self) -> None:
        assert self._telemetry is not None  # noqa: S101
        while True:
            for engine in self.engines:
                self._telemetry.slots_in_use(engine.name, engine.in_hand)
                self._telemetry.stuck(engine.name, engine.stuck)
            await self._clock.sleep(NOTE_S)

    async def _keep_running(self, engine: Engine) -> None:
        """An engine that fails is a bug of ours: said loudly, and started again rather than left dead."""
        backoff = Backoff(1.0, 60.0)
        while not self._stop.is_set():
            try:
                await engine.run()
            except Exception:
                delay_s = backoff.next()
                logger.critical("Worker '%s' failed; it starts again in %.0f s", engine.name, delay_s, exc_info=True)
                await self._clock.wait(self._stop, delay_s)

    async def _drain(self, session: Session, running: list[asyncio.Task[None]]) -> None:
        finished = asyncio.gather(*(_over(*pair) for pair in zip(self.engines, running, strict=True)))
        if not await self._unless_abandoned(finished, self.grace_s):
            session.reporter.hurry()
            await (self._leave() if self._abandoned.is_set() else self._hand_back())
            finished.cancel()
        await asyncio.gather(finished, return_exceptions=True)
        for engine in self.engines:
            engine.stopped()

    def _close(self, side: list[asyncio.Task[None]]) -> None:
        for engine in self.engines:
            engine.close()
        for task in side:
            task.cancel()

    async def _unless_abandoned(self, work: asyncio.Future[Any], timeout_s: float) -> bool:
        """Wait for the work, for the time, or until it is abandoned, whichever comes first. True: the work is done."""
        abandoned: asyncio.Future[Any] = asyncio.ensure_future(self._abandoned.wait())
        await asyncio.wait({work, abandoned}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        abandoned.cancel()
        return work.done()

    async def _leave(self) -> None:
        await asyncio.gather(*(engine.leave() for engine in self.engines))

    async def _hand_back(self) -> None:
        handing_back = asyncio.gather(*(engine.hand_back() for engine in self.engines))
        if not await self._unless_abandoned(handing_back, HAND_BACK_S):
            handing_back.cancel()  # those that are left may still run in this process
        self.handed_back = sum(max(engine.handed_back, engine.in_hand) for engine in self.engines)
        if self.handed_back:
            logger.warning("Unfinished tasks that were handed back: %d (worker shutting down)", self.handed_back)


async def _over(engine: Engine, running: asyncio.Task[None]) -> None:
    """The last poll may still bring tasks: first its end, then theirs."""
    await running
    await engine.finish()


def _task_logs(configs: list[ResolvedConfig], own_process: bool) -> AbstractContextManager[object]:
    """Records that know their task: always in a process of ours, in a program's own only when it asks."""
    levels = [logging.getLevelName(config.task_log_level) for config in configs if config.task_log_level]
    if not levels and not own_process:
        return nullcontext()
    from conductor.client.telemetry.task_logs import TaskLogs

    return TaskLogs(min(levels, default=None))


def _config_of(worker: WorkerInterface, options: dict[str, Any]) -> ResolvedConfig:
    return resolve_worker_config(worker.get_task_definition_name(), {**options, **given_options(worker)})
