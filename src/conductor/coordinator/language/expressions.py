"""`${...}` in definitions: parsed once, and resolved with the values that a lookup returns.

Examples are `${workflow.input.x}` and `${ref.output.items[*].id}`; `jsonpath.py` has the syntax of the paths. An
expression that is the whole text keeps the type of its value. Inside a longer text the value is written as text. `$${`
is a literal `${`. The path of an expression can contain other expressions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeVar

from conductor.coordinator.language.jsonpath import ExpressionError, Step, parse_path, walk
from conductor.coordinator.language.value_sizes import TooLarge, json_size
from conductor.coordinator.limits import MAX_ELEMENTS_WALKED, MAX_EXPRESSIONS, MAX_VALUE_BYTES
from conductor.protocol.json_types import Json, JsonObject

T = TypeVar("T")

#: Returns the value of the first name of a path (`workflow` or the reference name of a task), or None. The second
#: argument is the next step of the path, if there is one. A lookup may leave out all other members of the value,
#: because only this member is read.
Lookup = Callable[[str, Step | None], Json]
#: The only name that a path can start with besides `workflow` and the names of tasks. Its value is the id of the task
#: whose input is resolved.
TASK_ID_NAME = "CPEWF_TASK_ID"
#: Expressions in values that are nested deeper than this are not resolved.
MAX_DEPTH = 200
#: Only texts up to this length are cached after parsing, so that the cache has a bounded size.
MAX_CACHED_CHARS = 1000
#: Messages show this many characters of a value.
MAX_SHOWN_CHARS = 100

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MARK = re.compile(r"\$\$\{|\$\{|\}")
#: The first steps of `${workflow.secrets.X}`.
_SECRETS = ("workflow", "secrets")
_parse_cached_path = lru_cache(maxsize=4096)(parse_path)


class ComputedObject(JsonObject):
    """An object whose members are computed when a path reads them. `jsonpath` reads members with `get`."""

    def __init__(self, compute: Callable[[str], Json]) -> None:
        super().__init__()
        self._compute = compute

    def get(self, name: Any, default: Json = None) -> Json:
        """Return the computed member `name`."""
        return self._compute(str(name)) if default is None else default


# -- parsing


class _Expression:
    """The part between `${` and `}`: a text that may contain further expressions."""

    __slots__ = ("fixed", "parts", "rest")

    def __init__(self, parts: Sequence[_Part]) -> None:
        self.parts = parts
        #: The path if it does not depend on data, else None.
        self.fixed = _parse_steps("".join(map(str, parts))) if all(isinstance(part, str) for part in parts) else None
        self.rest = (self.fixed or ())[1:]

    @property
    def names_secret(self) -> bool:
        return self.fixed is not None and self.fixed[:2] == _SECRETS


_Part = str | _Expression


def _parse_steps(text: str) -> tuple[Step, ...] | None:
    """Return the steps of a path: () for an empty text, None for an invalid path.

    Registration rejects an invalid path, but a path can also be built from data.
    """
    if not text.strip():
        return ()
    try:
        return _parse_cached_path(text) if len(text) <= MAX_CACHED_CHARS else parse_path(text)
    except ExpressionError:
        return None


def _parse(text: str) -> tuple[_Part, ...]:
    return _parse_cached(text) if len(text) <= MAX_CACHED_CHARS else _parse_uncached(text)


def _parse_uncached(text: str) -> tuple[_Part, ...]:
    parts, _ = _split_parts(text, 0, inside=False, depth=0)
    return tuple(parts)


_parse_cached = lru_cache(maxsize=4096)(_parse_uncached)


def _split_parts(text: str, at: int, *, inside: bool, depth: int) -> tuple[list[_Part], int]:
    """Split a text into literal parts and expressions, from `at` to the end or to the `}` that closes an expression.

    Returns:
        The parts, and the position after them; -1 if an expression is never closed.
    """
    parts: list[_Part] = []
    start = at
    while (found := _MARK.search(text, at)) is not None:
        mark, at = found.group(), found.start()
        if mark == "$${":
            parts.append(text[start:at])
            start, at = at + 1, at + 3
        elif mark == "${" and depth < MAX_DEPTH:
            inner, end = _split_parts(text, at + 2, inside=True, depth=depth + 1)
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


# -- resolving


def lookup_in(values: Mapping[str, Json]) -> Lookup:
    """Return a lookup of the names in `values`."""
    return lambda name, _step: values.get(name)


def resolve(value: Json, lookup: Lookup) -> Json:
    """Return a copy of `value` in which every expression is replaced by its value.

    Raises:
        TooLarge: The values of the expressions exceed a limit.
    """
    return _Resolver(lookup).resolve(value, 0)


def resolve_and_measure(value: Json, lookup: Lookup) -> tuple[Json, int]:
    """Resolve as `resolve` does. Return also how many bytes the expressions have added."""
    resolver = _Resolver(lookup)
    return resolver.resolve(value, 0), MAX_VALUE_BYTES - resolver.bytes_left


def resolve_secrets(text: Json, get_secret: Callable[[str], str | None]) -> Json:
    """Return a stored text with the values of the secrets that it names.

    The text has no other expressions: `$${` stands for each literal `${` in it.
    """
    secrets = {_SECRETS[1]: ComputedObject(get_secret)}
    return _Resolver(lambda _name, _step: secrets, keeps_secrets=False).resolve(text, MAX_DEPTH)


class _Resolver:
    """Resolves the expressions in one value, and enforces the limits on their work and their result."""

    def __init__(self, lookup: Lookup, *, keeps_secrets: bool = True) -> None:
        self.lookup = lookup
        #: Whether secrets stay placeholders in the result, because the result is stored.
        self.keeps_secrets = keeps_secrets
        self.bytes_left = MAX_VALUE_BYTES
        self.elements = 0
        self.expressions = 0

    def resolve(self, value: Json, depth: int) -> Json:
        if isinstance(value, str):
            return self.resolve_text(value) if "${" in value else value
        if depth >= MAX_DEPTH:
            return value
        if isinstance(value, dict):
            return {key: self.resolve(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, depth + 1) for item in value]
        return value

    def resolve_text(self, text: str) -> Json:
        self.expressions += _count_marks(text)
        if self.expressions > MAX_EXPRESSIONS:
            raise TooLarge("the number of expressions", f"write at most {MAX_EXPRESSIONS} of them")
        parts = _parse(text)
        if len(parts) == 1 and isinstance(parts[0], _Expression):
            return self.count_bytes(self.evaluate(parts[0]))
        return self.join(parts)

    def evaluate(self, expression: _Expression) -> Json:
        steps, rest = expression.fixed, expression.rest
        if steps is None:
            steps = _parse_steps(self.join(expression.parts))
            rest = (steps or ())[1:]
        if not steps:
            return "" if steps is not None else None
        return walk(self.lookup(str(steps[0]), rest[0] if rest else None), rest, self.count_elements)

    def join(self, parts: Sequence[_Part]) -> str:
        """Return the joined parts, with each expression replaced by its value.

        A text with the placeholder of a secret is resolved again when a worker gets the task. Every other `${` in the
        text is escaped, so that the second resolution inserts only the secret.
        """
        has_secret = self.keeps_secrets and any(isinstance(part, _Expression) and part.names_secret for part in parts)
        if not has_secret:
            return "".join(map(self.part_text, parts))
        texts = []
        # Neighbouring parts are joined before they are escaped, because `$` at the end of one part and `{` at the start
        # of the next also form `${`.
        for is_secret, run in groupby(parts, lambda part: isinstance(part, _Expression) and part.names_secret):
            text = "".join(map(self.part_text, run))
            texts.append(text if is_secret else text.replace("${", "$${"))
        return "".join(texts)

    def part_text(self, part: _Part) -> str:
        return part if isinstance(part, str) else self.count_bytes(to_text(self.evaluate(part)))

    def count_elements(self, elements: int) -> None:
        """Count list elements that a path is about to visit. Raises TooLarge above the limit."""
        self.elements += elements
        if self.elements > MAX_ELEMENTS_WALKED:
            raise TooLarge("the number of list elements that these expressions visit", "use smaller lists")

    def count_bytes(self, value: T) -> T:
        self.bytes_left -= json_size(value)
        if self.bytes_left < 0:
            raise TooLarge("the value of these expressions")
        return value


def to_text(value: Json) -> str:
    """Return a value as it appears inside a text: a text as it is, any other value as JSON."""
    return value if isinstance(value, str) else _JSON.encode(value)


def escape_expressions(value: Json) -> Json:
    """Return a value from outside with each `${` escaped as `$${`, so that it is never resolved as an expression."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list):
        return [escape_expressions(item) for item in value]
    if isinstance(value, dict):
        return {key: escape_expressions(item) for key, item in value.items()}
    return value


def shorten(value: Json) -> str:
    """Return a value as text for a message, cut after `MAX_SHOWN_CHARS`."""
    text = to_text(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}..."


# -- inspecting definitions


def names_secrets(text: str) -> bool:
    """Return whether a text of a definition names a secret."""
    return "${" in text and any(isinstance(part, _Expression) and part.names_secret for part in _parse(text))


def secret_placeholder(name: str) -> str:
    """Return the text that stands for a secret in stored and shown values."""
    return f"${{workflow.secrets.{name}}}"


def find_expressions(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Return every expression with a fixed path in a value, as (its place, the text between the braces)."""
    for place, text in _find_texts(value, path, 0):
        yield from ((place, found) for found in _fixed_texts(_parse(text)))


def count_expressions(value: Json) -> int:
    """Return about how many expressions a value has, without parsing them."""
    return sum(_count_marks(text) for _, text in _find_texts(value, "", 0))


def _count_marks(text: str) -> int:
    return text.count("${") - text.count("$${")


def find_unclosed(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Return every text in a value with a `${` that no `}` closes, as (its place, the text)."""
    return ((place, text) for place, text in _find_texts(value, path, 0) if not _is_closed(text))


def _is_closed(text: str) -> bool:
    depth = 0
    for mark in _MARK.finditer(text):
        if mark.group() == "${":
            depth += 1
        elif mark.group() == "}":
            depth = max(0, depth - 1)
    return depth == 0


def _find_texts(value: Json, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Return every text in a value that has an expression, as (its place, the text)."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, str):
        if "${" in value:
            yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _find_texts(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_texts(item, f"{path}[{index}]", depth + 1)


def _fixed_texts(parts: Sequence[_Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, _Expression):
            yield from _fixed_texts(part.parts)
            if all(isinstance(inner, str) for inner in part.parts):
                yield "".join(map(str, part.parts))
