"""What the stub may do with a request instead of behaving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from conductor.wire import Verdict


@dataclass(frozen=True, slots=True)
class Pass:
    """Behave as usual."""


@dataclass(frozen=True, slots=True)
class Status:
    """Answer with this status and do nothing. Without a body an error status gets Conductor's error body."""

    status: int
    #: Bytes and text travel as they are, anything else as JSON.
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait, then behave as `then` says."""

    seconds: float
    then: Behaviour = Pass()


@dataclass(frozen=True, slots=True)
class Reset:
    """Cut the connection with an RST; with `applied` the request has its effect first: only the answer is lost."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Never answer, and keep the connection; with `applied` the request has its effect nevertheless."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """Do nothing and answer 200 with this body; with `raw` the bytes are the whole answer, and the connection ends."""

    data: bytes = b'[{"taskId": '
    raw: bool = False


@dataclass(frozen=True, slots=True)
class CloseAfter:
    """Answer as usual, promising to keep the connection, and close it."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Answer a report or heartbeat with this verdict, as a coordinator would; only COMMITTED has an effect."""

    verdict: Verdict


Behaviour: TypeAlias = Pass | Status | Delay | Reset | HalfOpen | Malformed | CloseAfter | Judge
