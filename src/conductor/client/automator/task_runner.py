"""Runs one worker in the current thread until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from conductor.client.automator.worker_group import WorkerGroup
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.common.machine import run_event_loop


class TaskRunner:
    """Run one worker: `TaskRunner(worker, configuration).run()` blocks; `run_once()` polls once and returns.

    The worker may be a `def` or an `async def`. A program that already has an event loop uses `AsyncTaskRunner`.
    """

    def __init__(
        self,
        worker: WorkerInterface,
        configuration: Configuration | None = None,
        metrics_settings: MetricsSettings | None = None,
        event_listeners: Iterable[object] | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        **options: Any,
    ) -> None:
        self.worker = worker
        self.configuration = configuration or Configuration()
        self.metrics_settings = metrics_settings
        self._listeners = tuple(event_listeners or ())
        self._options = options
        self._clock = clock
        self._group: WorkerGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def task_client(self) -> Any:
        """A client for the task endpoints of the same server."""
        from conductor.client.http.api.task_resource_api import TaskResourceApi

        return TaskResourceApi(self.configuration)

    def run(self) -> None:
        """Poll, execute and report until `stop()`."""
        run_event_loop(self._run())

    def run_once(self) -> int:
        """Poll once, execute the tasks, and wait until each has its verdict. Return the number of tasks."""
        return run_event_loop(self._new_group().run_once())

    def stop(self) -> None:
        """Drain the worker and let `run()` return. Any thread may call this."""
        loop, group = self._loop, self._group
        if loop is not None and group is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has already stopped
                loop.call_soon_threadsafe(group.drain)

    async def _run(self) -> None:
        self._group = self._new_group()
        self._loop = asyncio.get_running_loop()
        await self._group.run()

    def _new_group(self) -> WorkerGroup:
        return WorkerGroup(
            [self.worker],
            self.configuration,
            options=self._options,
            listeners=self._listeners,
            metrics_settings=self.metrics_settings,
            clock=self._clock,
        )
