"""Decides when a worker process is replaced by a fresh one, and limits its memory and CPU."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING

from conductor.client.event.task_runner_events import PollCompleted, TaskRunnerEventsListener
from conductor.client.http.async_rest import load_library
from conductor.common.machine import read_memory_bytes, read_memory_pages

if TYPE_CHECKING:
    from conductor.client.worker.worker_config import ResolvedConfig

#: The interval between two checks of memory and stuck functions.
CHECK_S = 1.0
#: With `kill_stuck`, the process is replaced if functions of stopped tasks still run at this many checks in a row.
STUCK_CHECKS = 5
_MB = 1 << 20


class RecyclePolicy:
    """Calls `on_due` once, with the reason, when the process should be replaced.

    Options that are not set are not checked.
    """

    def __init__(self, config: ResolvedConfig, on_due: Callable[[str], None]) -> None:
        self._config = config
        self._on_due = on_due
        self._is_due = False
        self._stuck_checks = 0
        self.listeners: tuple[TaskRunnerEventsListener, ...] = ()
        if config.max_tasks_per_process:
            self.listeners = (_TaskCounter(config.max_tasks_per_process, self._recycle),)

    def _recycle(self, reason: str) -> None:
        if not self._is_due:
            self._is_due = True
            self._on_due(reason)

    async def watch(self, count_stuck: Callable[[], int]) -> None:
        """Check the memory and the number of stuck functions until this is cancelled."""
        while (self._config.max_memory_mb or self._config.kill_stuck) and not self._is_due:
            used_mb = read_memory_bytes() // _MB if self._config.max_memory_mb else 0
            if used_mb > self._config.max_memory_mb:
                self._recycle(f"it uses {used_mb} MB (max_memory_mb={self._config.max_memory_mb})")
            self._stuck_checks = self._stuck_checks + 1 if count_stuck() and self._config.kill_stuck else 0
            if self._stuck_checks >= STUCK_CHECKS:
                self._recycle("a function continues although its task was stopped (kill_stuck)")
            await asyncio.sleep(CHECK_S)


class _TaskCounter(TaskRunnerEventsListener):
    """Counts the tasks in the answers to polls."""

    def __init__(self, limit: int, on_limit: Callable[[str], None]) -> None:
        self._limit = limit
        self._left = limit
        self._on_limit = on_limit

    def on_poll_completed(self, event: PollCompleted) -> None:
        """Count the tasks of a poll."""
        self._left -= event.tasks_received
        if self._left <= 0:
            self._on_limit(f"it has taken {self._limit - self._left} tasks (max_tasks_per_process={self._limit})")


def set_limits(config: ResolvedConfig) -> None:
    """Limit the memory of this process, and lower its CPU priority, as its options say."""
    if config.memory_limit_mb:
        load_library()
        # The limit applies to data, not to address space, because threads reserve far more address space than they use.
        # Data that libraries have reserved but not used so far, perhaps a gigabyte, is added to the limit.
        reserved = (read_memory_pages(5) or 0) * resource.getpagesize()
        unused = max(0, reserved - read_memory_bytes())
        _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = config.memory_limit_mb * _MB + unused
        limit = wanted if hard_limit == resource.RLIM_INFINITY else min(wanted, hard_limit)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))
    if config.nice:
        os.nice(config.nice)
