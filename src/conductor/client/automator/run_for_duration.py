"""Runs the workers of a load test: `python -m conductor.client.automator.task_handler_asyncio --duration=3600`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
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
from conductor.common.machine import run_event_loop

logger = logging.getLogger(__name__)


class _Counter(TaskRunnerEventsListener):
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
    """No worker was found; the message says what to add."""


def find_modules() -> list[str]:
    """Return the modules below the current directory that name `worker_task`, without tests and virtual environments.

    A file that does not name `worker_task` is not imported: importing runs its code.
    """
    here = Path.cwd()
    names = []
    for folder, folders, files in os.walk(here):
        folders[:] = sorted(name for name in folders if name.isidentifier() and not _is_excluded(Path(folder, name)))
        for file in sorted(Path(folder, name) for name in files if _MODULE.fullmatch(name)):
            if _DECORATOR.search(file.read_text(errors="replace")):
                parts = file.relative_to(here).with_suffix("").parts
                names.append(".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts))
    return names


#: File names of modules that are imported by default. Tests and `__main__.py`, which is a program, do not match.
_MODULE = re.compile(r"(?!test_|conftest\.py|__main__\.py)[^\W\d]\w*(?<!_test)\.py")
_DECORATOR = re.compile(r"\bworker_task\b")


def _is_excluded(folder: Path) -> bool:
    return folder.name in ("__pycache__", "node_modules", "tests") or (folder / "pyvenv.cfg").exists()


async def _run(modules: Sequence[str], duration_s: float | None) -> _Counter:
    count, names = _Counter(), list(modules) or find_modules()
    logger.info("Importing workers: modules=%s", ", ".join(names) or None)
    handler = TaskHandlerAsyncIO(configuration=Configuration(), import_modules=names or None, event_listeners=[count])
    if not handler.workers:
        where = ", ".join(names) or f"the Python files of {Path.cwd()}"
        raise NoWorkers(f"there are no workers in {where}: decorate functions with @worker_task")
    async with handler:
        try:
            async with asyncio.timeout(duration_s):
                await handler.wait()
        except TimeoutError:
            pass
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the workers of the modules for a duration, drain them and print a summary. Return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m conductor.client.automator.task_handler_asyncio",
        description="Run all decorated workers in one process for a time; the server is CONDUCTOR_SERVER_URL.",
    )
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="how long to run; without it, until stopped")
    parser.add_argument(
        "modules", nargs="*", help="modules or packages whose workers to run (default: those of the current directory)"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        count = run_event_loop(_run(options.modules, options.duration))
    except NoWorkers as error:
        parser.error(str(error))
    done = count.completed + count.failed
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    mean_ms = count.busy_ms / done if done else 0.0
    sys.stdout.write(
        f"{count.completed} tasks completed, {count.failed} failed, {mean_ms:.1f} ms each, {memory_mb:.0f} MB at most\n"
    )
    return 0
