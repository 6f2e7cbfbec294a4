"""What a task has said while it runs, and how much of it the server has: log lines, output, progress.

A line that the server has is not sent again with the report. One whose heartbeat was never answered is looked for in
the task's log before it is sent again; if the task ends before that, the report has it once more: a line may come
twice, but is never lost.
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

#: News travels this long after it was said: soon enough to be there within a second, and late enough that a short task
#: says everything with its report.
NEWS_S = 0.9
#: Lines in one heartbeat, at most, and the bytes of its lines and of its output. Heartbeats must stay light.
MAX_LINES = 1000
MAX_BYTES = 256 * 1024
#: A report waits this long for the answer to news that is under way, in real seconds.
LAST_NEWS_S = 2.0

_NOTHING = b"{}"


class Said(NamedTuple):
    """What goes with one heartbeat."""

    logs: list[TaskExecLog]
    #: None: as the server has it.
    output: bytes | None


class News:
    """The news of one task. `answered`: on the workers' event loop; the rest on the thread of the leases."""

    #: When it is to be sent.
    at = math.inf
    _answered: Future[None] | None = None
    _output_told = _NOTHING
    _tells_logs = True
    _tells_output = True
    #: Whether the last line could not be sent to a plain server.
    failed = False
    #: How many lines, after those that the server has, went with a heartbeat that was not answered.
    doubtful = 0

    def __init__(self, context: TaskContext, about: tuple[str, str, str, str]) -> None:
        self._context = context
        self._about = about

    @property
    def under_way(self) -> bool:
        """Whether some of it has been sent and not answered yet."""
        return self._answered is not None

    def begin(self) -> bool:
        """It is about to be sent. False: the report has the word."""
        # Here `_answered` is set before `closed` is read; who reports does it the other way round. One sees the other.
        self._answered = Future()
        if self._context.closed:
            self.end()
            return False
        self.at = math.inf
        self._context.has_news = False  # before it is read: what is said from here on asks for another time
        return True

    def end(self) -> None:
        """It was answered, or never will be."""
        answered, self._answered = self._answered, None
        if answered is not None:
            answered.set_result(None)

    async def answered(self) -> None:
        """Wait for the answer to what is under way."""
        answered = self._answered
        if answered is not None:
            await asyncio.wait({asyncio.wrap_future(answered)}, timeout=LAST_NEWS_S)

    def lines(self) -> list[TaskExecLog]:
        """The log lines to tell next, in order."""
        lines: list[TaskExecLog] = []
        room = MAX_BYTES
        for line in self._context.logs_to_tell()[:MAX_LINES] if self._tells_logs else ():
            room -= len(line.log) * 4  # bytes of UTF-8, at most
            if room < 0:
                break
            lines.append(line)
        if room < 0 and not lines:
            self._tells_logs = False
            self._warn("A log line", f"is larger than {MAX_BYTES} bytes; it travels, with those after it,")
        return lines

    def next(self) -> Said | None:
        """What to tell a coordinator; None: nothing that it does not have."""
        output = self._output()
        said = Said([] if self.doubtful else self.lines(), None if output == self._output_told else output)
        return said if said.logs or said.output is not None else None

    def more(self) -> bool:
        """Whether there are lines left for another time."""
        return self._tells_logs and bool(self._context.logs_to_tell())

    def heard(self, said: Said) -> None:
        """The server has it."""
        self._context.logs_told += len(said.logs)
        if said.output is not None:
            self._output_told = said.output

    def unanswered(self, said: Said) -> None:
        """Whether the server has it is not known."""
        self.doubtful = len(said.logs)

    def settle(self, known: list[TaskExecLog]) -> None:
        """These lines the server has. A heartbeat is stored as a whole or not at all, so one of its lines tells."""
        first, told = self._context.logs_to_tell()[0], self._context.logs[: self._context.logs_told]
        if _count(first, known) > _count(first, told):
            self._context.logs_told += self.doubtful
        self.doubtful = 0

    def refused(self, reason: str) -> None:
        """It cannot be sent: everything travels with the report."""
        self._tells_logs = self._tells_output = False
        self._warn("What a task says", f"cannot be sent while it runs ({reason}); it travels")

    def _output(self) -> bytes:
        """The output so far, progress included; what cannot be sent is left to the report, which says why."""
        output, progress = dict(self._context.output), self._context.progress_output()
        if output and self._tells_output:
            try:
                encoded = encode_output({**output, **progress})
                if len(encoded) <= MAX_BYTES:
                    return encoded
                problem = f"its {len(encoded)} bytes are more than {MAX_BYTES}"
            except Exception as error:  # objects of the user's classes are asked for their fields
                problem = f"{type(error).__name__}: {error}"
            self._tells_output = False
            self._warn("The output so far", f"cannot be sent with a heartbeat ({problem}); it travels")
        try:
            encoded = encode_output(progress)
        except Exception:  # such as a total that is no number
            return self._output_told
        return encoded if len(encoded) <= MAX_BYTES else self._output_told

    def _warn(self, what: str, problem: str) -> None:
        task_type, task_id, _, workflow_id = self._about
        label = TaskLabel.of(task_type, task_id, workflow_id)
        logger.warning("%s %s with the report %s", what, problem, label)


def _count(line: TaskExecLog, lines: list[TaskExecLog]) -> int:
    return sum(line.created_time == other.created_time and line.log == other.log for other in lines)
