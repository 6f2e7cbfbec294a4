"""The worker side of a load test: `python -m conductor.client.automator.task_handler_asyncio --duration=3600`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import sys
from collections.abc import Sequence

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import (
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskRunnerEventsListener,
)


class _Count(TaskRunnerEventsListener):
    def __init__(self) -> None:
        self.completed = self.failed = 0
        self.busy_ms = 0.0

    def on_task_execution_completed(self, event: TaskExecutionCompleted) -> None:
        self.completed += 1
        self.busy_ms += event.duration_ms

    def on_task_execution_failure(self, event: TaskExecutionFailure) -> None:
        self.failed += 1
        self.busy_ms += event.duration_ms


async def _run(modules: Sequence[str], duration_s: float | None) -> _Count:
    count = _Count()
    handler = TaskHandlerAsyncIO(
        configuration=Configuration(), import_modules=list(modules) or None, event_listeners=[count]
    )
    async with handler:
        try:
            async with asyncio.timeout(duration_s):
                await handler.wait()
        except TimeoutError:
            pass
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the decorated workers of the modules for a time, then drain and say what was done."""
    parser = argparse.ArgumentParser(
        prog="python -m conductor.client.automator.task_handler_asyncio",
        description="Run all decorated workers in one process for a time; the server is CONDUCTOR_SERVER_URL.",
    )
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="how long to run; without it, until stopped")
    parser.add_argument("modules", nargs="*", help="modules or packages whose workers to run")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    count = asyncio.run(_run(options.modules, options.duration))
    done = count.completed + count.failed
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    mean_ms = count.busy_ms / done if done else 0.0
    sys.stdout.write(
        f"{count.completed} tasks completed, {count.failed} failed, {mean_ms:.1f} ms each, {memory_mb:.0f} MB at most\n"
    )
    return 0
