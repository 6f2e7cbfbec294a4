"""Announces that all workers are ready: each process reports its first answered poll through a named pipe."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conductor.client.event.task_runner_events import PollCompleted, TaskRunnerEventsListener


class FirstPollListener(TaskRunnerEventsListener):
    """Writes each task type once into a named pipe, from the worker's process."""

    def __init__(self, pipe: str) -> None:
        self._pipe = pipe
        self._told: set[str] = set()

    def on_poll_completed(self, event: PollCompleted) -> None:
        """Report the first answered poll of the task type."""
        if event.task_type in self._told:
            return
        self._told.add(event.task_type)
        try:
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # the command has exited, or the pipe was not created
            return
        with os.fdopen(pipe, "w") as lines:
            lines.write(f"{event.task_type}\n")


@contextmanager
def announce_when_ready(task_types: set[str], announce: Callable[[], None]) -> Iterator[FirstPollListener]:
    """Call `announce` once inside the block, when every one of these task types has been polled."""
    with tempfile.TemporaryDirectory(prefix="conductor-run-") as directory:
        path = Path(directory) / "first-polls"
        os.mkfifo(path, 0o600)
        # Open the pipe for writing as well: a reader of a pipe without writers would reach its end.
        pipe = os.open(path, os.O_RDWR)
        waiting = threading.Thread(target=_wait, args=(pipe, set(task_types), announce), daemon=True)
        waiting.start()
        try:
            yield FirstPollListener(str(path))
        finally:
            os.write(pipe, b"\n")  # an empty line ends the thread
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
