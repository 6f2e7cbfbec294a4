"""Tracks the log lines, output and progress of a running task, and how much of them the server has.

A line that the server has is not sent again with the report. If the heartbeat that carried a line was never answered,
the task's log is read before the line is sent again. If the task ends before that, the report repeats the line: a line
may arrive twice, but is never lost.
"""

from __future__ import annotations

import asyncio
import logging
import math
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from conductor.client.worker.output import encode_output
from conductor.telemetry.log_format import TaskLabel

if TYPE_CHECKING:
    from conductor.client.context.task_context import TaskContext
    from conductor.client.http.models.task_exec_log import TaskExecLog

logger = logging.getLogger(__name__)

#: An update is sent this long after new progress. The update arrives within a second, and a short task sends all of
#: its progress with its report.
UPDATE_DELAY_S = 0.9
#: The largest update in one heartbeat, in lines, and in bytes of lines or of output. Heartbeats must stay small.
MAX_LINES = 1000
MAX_BYTES = 256 * 1024
#: A report waits this long for the answer to an update that is in flight, in real seconds.
LAST_UPDATE_WAIT_S = 2.0


class ProgressUpdate(NamedTuple):
    """The progress that one heartbeat carries."""

    logs: list[TaskExecLog]
    #: None if the server already has the current output.
    output: bytes | None


class ProgressTracker:
    """The progress of one task. All methods but `wait_for_answer` run on the lease thread."""

    def __init__(self, context: TaskContext, about: tuple[str, str, str, str]) -> None:
        self._context = context
        self._about = about
        #: When the next update is due, on the monotonic clock.
        self.send_at = math.inf
        #: Done when the update in flight is answered; None if no update is in flight.
        self._answer: Future[None] | None = None
        self._sent_output = b"{}"
        self._sends_logs = True
        self._sends_output = True
        #: Whether the last request with a line failed; only set with a Conductor server.
        self.has_failed = False
        #: The number of lines that an unanswered heartbeat carried. These lines follow the last line that the server
        #: is known to have.
        self.doubtful_lines = 0

    @property
    def in_flight(self) -> bool:
        """Whether an update was sent and is not answered yet."""
        return self._answer is not None

    def begin(self) -> bool:
        """Begin to send an update.

        Return False if the function has ended, because the report then carries all progress.
        """
        # `_answer` is set before `closed` is read. The executor sets `closed` before it reads `_answer`, so at least
        # one of the two threads notices the other.
        self._answer = Future()
        if self._context.closed:
            self.end()
            return False
        self.send_at = math.inf
        self._context.has_unsent_news = (
            False  # cleared before the update is read, so that later progress triggers another update
        )
        return True

    def end(self) -> None:
        """Record that the update in flight was answered, or that its request failed."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.set_result(None)

    async def wait_for_answer(self) -> None:
        """Wait for the answer to the update in flight. Called on the workers' event loop."""
        answer = self._answer
        if answer is not None:
            await asyncio.wait({asyncio.wrap_future(answer)}, timeout=LAST_UPDATE_WAIT_S)

    def next_lines(self) -> list[TaskExecLog]:
        """Return the next log lines to send, in order."""
        lines: list[TaskExecLog] = []
        bytes_left = MAX_BYTES
        for line in self._context.list_unsent_logs()[:MAX_LINES] if self._sends_logs else ():
            bytes_left -= len(line.log) * 4  # UTF-8 needs at most 4 bytes per character
            if bytes_left < 0:
                break
            lines.append(line)
        if bytes_left < 0 and not lines:
            self._sends_logs = False
            self._warn(
                f"A log line is larger than {MAX_BYTES} bytes; this line and later lines are sent with the report"
            )
        return lines

    def next_update(self) -> ProgressUpdate | None:
        """Return the next update for a coordinator; None if the coordinator is up to date."""
        output = self._encode_output()
        lines = [] if self.doubtful_lines else self.next_lines()
        update = ProgressUpdate(lines, None if output == self._sent_output else output)
        return update if update.logs or update.output is not None else None

    def has_more_lines(self) -> bool:
        """Return whether there are lines for another update."""
        return self._sends_logs and bool(self._context.list_unsent_logs())

    def on_received(self, update: ProgressUpdate) -> None:
        """Record that the server has the update."""
        self._context.sent_logs += len(update.logs)
        if update.output is not None:
            self._sent_output = update.output

    def on_unanswered(self, update: ProgressUpdate) -> None:
        """Record that it is unknown whether the server has the update."""
        self.doubtful_lines = len(update.logs)

    def resolve_doubt(self, server_lines: list[TaskExecLog]) -> None:
        """Learn from the task's log whether the server has the lines of an unanswered heartbeat.

        A server stores a heartbeat as a whole or not at all, so it is enough to look for the first line.
        """
        first, sent = self._context.list_unsent_logs()[0], self._context.logs[: self._context.sent_logs]
        if _count(first, server_lines) > _count(first, sent):
            self._context.sent_logs += self.doubtful_lines
        self.doubtful_lines = 0

    def on_rejected(self, reason: str) -> None:
        """Send no more updates, because the server or the encoder rejected one."""
        self._sends_logs = self._sends_output = False
        self._warn(f"The progress of a task cannot be sent while it runs ({reason}); it is sent with the report")

    def _encode_output(self) -> bytes:
        """Return the output so far and the progress as JSON. Output that cannot be sent now is left for the report."""
        output, progress = dict(self._context.output), self._context.make_progress_output()
        if output and self._sends_output:
            try:
                encoded = encode_output({**output, **progress})
                if len(encoded) <= MAX_BYTES:
                    return encoded
                problem = f"its {len(encoded)} bytes are more than {MAX_BYTES}"
            except Exception as error:  # encoding reads the fields of users' objects: anything may be raised
                problem = f"{type(error).__name__}: {error}"
            self._sends_output = False
            self._warn(f"The output so far cannot be sent with a heartbeat ({problem}); it is sent with the report")
        try:
            encoded = encode_output(progress)
        except Exception:  # for example, the total is not a number
            return self._sent_output
        return encoded if len(encoded) <= MAX_BYTES else self._sent_output

    def _warn(self, problem: str) -> None:
        task_type, task_id, _, workflow_id = self._about
        logger.warning("%s %s", problem, TaskLabel.of(task_type, task_id, workflow_id))


def _count(line: TaskExecLog, lines: list[TaskExecLog]) -> int:
    return sum(line.created_time == other.created_time and line.log == other.log for other in lines)
