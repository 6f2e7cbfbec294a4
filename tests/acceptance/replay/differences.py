"""The differences between two sets of answers, and the expected ones among them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.acceptance.replay.player import Answer

#: Why a difference may be: ours refuses or tells more, or theirs comes later.
KINDS = ("stricter", "delay")
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """A field of an answer that differs."""

    title: str
    field: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.title!r}, {self.field}: real {self.real!r}, coordinator {self.ours!r}"


@dataclass(frozen=True)
class Expected:
    """An entry of the list: which answers and fields (patterns), on which targets, of what kind, and why."""

    answers: tuple[str, ...]
    fields: tuple[str, ...]
    kind: str
    reason: str
    targets: tuple[str, ...] = ("*",)

    def covers(self, difference: Difference) -> bool:
        """Whether it speaks of this difference."""
        return _any(difference.title, self.answers) and _any(difference.field, self.fields)

    def names(self, pattern: str, difference: Difference) -> bool:
        """Whether this part of it is needed for the difference."""
        return _any(difference.title if pattern in self.answers else difference.field, [pattern])

    def applies_to(self, target: str) -> bool:
        """Whether it is expected of this server."""
        return _any(target, self.targets)


def _any(text: str, patterns: Iterable[str]) -> bool:
    # "[" is part of a field's name, not of a pattern.
    return any(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in patterns)


def _expected(fields: dict[str, Any]) -> Expected:
    return Expected(**fields)


def read_expected(path: Path, target: str) -> list[Expected]:
    """The entries that apply to a target."""
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text())["difference"]
    lists = ("answers", "fields", "targets")
    made = [
        _expected({key: tuple(value) if key in lists else value for key, value in entry.items()}) for entry in entries
    ]
    for entry in made:
        assert entry.kind in KINDS, f"{entry.kind!r} is no reason to differ: {entry.reason}"
    return [entry for entry in made if entry.applies_to(target)]


def compare(real: Sequence[Answer], ours: Sequence[Answer]) -> list[Difference]:
    """Field by field. A field that is empty and one that is absent say the same to every client."""
    return [
        Difference(theirs.title, field, theirs.fields.get(field, ABSENT), mine.fields.get(field, ABSENT))
        for theirs, mine in zip(real, ours, strict=True)
        for field in sorted({*theirs.fields, *mine.fields})
        if _said(theirs, field) != _said(mine, field)
    ]


def _said(answer: Answer, field: str) -> Any:
    return answer.fields.get(field) or None
