"""`${...}` in definitions: parsed once, resolved against whatever a lookup of names gives.

`${workflow.input.x}`, `${ref.output.items[*].id}`: `paths.py` has the syntax of paths. An expression that is the whole
string keeps the value's type; inside a string it is written out. `$${` is a literal `${`. An expression may be inside
another one's path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from conductor.coordinator.language.jsonpath import ExpressionError, Step, parse_path, walk
from conductor.coordinator.language.value_sizes import TooLarge, json_size
from conductor.coordinator.limits import MAX_ELEMENTS_WALKED, MAX_EXPRESSIONS, MAX_VALUE_BYTES

T = TypeVar("T")

#: Gives the value of an expression's first name (`workflow`, or a task's reference name), or None. It is also told the
#: step that follows, if there is one: no more of the value than that is looked at.
Lookup = Callable[[str, Step | None], Any]
#: The only name outside of the workflow: the id of the task that the input is for.
TASK_ID_NAME = "CPEWF_TASK_ID"
#: Deeper nesting than this in what a definition or a task holds is not looked into.
MAX_DEPTH = 200
#: Texts up to this length are kept with what was read in them.
MAX_KEPT_CHARS = 1000
#: Of a value that is wrong, a message shows this much.
MAX_SHOWN = 100

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MARK = re.compile(r"\$\$\{|\$\{|\}")

#: What `${workflow.secrets.X}` begins with, as steps.
SECRETS = ("workflow", "secrets")


_parse_path_short = lru_cache(maxsize=4096)(parse_path)


class _Expression:
    """What stands between `${` and `}`: text with further expressions in it, usually none."""

    __slots__ = ("_rest", "fixed", "parts")

    def __init__(self, parts: Sequence[str | _Expression]) -> None:
        self.parts = parts
        #: The path, if it does not depend on data.
        self.fixed = _steps("".join(map(str, parts))) if all(isinstance(part, str) for part in parts) else None
        self._rest = (self.fixed or ())[1:]

    @property
    def names_secret(self) -> bool:
        """Whether it is one of `${workflow.secrets.X}`."""
        return self.fixed is not None and self.fixed[:2] == SECRETS

    def value(self, resolver: _Resolver) -> Any:
        steps, rest = self.fixed, self._rest
        if steps is None:
            steps = _steps(resolver.written_out(self.parts))
            rest = (steps or ())[1:]
        if not steps:
            return "" if steps is not None else None
        return walk(resolver.lookup(str(steps[0]), rest[0] if rest else None), rest, resolver.walked)


def _steps(text: str) -> tuple[Step, ...] | None:
    """The path; empty if there is none. None if it is not understood: registration refuses that, but not in data."""
    try:
        if not text.strip():
            return ()
        return _parse_path_short(text) if len(text) <= MAX_KEPT_CHARS else parse_path(text)
    except ExpressionError:
        return None


def _parse(text: str) -> tuple[str | _Expression, ...]:
    # What is kept is bounded by its bytes: long texts are rare, and read again.
    return _parse_short(text) if len(text) <= MAX_KEPT_CHARS else _parse_any(text)


def _parse_any(text: str) -> tuple[str | _Expression, ...]:
    parts, _ = _parts(text, 0, inside=False, depth=0)
    return tuple(parts)


_parse_short = lru_cache(maxsize=4096)(_parse_any)


def _parts(text: str, at: int, *, inside: bool, depth: int) -> tuple[list[str | _Expression], int]:
    """Literal pieces and expressions from `at` to the end, or to the `}` that closes us. -1: it is never closed."""
    parts: list[str | _Expression] = []
    start = at
    while (found := _MARK.search(text, at)) is not None:
        mark, at = found.group(), found.start()
        if mark == "$${":
            parts.append(text[start:at])
            start, at = at + 1, at + 3
        elif mark == "${" and depth < MAX_DEPTH:
            inner, end = _parts(text, at + 2, inside=True, depth=depth + 1)
            if end < 0:
                break
            parts += [text[start:at], _Expression(inner)]
            start = at = end
        elif inside and mark == "}":
            parts.append(text[start:at])
            return [part for part in parts if part != ""], at + 1
        else:
            at = found.end()
    if inside:
        return [], -1
    parts.append(text[start:])
    return [part for part in parts if part != ""], len(text)


def lookup_in(values: Mapping[str, Any]) -> Lookup:
    """The names of a mapping."""
    return lambda name, _step: values.get(name)


def resolve(value: Any, lookup: Lookup) -> Any:
    """`value` with every expression in it replaced; dicts and lists are walked, and never changed in place.

    Raises TooLarge as soon as what the expressions bring in is too much.
    """
    return _Resolver(lookup).resolve(value, 0)


def resolve_and_measure(value: Any, lookup: Lookup) -> tuple[Any, int]:
    """The same, and how many bytes the expressions have brought in."""
    resolver = _Resolver(lookup)
    return resolver.resolve(value, 0), MAX_VALUE_BYTES - resolver.left


def resolve_secrets(text: Any, secrets: dict[str, Any]) -> Any:
    """A stored text with the secrets that it names; what else looks like an expression was written as `$${`."""
    return _Resolver(lambda _name, _step: {SECRETS[1]: secrets}, keeps_secrets=False).resolve(text, MAX_DEPTH)


class _Resolver:
    """One value on its way; it counts what the expressions bring in."""

    def __init__(self, lookup: Lookup, *, keeps_secrets: bool = True) -> None:
        self.lookup = lookup
        #: Whether what it makes is stored, and secrets come in later.
        self.keeps_secrets = keeps_secrets
        self.left = MAX_VALUE_BYTES
        self.elements = 0
        self.expressions = 0

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
        self.expressions += _count(text)
        if self.expressions > MAX_EXPRESSIONS:
            raise TooLarge("the work of these expressions", f"write at most {MAX_EXPRESSIONS} of them")
        parts = _parse(text)
        if len(parts) == 1 and isinstance(parts[0], _Expression):
            return self.counted(parts[0].value(self))
        return self.written_out(parts)

    def written_out(self, parts: Sequence[str | _Expression]) -> str:
        if self.keeps_secrets and any(isinstance(part, _Expression) and part.names_secret for part in parts):
            return self.beside_secrets(parts)
        return "".join([part if isinstance(part, str) else self.counted(to_text(part.value(self))) for part in parts])

    def beside_secrets(self, parts: Sequence[str | _Expression]) -> str:
        """A text that names a secret is read again when its task is handed out: nothing else in it may be read so."""
        written = []
        for part in parts:
            text = part if isinstance(part, str) else self.counted(to_text(part.value(self)))
            written.append(text if isinstance(part, _Expression) and part.names_secret else text.replace("${", "$${"))
        return "".join(written)

    def walked(self, elements: int) -> None:
        """An expression looks at so many elements of a list."""
        self.elements += elements
        if self.elements > MAX_ELEMENTS_WALKED:
            raise TooLarge("the work of these expressions", "look into smaller lists")

    def counted(self, value: T) -> T:
        self.left -= json_size(value) if isinstance(value, dict | list) else len(value) if isinstance(value, str) else 1
        if self.left < 0:
            raise TooLarge("the value of these expressions")
        return value


def to_text(value: Any) -> str:
    """A value inside a string: as JSON writes it, a string without quotes. What is missing is `null`."""
    return value if isinstance(value, str) else _JSON.encode(value)


def shorten(value: Any) -> str:
    """A value inside a message to people: as text, cut when it is long."""
    text = to_text(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def names_secrets(text: str) -> bool:
    """Whether a text of a definition names a secret."""
    return "${" in text and any(isinstance(part, _Expression) and part.names_secret for part in _parse(text))


def secret_placeholder(name: str) -> str:
    """What stands for a secret wherever values are kept or shown."""
    return f"${{workflow.secrets.{name}}}"


def find_expressions(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every expression in a value whose path is fixed, as (where it stands, what is between the braces)."""
    for where, text in _texts(value, path, 0):
        yield from ((where, found) for found in _fixed(_parse(text)))


def count_expressions(value: Any) -> int:
    """How many expressions there are in a value, about, without reading any."""
    return sum(_count(text) for _, text in _texts(value, "", 0))


def _count(text: str) -> int:
    return text.count("${") - text.count("$${")


def find_unclosed(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a value with a `${` that no `}` closes, as (where it stands, the text)."""
    return ((where, text) for where, text in _texts(value, path, 0) if not _is_closed(text))


def _is_closed(text: str) -> bool:
    depth = 0
    for mark in _MARK.finditer(text):
        if mark.group() == "${":
            depth += 1
        elif mark.group() == "}":
            depth = max(0, depth - 1)
    return depth == 0


def _texts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Every text in a value with an expression in it, as (where it stands, the text)."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, str):
        if "${" in value:
            yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]", depth + 1)


def _fixed(parts: Sequence[str | _Expression]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, _Expression):
            yield from _fixed(part.parts)
            if all(isinstance(inner, str) for inner in part.parts):
                yield "".join(map(str, part.parts))
