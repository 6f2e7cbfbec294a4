"""`${...}` in definitions: parsed once, resolved against whatever a lookup of names gives.

`${workflow.input.x}`, `${ref.output.y.z[0]}`, `${ref.output['a key']}`, `${ref.output.items[*].id}`,
`${ref.output.items.length()}`. As the whole of a string it keeps the value's type; inside a string it is written out.
`$${` is a literal `${`. An expression may be inside another one's path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from conductor.coordinator.sizes import MAX_VALUE_BYTES, TooLarge, size_of

T = TypeVar("T")

#: Gives the value of an expression's first name (`workflow`, or a task's reference name), or None.
Lookup = Callable[[str], Any]
#: One step of a path: a key, an index, every element, or the length.
Step = str | int
EVERY = "\0every"
LENGTH = "\0length"
#: Deeper nesting than this in what a definition or a task holds is not looked into.
MAX_DEPTH = 200
#: Of a value that is wrong, a message shows this much.
MAX_SHOWN = 100

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NAME = re.compile(r"[^\s.\[\](){}'\"*?@,$]+")
_INDEX = re.compile(r"\[\s*(-?\d{1,9})\s*\]")
_QUOTED = re.compile(r"""\[\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*\]""")
_EVERY = re.compile(r"\[\s*\*\s*\]|\.\*")
_LENGTH = re.compile(r"\.(?:length|size)\(\)")


class ExpressionError(ValueError):
    """A path that is not understood; the message says where."""


@lru_cache(maxsize=4096)
def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of what is between `${` and `}`. Raises ExpressionError."""
    text = text.strip()
    first = _NAME.match(text)
    if first is None:
        raise ExpressionError(f"'{text}' does not start with 'workflow' or a task reference name")
    steps: list[Step] = [first.group()]
    position = first.end()
    while position < len(text):
        step, position = _step(text, position)
        steps.append(step)
    return tuple(steps)


def _step(text: str, at: int) -> tuple[Step, int]:
    if found := _LENGTH.match(text, at):
        return LENGTH, found.end()
    if found := _EVERY.match(text, at):
        return EVERY, found.end()
    if found := _INDEX.match(text, at):
        return int(found.group(1)), found.end()
    if found := _QUOTED.match(text, at):
        return re.sub(r"\\(.)", r"\1", found.group(1) or found.group(2) or ""), found.end()
    if text[at] == "." and (found := _NAME.match(text, at + 1)):
        return found.group(), found.end()
    raise ExpressionError(
        f"'{text}' is not understood from '{text[at : at + 20]}' on; "
        "supported are names, ['quoted names'], [0], [*] and .length()"
    )


class _Expression:
    """What stands between `${` and `}`: text with further expressions in it, usually none."""

    __slots__ = ("fixed", "parts")

    def __init__(self, parts: Sequence[str | _Expression]) -> None:
        self.parts = parts
        #: The path, if it does not depend on data.
        self.fixed = _steps("".join(map(str, parts))) if all(isinstance(part, str) for part in parts) else None

    def value(self, resolver: _Resolver) -> Any:
        steps = self.fixed if self.fixed is not None else _steps(resolver.written_out(self.parts))
        if not steps:
            return "" if steps is not None else None
        return walk(resolver.lookup(str(steps[0])), steps[1:])


def _steps(text: str) -> tuple[Step, ...] | None:
    """The path; empty if there is none. None if it is not understood: registration refuses that, but not in data."""
    try:
        return parse_path(text) if text.strip() else ()
    except ExpressionError:
        return None


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[str | _Expression, ...]:
    parts, _ = _parts(text, 0, inside=False, depth=0)
    return tuple(parts)


def _parts(text: str, at: int, *, inside: bool, depth: int) -> tuple[list[str | _Expression], int]:
    """Literal pieces and expressions from `at` to the end, or to the `}` that closes us. -1: it is never closed."""
    parts: list[str | _Expression] = []
    start = at
    while at < len(text):
        if text.startswith("$${", at):
            parts.append(text[start:at])
            start, at = at + 1, at + 3
        elif text.startswith("${", at) and depth < MAX_DEPTH:
            inner, end = _parts(text, at + 2, inside=True, depth=depth + 1)
            if end < 0:
                break
            parts += [text[start:at], _Expression(inner)]
            start = at = end
        elif inside and text[at] == "}":
            parts.append(text[start:at])
            return [part for part in parts if part != ""], at + 1
        else:
            at += 1
    parts.append(text[start:])
    return [part for part in parts if part != ""], -1 if inside else len(text)


def resolve(value: Any, lookup: Lookup) -> Any:
    """`value` with every expression in it replaced; dicts and lists are walked, and never changed in place.

    Raises TooLarge as soon as what the expressions bring in is too much.
    """
    return _Resolver(lookup).resolve(value, 0)


class _Resolver:
    """One value on its way; it counts what the expressions bring in."""

    def __init__(self, lookup: Lookup) -> None:
        self.lookup = lookup
        self._left = MAX_VALUE_BYTES

    def resolve(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value) if "${" in value else value
        if depth >= MAX_DEPTH:
            return value
        if isinstance(value, dict):
            return {key: self.resolve(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, depth + 1) for item in value]
        return value

    def text(self, text: str) -> Any:
        parts = _parse(text)
        if len(parts) == 1 and isinstance(parts[0], _Expression):
            return self.counted(parts[0].value(self))
        return self.written_out(parts)

    def written_out(self, parts: Sequence[str | _Expression]) -> str:
        return "".join([part if isinstance(part, str) else self.counted(as_text(part.value(self))) for part in parts])

    def counted(self, value: T) -> T:
        self._left -= size_of(value)
        if self._left < 0:
            raise TooLarge("the value of these expressions")
        return value


def as_text(value: Any) -> str:
    """A value inside a string: as JSON writes it, a string without quotes. What is missing is `null`."""
    return value if isinstance(value, str) else _JSON.encode(value)


def shown(value: Any) -> str:
    """A value inside a message to people: as text, cut when it is long."""
    text = as_text(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def walk(value: Any, steps: Sequence[Step]) -> Any:
    """Follow the steps into a value. A step that leads nowhere gives None; after `[*]`, such elements are left out."""
    for position, step in enumerate(steps):
        if step == EVERY:
            rest = steps[position + 1 :]
            found = (walk(item, rest) for item in _elements(value))
            return [item for item in found if item is not None or not rest]
        value = _follow(value, step)
        if value is None:
            return None
    return value


def _elements(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _follow(value: Any, step: Step) -> Any:
    if isinstance(value, dict):
        return len(value) if step == LENGTH else value.get(step)
    if isinstance(value, list):
        if step == LENGTH:
            return len(value)
        return value[step] if isinstance(step, int) and -len(value) <= step < len(value) else None
    return len(value) if step == LENGTH and isinstance(value, str) else None


def expressions(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every expression in a value whose path is fixed, as (where it stands, what is between the braces)."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, str):
        if "${" in value:
            yield from ((path, text) for text in _fixed(_parse(value)))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from expressions(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from expressions(item, f"{path}[{index}]", depth + 1)


def _fixed(parts: Sequence[str | _Expression]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, _Expression):
            yield from _fixed(part.parts)
            if all(isinstance(inner, str) for inner in part.parts):
                yield "".join(map(str, part.parts))
