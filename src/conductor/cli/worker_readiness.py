"""Announces when all workers are ready, and reports failing polls. Worker processes write both into a named pipe."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from conductor.cli.server_kind import describe_error
from conductor.client.event.task_runner_events import PollCompleted, PollFailure, TaskRunnerEventsListener
from conductor.client.http.errors import AuthorizationException
from conductor.common.text import escape

#: Longer error messages of polls are cut, because only a short line is written into the pipe in one piece.
MAX_REASON_CHARS = 120


class PollListener(TaskRunnerEventsListener):
    """Writes the polls of a worker process into a named pipe, which the command reads.

    A line is written for the first answered poll of each task type, for each failed poll, and for the first answered
    poll after a failure.
    """

    def __init__(self, pipe: str) -> None:
        self._pipe = pipe
        self._answered: set[str] = set()

    def on_poll_completed(self, event: PollCompleted) -> None:
        """Report the first answered poll of the task type, and the first one after a failure."""
        if event.task_type not in self._answered:
            self._answered.add(event.task_type)
            self._write(f"{event.task_type}\n")

    def on_poll_failure(self, event: PollFailure) -> None:
        """Report a failed poll, except a rejected one, which the workers themselves log."""
        if isinstance(event.cause, AuthorizationException):
            return
        self._answered.discard(event.task_type)
        reason = escape(" ".join(describe_error(event.cause).split()))
        if len(reason) > MAX_REASON_CHARS:
            reason = f"{reason[:MAX_REASON_CHARS]}…"
        self._write(f"{event.task_type}\t{reason}\n")

    def _write(self, line: str) -> None:
        try:
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # the command has exited, or the pipe was not created
            return
        with suppress(OSError), os.fdopen(pipe, "w") as lines:
            lines.write(line)


class PollRounds:
    """Follows the polls of all workers. Reports one failure per round. A worker that fails again begins a new round."""

    def __init__(
        self, task_types: set[str], announce: Callable[[], None], report: Callable[[str | None], None] | None
    ) -> None:
        self._unanswered = set(task_types)
        self._announce = announce
        self._report = report
        self._failing: set[str] = set()
        self._failed_in_round: set[str] = set()
        if not task_types:
            announce()

    def on_failure(self, task_type: str, reason: str) -> None:
        """Report the failure if it is the first one of its round."""
        if self._report is None:
            return
        self._failing.add(task_type)
        if not self._failed_in_round or task_type in self._failed_in_round:
            self._failed_in_round = set()
            self._report(reason)
        self._failed_in_round.add(task_type)

    def on_answer(self, task_type: str) -> None:
        """Announce the workers when all have polled. After that, report when all polls work again."""
        if task_type in self._unanswered:
            self._unanswered.discard(task_type)
            self._failing.discard(task_type)
            if not self._unanswered:
                self._announce()
        elif task_type in self._failing:
            self._failing.discard(task_type)
            if not self._failing and self._report is not None:
                self._failed_in_round = set()
                self._report(None)


@contextmanager
def announce_when_ready(
    task_types: set[str], announce: Callable[[], None], report: Callable[[str | None], None] | None = None
) -> Iterator[PollListener]:
    """Call `announce` once inside the block, when every one of these task types has been polled.

    Args:
        task_types: The task types that the workers poll.
        announce: The function to call, on a thread.
        report: Called with the reason of failing polls, once per round, and with None when all polls work again.
    """
    with tempfile.TemporaryDirectory(prefix="conductor-run-") as directory:
        path = Path(directory) / "first-polls"
        os.mkfifo(path, 0o600)
        # Open the pipe for writing as well: a reader of a pipe without writers would reach its end.
        pipe = os.open(path, os.O_RDWR)
        waiting = threading.Thread(target=_wait, args=(pipe, task_types, announce, report), daemon=True)
        waiting.start()
        try:
            yield PollListener(str(path))
        finally:
            os.write(pipe, b"\n")  # an empty line ends the thread
            waiting.join()
            os.close(pipe)


def _wait(
    pipe: int, task_types: set[str], announce: Callable[[], None], report: Callable[[str | None], None] | None
) -> None:
    rounds = PollRounds(task_types, announce, report)
    with os.fdopen(pipe, closefd=False) as lines:
        for line in lines:
            if line == "\n":
                return
            task_type, failed, reason = line.rstrip("\n").partition("\t")
            if failed:
                rounds.on_failure(task_type, reason)
            else:
                rounds.on_answer(task_type)
