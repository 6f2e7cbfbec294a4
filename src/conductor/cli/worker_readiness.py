"""When all workers are at work: their processes tell when the server has answered their first poll."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conductor.client.event.task_runner_events import PollCompleted, TaskRunnerEventsListener


class FirstPollListener(TaskRunnerEventsListener):
    """Goes to every worker's process, and writes a line with the task type into a named pipe, once."""

    def __init__(self, pipe: str) -> None:
        self._pipe = pipe
        self._told: set[str] = set()

    def on_poll_completed(self, event: PollCompleted) -> None:
        """The server has answered a poll."""
        if event.task_type in self._told:
            return
        self._told.add(event.task_type)
        try:
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # the command has ended, or there was never a pipe
            return
        with os.fdopen(pipe, "w") as lines:
            lines.write(f"{event.task_type}\n")


@contextmanager
def announce_when_ready(task_types: set[str], announce: Callable[[], None]) -> Iterator[FirstPollListener]:
    """Inside the block, call `announce` once: when every one of these task types has been polled for."""
    with tempfile.TemporaryDirectory(prefix="conductor-run-") as directory:
        path = Path(directory) / "first-polls"
        os.mkfifo(path, 0o600)
        # Open for writing too: else it would end whenever no worker has it open.
        pipe = os.open(path, os.O_RDWR)
        waiting = threading.Thread(target=_wait, args=(pipe, set(task_types), announce), daemon=True)
        waiting.start()
        try:
            yield FirstPollListener(str(path))
        finally:
            os.write(pipe, b"\n")  # an empty line: wait no longer
            waiting.join()
            os.close(pipe)


def _wait(pipe: int, missing: set[str], announce: Callable[[], None]) -> None:
    if not missing:
        announce()
    with os.fdopen(pipe, closefd=False) as lines:
        for line in lines:
            if line == "\n":
                return
            if line.strip() in missing:
                missing.discard(line.strip())
                if not missing:
                    announce()
