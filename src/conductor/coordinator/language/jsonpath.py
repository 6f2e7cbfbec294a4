"""JSONPath inside `${...}`, with the syntax and the results of Jayway JsonPath, which Conductor uses.

`a.b`, `['a key']`, `[0]`, `[-1]` and functions such as `.length()` lead to one value, or to None. `[*]`, `.*`,
`..name`, `[1:3]`, `[0,2]` and `[?(@.price < 10)]` lead to many values: the path returns a flat list of them.

A path can select an element several times. So every step passes the number of elements to the caller's meter before it
visits them, and the meter can stop the walk. Regular expressions (`=~`) are not supported, because Python's take
exponential time.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from conductor.coordinator.limits import MAX_EXPRESSION_CHARS
from conductor.protocol.json_types import Json

#: Counts the elements that a step is about to visit; raises an exception above the caller's limit.
Meter = Callable[[int], None]
#: Visiting an element with `..` takes longer than with `[*]`, so the element counts as this many.
DEEP_COST = 5
#: Limits of one filter: comparisons, and nested parentheses.
MAX_FILTER_TERMS = 50
MAX_FILTER_DEPTH = 20
#: Comparing this many characters takes as long as visiting an element.
CHARS_PER_ELEMENT = 1000
#: Numbers in filters are integers if they have fewer characters, else floats.
MAX_INTEGER_CHARS = 20
#: Messages show this many characters of an invalid path.
MAX_SHOWN_CHARS = 100
MISSING = object()
#: Returns whether a filter accepts a value.
Test = Callable[[Json, Meter], bool]
Comparison = Callable[[Json, Json], bool]


class ExpressionError(ValueError):
    """An invalid path; the message says where."""


class Function(NamedTuple):
    """A step that computes one value from another; MISSING if it cannot."""

    apply: Callable[[Json], Json]
    visits_elements: bool = False


class Fork:
    """A step that leads to many values."""

    def select(self, value: Json, meter: Meter) -> Iterable[Json]:
        """Return the values that the step leads to."""
        raise NotImplementedError


#: A step of a path: a key, an index, a function or a fork.
Step = str | int | Function | Fork


def walk(value: Json, steps: Sequence[Step], meter: Meter = lambda _: None) -> Json:
    """Follow the steps into a value. Return a list of all values if a step is a Fork, else one value or None."""
    for position, step in enumerate(steps):
        if isinstance(step, Fork):
            return _walk_all([value], steps[position:], meter)
        if isinstance(step, Function) and step.visits_elements:
            meter(len(_elements(value)))
        value = _child(value, step)
        if value is MISSING:
            return [] if any(isinstance(later, Fork) for later in steps[position:]) else None
    return value


def _walk_all(values: list[Json], steps: Sequence[Step], meter: Meter) -> list[Json]:
    for step in steps:
        if isinstance(step, Fork):
            values = [found for value in values for found in step.select(value, meter)]
        else:
            visits_elements = isinstance(step, Function) and step.visits_elements
            meter(len(values) + (sum(len(_elements(value)) for value in values) if visits_elements else 0))
            values = [found for value in values if (found := _child(value, step)) is not MISSING]
    return values


def _child(value: Json, step: str | int | Function) -> Json:
    if isinstance(step, Function):
        return step.apply(value)
    if isinstance(value, dict):
        # `get` comes before `in`, because `expressions.ComputedObject` computes members in `get`.
        return MISSING if (found := value.get(step)) is None and step not in value else found
    if isinstance(value, list) and isinstance(step, int):
        return value[step] if -len(value) <= step < len(value) else MISSING
    return MISSING


# -- steps that lead to many values


class _AllElements(Fork):
    def select(self, value: Json, meter: Meter) -> Iterable[Json]:
        elements = _elements(value)
        meter(len(elements))
        return elements


class _Descendants(Fork):
    """A value and all values inside it, parents first. With a filter, the values that it accepts."""

    def __init__(self, accepts: _Filter | None = None) -> None:
        self.accepts = accepts

    def select(self, value: Json, meter: Meter) -> Iterator[Json]:
        pending = [value]
        while pending:
            current = pending.pop()
            if self.accepts is None:
                yield current
            elif isinstance(current, dict):
                yield from self.accepts.select(current, meter)
            if isinstance(current, dict | list):
                elements = _elements(current)
                meter(DEEP_COST * len(elements))
                pending += reversed(elements)


class _Slice(Fork):
    def __init__(self, start: int | None, end: int | None) -> None:
        self.range = slice(start, end)

    def select(self, value: Json, meter: Meter) -> Iterable[Json]:
        if not isinstance(value, list):
            return ()
        meter(len(range(*self.range.indices(len(value)))))
        return value[self.range]


class _Union(Fork):
    """Several indexes of a list, or several keys of an object."""

    def __init__(self, steps: Sequence[str | int]) -> None:
        self.steps = steps

    def select(self, value: Json, meter: Meter) -> Iterable[Json]:
        meter(len(self.steps))
        return [found for step in self.steps if (found := _child(value, step)) is not MISSING]

    def as_last_step(self) -> Step:
        """Return the step that replaces this one at the end of a path.

        At the end, `['a','b']` returns one object with the keys `a` and `b`. Indexes return a list, as elsewhere.
        """
        names = [step for step in self.steps if isinstance(step, str)]

        def pick(value: Json) -> Json:
            return {name: value[name] for name in names if name in value} if isinstance(value, dict) else MISSING

        return Function(pick) if names else self


class _Filter(Fork):
    """The elements of a list that a filter accepts; for an object, the object itself if the filter accepts it."""

    def __init__(self, accepts: Test, terms: int) -> None:
        self.accepts = accepts
        self.terms = terms

    def select(self, value: Json, meter: Meter) -> Iterable[Json]:
        candidates = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
        meter(self.terms * len(candidates))
        return [candidate for candidate in candidates if self.accepts(candidate, meter)]


def _elements(value: Json) -> list[Json]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


_ALL_ELEMENTS, _DESCENDANTS = _AllElements(), _Descendants()

# -- functions


def _length(value: Json) -> Json:
    return len(value) if isinstance(value, dict | list | str) else MISSING


def _keys(value: Json) -> Json:
    return list(value) if isinstance(value, dict) else MISSING


def _aggregate(compute: Callable[[list[float]], float]) -> Function:
    """Return a function on the numbers of a list, computed in doubles as in Java."""

    def apply(value: Json) -> Json:
        try:
            numbers = [float(item) for item in value if _is_number(item)] if isinstance(value, list) else []
            result = compute(numbers) if numbers else math.nan
        except OverflowError:
            return MISSING
        return result if math.isfinite(result) else MISSING

    return Function(apply, visits_elements=True)


def _average(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _deviation(numbers: list[float]) -> float:
    average = _average(numbers)
    return math.sqrt(sum((number - average) ** 2 for number in numbers) / len(numbers))


_FUNCTIONS: dict[str, Function] = {
    "length": Function(_length),
    "size": Function(_length),
    "first": Function(lambda value: _child(value, 0) if isinstance(value, list) else MISSING),
    "last": Function(lambda value: _child(value, -1) if isinstance(value, list) else MISSING),
    "keys": Function(_keys, visits_elements=True),
    "sum": _aggregate(sum),
    "max": _aggregate(max),
    "min": _aggregate(min),
    "avg": _aggregate(_average),
    "stddev": _aggregate(_deviation),
}
_SUPPORTED = (
    "supported: names, ['quoted names'], [0], [*], [1:3], [0,2], [?(@.x == 1)], ..name and the functions "
    + ", ".join(f".{name}()" for name in _FUNCTIONS)
)

# -- parsing

_INT, _QUOTE = r"-?[0-9]{1,9}", r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_NAME = re.compile(r"[^\s.\[\](){}'\"*?@,$]+")
_NAME_IN_FILTER = re.compile(r"[^\s.\[\](){}'\"*?@,$=<>!&|]+")
_STAR = re.compile(r"\[\s*\*\s*\]|\.\*")
_TWO_DOTS = re.compile(r"\.\.(?=\[)|\.(?=\.[^.\s])")
_FUNCTION = re.compile(r"\.([A-Za-z]+)\(\s*\)")
_INDEXES = re.compile(rf"\[\s*({_INT}(?:\s*,\s*{_INT})*)\s*\]")
_SLICE = re.compile(rf"\[\s*({_INT})?\s*:\s*({_INT})?\s*\]")
_QUOTED = re.compile(rf"\[\s*({_QUOTE}(?:\s*,\s*{_QUOTE})*)\s*\]", re.DOTALL)
_ONE_QUOTE = re.compile(_QUOTE, re.DOTALL)
_BARE = re.compile(r"\[\s*([^\s.\[\](){}'\"*?@,$:]+)\s*\]")
_FILTER_START = re.compile(r"\[\s*\?\s*(?=\()")


def parse_path(text: str) -> tuple[Step, ...]:
    """Return the steps of the text between `${` and `}`. Raises ExpressionError."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise ExpressionError(f"'{_shorten(text)}' has more than {MAX_EXPRESSION_CHARS} characters")
    text = text.strip()
    first = _NAME.match(text)
    if first is None:
        raise ExpressionError(f"'{_shorten(text)}' does not start with 'workflow' or a task reference name")
    steps: list[Step] = [first.group()]
    position = first.end()
    while position < len(text):
        step, position = _parse_step(text, position)
        if steps[-1] is _DESCENDANTS and isinstance(step, _Filter):
            steps[-1] = _Descendants(step)
        elif steps[-1] is _DESCENDANTS and step is _DESCENDANTS:
            raise _syntax_error(text, position)
        else:
            steps.append(step)
    if steps[-1] is _DESCENDANTS:
        raise _syntax_error(text, len(text))
    if isinstance(steps[-1], _Union):
        steps[-1] = steps[-1].as_last_step()
    return tuple(steps)


def _parse_step(text: str, at: int, name: re.Pattern[str] = _NAME) -> tuple[Step, int]:
    if (found := _FUNCTION.match(text, at)) and (function := _FUNCTIONS.get(found[1])):
        return function, found.end()
    if found := _STAR.match(text, at):
        return _ALL_ELEMENTS, found.end()
    if found := _INDEXES.match(text, at):
        indexes = [int(number) for number in found[1].split(",")]
        return indexes[0] if len(indexes) == 1 else _Union(indexes), found.end()
    if found := _SLICE.match(text, at):
        start, end = (int(number) if number else None for number in found.groups())
        return _Slice(start, end), found.end()
    if found := _QUOTED.match(text, at):
        names = [_unquote(name) for name in _ONE_QUOTE.findall(found[1])]
        return names[0] if len(names) == 1 else _Union(names), found.end()
    if found := _FILTER_START.match(text, at):
        return _FilterParser(text, found.end()).parse()
    if found := _BARE.match(text, at):
        return found[1], found.end()
    if found := _TWO_DOTS.match(text, at):
        return _DESCENDANTS, found.end()
    if text[at] == "." and (found := name.match(text, at + 1)):
        return found.group(), found.end()
    raise _syntax_error(text, at)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _syntax_error(text: str, at: int, why: str = "") -> ExpressionError:
    place = f"at '{text[at : at + 20]}'" if at < len(text) else "at its end"
    return ExpressionError(f"'{_shorten(text)}' is not understood {place}; {why or _SUPPORTED}")


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}..."


# -- filters

Operand = Callable[[Json], Json]
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(
    rf"""\s*(?:(?P<number>{_NUMBER.pattern})
      | (?P<string>{_QUOTE}) | (?P<word>[a-z]+) | (?P<sign>&&|\|\||==|!=|<=|>=|=~|[<>!()\[\],@]))""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None}


class _FilterParser:
    """Parses `(...)]` of a filter by recursive descent."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.terms = 0
        self.depth = 0

    def parse(self) -> tuple[_Filter, int]:
        self.expect("(")
        accepts = self.parse_or()
        self.expect(")")
        self.expect("]")
        return _Filter(accepts, self.terms), self.at

    def accept(self, *texts: str) -> str | None:
        found = _TOKEN.match(self.text, self.at)
        if found is None or found.lastgroup not in ("sign", "word") or found[found.lastgroup] not in texts:
            return None
        self.at = found.end()
        return found[found.lastgroup]

    def expect(self, text: str) -> None:
        if self.accept(text) is None:
            raise self.problem(f"'{text}' is expected")

    def problem(self, why: str) -> ExpressionError:
        return _syntax_error(self.text, self.at, f"{why} in a filter")

    def parse_or(self) -> Test:
        self.depth += 1
        if self.depth > MAX_FILTER_DEPTH:
            raise self.problem(f"more than {MAX_FILTER_DEPTH} levels of parentheses")
        tests = [self.parse_and()]
        while self.accept("||"):
            tests.append(self.parse_and())
        self.depth -= 1
        return tests[0] if len(tests) == 1 else lambda value, meter: any(test(value, meter) for test in tests)

    def parse_and(self) -> Test:
        tests = [self.parse_test()]
        while self.accept("&&"):
            tests.append(self.parse_test())
        return tests[0] if len(tests) == 1 else lambda value, meter: all(test(value, meter) for test in tests)

    def parse_test(self) -> Test:
        negated = self.accept("!") is not None
        if self.accept("("):
            test = self.parse_or()
            self.expect(")")
        else:
            test = self.parse_comparison(must_exist=negated)
        return (lambda value, meter: not test(value, meter)) if negated else test

    def parse_comparison(self, *, must_exist: bool) -> Test:
        self.terms += 1
        if self.terms > MAX_FILTER_TERMS:
            raise self.problem(f"more than {MAX_FILTER_TERMS} comparisons")
        is_path = self.accept("@") is not None
        left = self.parse_operand_path() if is_path else self.parse_literal()
        sign = None if must_exist else self.accept(*_COMPARISONS, "=~")
        if sign == "=~":
            raise self.problem("regular expressions are not supported")
        if sign is None:
            if not is_path:
                raise self.problem("a comparison such as @.x == 1 is expected")
            return lambda value, _: left(value) is not MISSING
        right = self.parse_operand_path() if self.accept("@") else self.parse_literal()
        compare = _COMPARISONS[sign]

        def test(value: Json, meter: Meter) -> bool:
            operands = left(value), right(value)
            meter(sum(map(_cost, operands)))
            return compare(*operands)

        return test

    def parse_operand_path(self) -> Operand:
        """Parse the steps after `@`, which lead to one value."""
        steps: list[str | int | Function] = []
        while self.at < len(self.text) and self.text[self.at] in ".[":
            step, end = _parse_step(self.text, self.at, _NAME_IN_FILTER)
            if isinstance(step, Fork) or (isinstance(step, Function) and step.visits_elements):
                raise self.problem("names, indexes, .length(), .first() and .last() are allowed after @")
            steps.append(step)
            self.at = end
        self.terms += len(steps) // 10

        def follow(value: Json) -> Json:
            for step in steps:
                value = _child(value, step)
                if value is MISSING:
                    break
            return value

        return follow

    def parse_literal(self) -> Operand:
        if self.accept("["):
            items: list[Json] = []
            while not self.accept("]"):
                if items:
                    self.expect(",")
                items.append(self.parse_literal()(None))
                self.terms += 1
            return lambda _: items
        found = _TOKEN.match(self.text, self.at)
        if found is None or found.lastgroup == "sign" or (found["word"] and found["word"] not in _WORDS):
            raise self.problem("a path @.x, a number, a 'text', true, false or null is expected")
        self.at = found.end()
        value: Json
        if number := found["number"]:
            is_integer = number.removeprefix("-").isdigit() and len(number) < MAX_INTEGER_CHARS
            value = int(number) if is_integer else float(number)
        elif found["string"]:
            value = _unquote(found["string"])
        else:
            value = _WORDS[found["word"]]
        return lambda _: value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cost(value: object) -> int:
    """Return the cost of comparing a value, in visited elements."""
    if isinstance(value, str):
        return len(value) // CHARS_PER_ELEMENT
    return len(value) if isinstance(value, list) else 0


def _equal(left: Json, right: Json) -> bool:
    """Return whether two values are equal for Jayway: a number equals its text; lists and objects equal nothing."""
    if isinstance(left, dict | list) or isinstance(right, dict | list) or left is MISSING or right is MISSING:
        return False
    if _is_number(left) and isinstance(right, str):
        left, right = right, left
    if isinstance(left, str) and _is_number(right):
        return _NUMBER.fullmatch(left) is not None and float(left) == right
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _ordering(compare: Comparison) -> Comparison:
    def apply(left: Json, right: Json) -> bool:
        is_comparable = (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))
        return bool(is_comparable and compare(left, right))

    return apply


def _is_in(left: Json, right: Json) -> bool:
    return isinstance(right, list) and any(_equal(left, item) for item in right)


def _contains(left: Json, right: Json) -> bool:
    return right in left if isinstance(left, str) and isinstance(right, str) else _is_in(right, left)


_COMPARISONS: dict[str, Comparison] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordering(operator.lt),
    "<=": _ordering(operator.le),
    ">": _ordering(operator.gt),
    ">=": _ordering(operator.ge),
    "in": _is_in,
    "nin": lambda left, right: not _is_in(left, right),
    "contains": _contains,
    "size": lambda left, right: _equal(_length(left), right),
    "empty": lambda left, right: _length(left) is not MISSING and (not left) is right,
}
