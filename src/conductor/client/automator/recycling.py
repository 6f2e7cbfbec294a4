"""When a worker process has done enough, and what it may use of the machine."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from conductor.client.event.task_runner_events import PollCompleted, TaskRunnerEventsListener
from conductor.client.http.async_rest import load_library

if TYPE_CHECKING:
    from conductor.client.worker.worker_config import ResolvedConfig

#: How often memory and stuck functions are looked at.
LOOK_S = 1.0
#: A function that goes on after it was stopped may still return by itself: so many looks in a row make it stuck.
STUCK_LOOKS = 5
_MB = 1 << 20


class Wear:
    """Tells once, and why, when a process should be replaced by a fresh one. Nothing is watched that has no limit."""

    def __init__(self, config: ResolvedConfig, tell: Callable[[str], None]) -> None:
        self._config = config
        self._tell = tell
        self._told = False
        self._stuck_looks = 0
        self.listeners: tuple[TaskRunnerEventsListener, ...] = ()
        if config.max_tasks_per_process:
            self.listeners = (_TaskCount(config.max_tasks_per_process, self._worn),)

    def _worn(self, reason: str) -> None:
        if not self._told:
            self._told = True
            self._tell(reason)

    async def watch(self, stuck: Callable[[], int]) -> None:
        """Look at memory, and at how many functions are stuck, until it is cancelled."""
        while (self._config.max_memory_mb or self._config.kill_stuck) and not self._told:
            self._look(stuck())
            await asyncio.sleep(LOOK_S)

    def _look(self, stuck: int) -> None:
        used_mb = memory_in_use() // _MB if self._config.max_memory_mb else 0
        if used_mb > self._config.max_memory_mb:
            self._worn(f"it uses {used_mb} MB (max_memory_mb={self._config.max_memory_mb})")
        self._stuck_looks = self._stuck_looks + 1 if stuck and self._config.kill_stuck else 0
        if self._stuck_looks >= STUCK_LOOKS:
            self._worn("a function goes on although its task was stopped (kill_stuck)")


class _TaskCount(TaskRunnerEventsListener):
    """Counts the tasks that polls bring."""

    def __init__(self, limit: int, worn: Callable[[str], None]) -> None:
        self._limit = limit
        self._left = limit
        self._worn = worn

    def on_poll_completed(self, event: PollCompleted) -> None:
        """The server has answered a poll."""
        self._left -= event.tasks_received
        if self._left <= 0:
            self._worn(f"it has taken {self._limit - self._left} tasks (max_tasks_per_process={self._limit})")


def memory_in_use() -> int:
    """Bytes of memory that this process holds now; where the system does not tell, the most it has ever held."""
    pages = _pages(1)
    if pages is None:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


def _pages(column: int) -> int | None:
    """A column of what Linux tells of this process's memory; None where it does not."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[column])
    except OSError:
        return None


def set_limits(config: ResolvedConfig) -> None:
    """Hold this process to what it may use: memory, and its share of the CPU."""
    if config.memory_limit_mb:
        load_library()
        # Of data, not of address space: threads reserve far more of that than they ever use. What libraries have
        # reserved and not used by now, a gigabyte perhaps, is not counted either.
        reserved = (_pages(5) or 0) * resource.getpagesize()
        unused = max(0, reserved - memory_in_use())
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = config.memory_limit_mb * _MB + unused
        limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    if config.nice:
        os.nice(config.nice)
