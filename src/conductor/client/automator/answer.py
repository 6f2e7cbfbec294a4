"""What a server says to a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from conductor.client.http.async_rest import ConductorError, MalformedAnswer, Response
from conductor.wire import TERMINAL_TASK_STATUSES, VERDICT_HEADER, Verdict

if TYPE_CHECKING:
    from conductor.client.automator.journal import Entry
    from conductor.client.http.models.task import Task

#: Answers after which a report is sent again; everything else below 500 is final.
_RETRIED = frozenset({408, 429})
#: Refusals: the token has been renewed once already, so waiting a few seconds changes nothing.
_REFUSED = frozenset({401, 403})

_VERDICT = VERDICT_HEADER.lower()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said to a report. No verdict of its own: a plain server, or none that understood."""

    status: int
    verdict: Verdict | None
    message: str
    retry_after_s: float | None = None

    @property
    def final(self) -> bool:
        """Whether the report is over with this answer."""
        if self.verdict is not None:
            return True
        return self.status < 500 and self.status not in _RETRIED and not self.refused

    @property
    def refused(self) -> bool:
        """Whether the server did not accept our credentials."""
        return self.status in _REFUSED


class NoVerdict(ConductorError):
    """The server answered, but said nothing about the report."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"the server answered {answer.status}: {answer.message}")
        self.answer = answer


class _Said(msgspec.Struct, rename="camel"):
    """An error body, or one verdict of a batch."""

    status: int = 0
    verdict: str | None = None
    message: str | None = None
    retryable: bool = False


_said = msgspec.json.Decoder(_Said)
_all_said = msgspec.json.Decoder(list[_Said])


def read_answer(response: Response) -> Answer:
    """The answer to one report."""
    status = response.status
    verdict = _verdict(response.headers.get(_VERDICT))
    if status < 300:
        return Answer(status, verdict, "")
    message = response.body[:500].decode("utf-8", "replace") or f"status {status}, and not a word"
    try:
        said = _said.decode(response.body)
        message, verdict = said.message or message, verdict or _verdict(said.verdict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    return Answer(status, verdict, message, _retry_after(response.headers))


def read_answers(response: Response, expected: int) -> list[Answer]:
    """The answers to a batch, in its order."""
    try:
        said = _all_said.decode(response.body)
    except msgspec.DecodeError as error:
        raise MalformedAnswer(f"the answer to a batch of reports cannot be read: {error}") from None
    if len(said) != expected:
        raise MalformedAnswer(f"{expected} reports were sent and {len(said)} were answered")
    return [Answer(one.status or 200, _verdict(one.verdict), one.message or "") for one in said]


def fate_of(entry: Entry, task: Task) -> Verdict | None:
    """What a plain server's task says about a report of ours; None: the task is still open, and ours."""
    ours = task.worker_id in (None, entry.worker_id)
    if task.status in TERMINAL_TASK_STATUSES:
        return Verdict.COMMITTED if ours and task.status == entry.status else Verdict.CANCELLED
    if not ours or task.poll_count != entry.poll_count or task.status == "SCHEDULED":
        return Verdict.CANCELLED
    return None


def _verdict(name: str | None) -> Verdict | None:
    return Verdict(name) if name is not None and name in Verdict.__members__ else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isdigit() else None
