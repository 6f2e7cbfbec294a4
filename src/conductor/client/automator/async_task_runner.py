"""Runs one worker as a coroutine of the current event loop."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from conductor.client.automator.worker_group import WorkerGroup
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.settings.metrics_settings import MetricsSettings
from conductor.client.worker.worker_interface import WorkerInterface
from conductor.common.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)


class AsyncTaskRunner:
    """Run one worker as a coroutine: `await AsyncTaskRunner(worker, configuration).run()`.

    Before `run()`, the runner has no open connection, so it can be pickled and sent to another process.
    """

    def __init__(
        self,
        worker: WorkerInterface,
        configuration: Configuration | None = None,
        metrics_settings: MetricsSettings | None = None,
        event_listeners: Iterable[object] | None = None,
        *,
        http_client: Any | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Any,
    ) -> None:
        self.worker = worker
        self.configuration = configuration or Configuration()
        self.metrics_settings = metrics_settings
        self.http_client = http_client
        self._listeners = tuple(event_listeners or ())
        self._options = options
        self._clock = clock
        self._group: WorkerGroup | None = None

    async def run(self) -> None:
        """Poll, execute and report until `stop()`."""
        self._group = self._new_group()
        await self._group.run()

    async def run_once(self) -> int:
        """Poll once, execute the tasks, and wait until each has its verdict. Never raise.

        Returns:
            The number of tasks.
        """
        try:
            return await self._new_group().run_once()
        except Exception as error:
            logger.error("Error in run_once: %s", error)
            return 0

    def stop(self) -> None:
        """Drain the worker and let `run()` return."""
        if self._group is not None:
            self._group.drain()

    def _new_group(self) -> WorkerGroup:
        return WorkerGroup(
            [self.worker],
            self.configuration,
            options=self._options,
            listeners=self._listeners,
            metrics_settings=self.metrics_settings,
            http_client=self.http_client,
            clock=self._clock,
        )
