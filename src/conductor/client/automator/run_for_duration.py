"""The worker side of a load test: `python -m conductor.client.automator.task_handler_asyncio --duration=3600`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from conductor.client.automator.task_handler_asyncio import TaskHandlerAsyncIO
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.task_runner_events import (
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskRunnerEventsListener,
)
from conductor.machine import run_on_loop


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


class NoWorkers(Exception):
    """There is nothing to run; the message says what to add."""


def _without_workers(modules: Sequence[str]) -> str:
    """What to add: the modules of the current directory that seem to have workers. They are not imported unasked."""
    if modules:
        return f"there are no workers in {', '.join(modules)}: decorate functions with @worker_task"
    named = sorted(file.stem for file in Path.cwd().glob("*.py") if "@worker_task" in file.read_text(errors="replace"))
    there = (
        f"In this directory that could be: {' '.join(named)}" if named else "In this directory no file has @worker_task"
    )
    return f"there are no workers to run: name the modules that have them after the options. {there}"


async def _run(modules: Sequence[str], duration_s: float | None) -> _Count:
    count = _Count()
    handler = TaskHandlerAsyncIO(
        configuration=Configuration(), import_modules=list(modules) or None, event_listeners=[count]
    )
    if not handler.workers:
        raise NoWorkers(_without_workers(modules))
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
    try:
        count = run_on_loop(_run(options.modules, options.duration))
    except NoWorkers as error:
        parser.error(str(error))
    done = count.completed + count.failed
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    mean_ms = count.busy_ms / done if done else 0.0
    sys.stdout.write(
        f"{count.completed} tasks completed, {count.failed} failed, {mean_ms:.1f} ms each, {memory_mb:.0f} MB at most\n"
    )
    return 0
