"""Runs all workers on one event loop, in the program's own process."""

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

from conductor.client.automator.supervisor import runs_workers
from conductor.client.automator.worker_group import WorkerGroup
from conductor.client.automator.worker_process import is_loading_main
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

#: The longest time that `stop()` takes.
STOP_LIMIT_S = 30.0
#: The part of `STOP_LIMIT_S` that is reserved for requeueing unfinished tasks.
REQUEUE_S = 4.0


class Interrupted(KeyboardInterrupt, asyncio.CancelledError):
    """Raised after Ctrl-C while a program waits for its workers. A program may catch either of the two base classes."""


class TaskHandlerAsyncIO:
    """Run all workers in one process: `async def` functions on the event loop, `def` functions on threads.

        async with TaskHandlerAsyncIO(configuration=Configuration()) as handler:
            await handler.wait()

    The arguments are those of `TaskHandler`. `http_client` is an `httpx.AsyncClient` of your own for all requests.
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
        """The client that all workers share: the given one, or the handler's own while the workers run."""
        if self._http_client is not None:
            return self._http_client
        return self._group.client if self._group else None

    @property
    def task_runners(self) -> list[Any]:
        """The engines, one per worker; empty before `start()`."""
        return list(self._group.engines) if self._group else []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start all workers on the running event loop and return. No signal handler is installed."""
        if is_loading_main():
            return
        if self._running is not None and not self._running.done():
            raise RuntimeError("the workers are already running")
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
        except asyncio.CancelledError:  # Ctrl-C: stop the workers that have been started
            await self.stop()
            raise
        finally:
            waiting.cancel()
        if self._running.done():
            await self._running

    async def wait(self) -> None:
        """Wait until the workers end.

        Meanwhile SIGTERM drains the workers; a second SIGTERM makes them requeue their running tasks. SIGUSR1 pauses
        them: they finish their running tasks and take no new ones.

        Raises:
            Interrupted: After Ctrl-C. It is a `KeyboardInterrupt` and a `CancelledError`: a program may catch either.
        """
        if self._running is None or self._group is None:
            if is_loading_main():
                return
            raise RuntimeError("there are no workers to wait for: call start() before this, or use `async with`")
        loop, group, running = asyncio.get_running_loop(), self._group, self._running

        def on_signal(again: bool) -> None:
            if not again:
                logger.info(STOPPING_MESSAGE, group.grace_s)
            loop.call_soon_threadsafe(group.abandon if again else group.drain)
            atexit.register(_end_with_program)

        def on_pause_signal(_signal: int) -> None:
            logger.info(DRAINING_MESSAGE)
            loop.call_soon_threadsafe(group.pause)

        with (
            handle_stop_signals(on_signal),
            handle_signals(on_pause_signal, signal.SIGUSR1),
            record_signal(signal.SIGINT) as heard,
        ):
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                if heard:  # asyncio turns Ctrl-C into a cancellation, but the program may expect a KeyboardInterrupt
                    raise Interrupted from None
                raise
        if not running.cancelled():
            running.result()

    async def stop(self) -> None:
        """Drain the workers: stop polling, finish running tasks within the grace period, and requeue the rest.

        This takes 30 seconds at most.
        """
        group, running = self._group, self._running
        if group is None or running is None:
            return
        group.drain()
        await asyncio.wait({running}, timeout=STOP_LIMIT_S - REQUEUE_S)
        if not running.done():
            logger.warning("Shutdown timeout")
            group.abandon()
        await asyncio.gather(running, return_exceptions=True)

    def pause(self, name: str | None = None) -> None:
        """Let the worker for this task type, or every worker, take no new tasks."""
        if self._group is not None:
            self._group.pause(name)

    def resume(self, name: str | None = None) -> None:
        """Let the worker for this task type, or every worker, take tasks again."""
        if self._group is not None:
            self._group.resume(name)

    def is_healthy(self) -> bool:
        """Return whether the workers run."""
        return self._running is not None and not self._running.done()


def _end_with_program() -> None:
    """Terminate the child processes that run workers, so that a program that was told to terminate can end.

    The exit of a program waits for its child processes. Other child processes are left alone.
    """
    atexit.unregister(_end_with_program)
    for process in multiprocessing.active_children():
        if process.pid is not None and runs_workers(process.pid):
            process.terminate()


if __name__ == "__main__":
    from conductor.client.automator.run_for_duration import main

    sys.exit(main())
