"""Runs workers together on one event loop, in the program's own process."""

from __future__ import annotations

import asyncio
import atexit
import logging
import multiprocessing
import signal
import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from conductor.client.automator.supervisor import loading_main, runs_workers
from conductor.client.automator.worker_group import WorkerGroup
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.worker_choice import NO_WORKERS, WorkerLike, choose_workers
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.common.signals import (
    DRAINING_MESSAGE,
    STOPPING_MESSAGE,
    handle_signals,
    handle_stop_signals,
    record_signal,
)

logger = logging.getLogger(__name__)

#: `stop()` never takes longer.
STOP_LIMIT_S = 30.0
#: Of that, so much is kept for handing back what has not ended.
END_S = 4.0


class Interrupted(KeyboardInterrupt, asyncio.CancelledError):
    """Ctrl-C while a program waits for its workers: caught as either, and to asyncio the cancellation that it is."""


class TaskHandlerAsyncIO:
    """All workers in one process: coroutines on the loop, `def` functions in threads.

        async with TaskHandlerAsyncIO(configuration=Configuration()) as handler:
            await handler.wait()

    The arguments are those of TaskHandler. `http_client` is your own `httpx.AsyncClient` for all requests.
    """

    def __init__(
        self,
        workers: WorkerLike | Iterable[WorkerLike] | None = None,
        configuration: Configuration | None = None,
        metrics_settings: MetricsSettings | None = None,
        scan_for_annotated_workers: bool | None = None,
        import_modules: Sequence[str] | None = None,
        event_listeners: Iterable[object] | None = None,
        *,
        http_client: Any | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Any,
    ) -> None:
        self.workers: list[WorkerInterface] = choose_workers(
            workers, scan_for_annotated_workers, import_modules, options.get("strict_registry")
        )
        self.configuration = configuration or Configuration()
        self.metrics_settings = metrics_settings
        self._http_client = http_client
        self._listeners = tuple(event_listeners or ())
        self._options = options
        self._clock = clock
        self._group: WorkerGroup | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def http_client(self) -> Any | None:
        """The client that all workers share: the one that was passed, or the handler's own while the workers run."""
        if self._http_client is not None:
            return self._http_client
        return self._group.client if self._group else None

    @property
    def task_runners(self) -> list[Any]:
        """The engines at work, one per worker; empty before `start()`."""
        return list(self._group.engines) if self._group else []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start all workers on the running loop and return. No signal handler is installed."""
        if loading_main():
            return
        if self._running is not None and not self._running.done():
            raise RuntimeError("the workers run already")
        if not self.workers:
            logger.warning(NO_WORKERS)
        self._group = WorkerGroup(
            self.workers,
            self.configuration,
            options=self._options,
            listeners=self._listeners,
            metrics_settings=self.metrics_settings,
            http_client=self._http_client,
            clock=self._clock,
        )
        started = asyncio.Event()
        self._running = asyncio.create_task(self._group.run(started.set))
        waiting = asyncio.create_task(started.wait())
        try:
            await asyncio.wait({self._running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # Ctrl-C: nobody else will stop what has been started
            await self.stop()
            raise
        finally:
            waiting.cancel()
        if self._running.done():
            await self._running

    async def wait(self) -> None:
        """Wait until the workers end. Meanwhile SIGTERM drains them; a second one makes them hand back what they have.

        SIGUSR1 makes them quiet: they take no new tasks, finish what is in hand, and stay. Ctrl-C ends the wait with an
        exception that is a `KeyboardInterrupt` and a `CancelledError`, whichever the program expects.
        """
        if self._running is None or self._group is None:
            if loading_main():
                return
            raise RuntimeError("there are no workers to wait for: call start() before this, or use `async with`")
        loop, group, running = asyncio.get_running_loop(), self._group, self._running

        def on_signal(again: bool) -> None:
            if not again:
                logger.info(STOPPING_MESSAGE, group.grace_s)
            loop.call_soon_threadsafe(group.abandon if again else group.drain)
            atexit.register(_end_with_program)

        def be_quiet(_signal: int) -> None:
            logger.info(DRAINING_MESSAGE)
            loop.call_soon_threadsafe(group.pause)

        with (
            handle_stop_signals(on_signal),
            handle_signals(be_quiet, signal.SIGUSR1),
            record_signal(signal.SIGINT) as heard,
        ):
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                if heard:  # asyncio cancels what waits; the program may well wait for the interrupt itself
                    raise Interrupted from None
                raise
        if not running.cancelled():
            running.result()

    async def stop(self) -> None:
        """Stop polling at once, finish what is in hand within the grace, hand back the rest; 30 s at most."""
        group, running = self._group, self._running
        if group is None or running is None:
            return
        group.drain()
        await asyncio.wait({running}, timeout=STOP_LIMIT_S - END_S)
        if not running.done():
            logger.warning("Shutdown timeout")
            group.abandon()
        await asyncio.gather(running, return_exceptions=True)

    def pause(self, name: str | None = None) -> None:
        """Let the worker for this task type, or every worker, take no new tasks."""
        if self._group is not None:
            self._group.pause(name)

    def resume(self, name: str | None = None) -> None:
        """Undo `pause`."""
        if self._group is not None:
            self._group.resume(name)

    def is_healthy(self) -> bool:
        """Whether the workers run."""
        return self._running is not None and not self._running.done()


def _end_with_program() -> None:
    """A program that was told to terminate, and has come to its end, does not wait for ever for processes of its own
    that run workers of ours: they are told, too. Its other processes are not our business.
    """
    atexit.unregister(_end_with_program)
    for process in multiprocessing.active_children():
        if process.pid is not None and runs_workers(process.pid):
            process.terminate()


if __name__ == "__main__":
    from conductor.client.automator.run_for_duration import main

    sys.exit(main())
