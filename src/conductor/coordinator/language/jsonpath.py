"""JSONPath inside `${...}`, with the syntax and the results of Jayway JsonPath, which Conductor uses.

`a.b`, `['a key']`, `[0]`, `[-1]` and functions such as `.length()` lead to one value; None if there is none. `[*]`,
`.*`, `..name`, `[1:3]`, `[0,2]` and `[?(@.price < 10)]` lead to many: the path gives a flat list of all values found.

A path can select each element several times. So every step counts the elements it looks at before it does, and the
caller's meter ends the walk. Regular expressions (`=~`) are not supported: Python's take exponential time.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from conductor.coordinator.limits import MAX_EXPRESSION_CHARS

#: Is told how many elements a step looks at; raises when they are too many.
Meter = Callable[[int], None]
#: Looking at a value and all values inside it takes longer than `[*]`: each element counts as this many.
DEEP_COST = 5
#: Comparisons in one filter, and parentheses inside each other.
MAX_FILTER_TERMS = 50
MAX_FILTER_DEPTH = 20
#: Comparing a text of this many characters takes as long as looking at an element.
CHARACTERS_PER_ELEMENT = 1000
#: Numbers in filters with fewer digits are exact.
MAX_DIGITS = 20
#: Of a path that is wrong, a message shows this many characters.
MAX_SHOWN = 100
MISSING = object()
#: Whether a filter accepts a value.
Test = Callable[[Any, Meter], bool]


class ExpressionError(ValueError):
    """A path that is not understood; the message says where."""


class Function(NamedTuple):
    """A step that makes one value of one value; MISSING if it cannot."""

    apply: Callable[[Any], Any]
    #: Whether it looks at each element.
    looks_at_all: bool = False


class Fork:
    """A step that leads to many values."""

    def select(self, value: Any, meter: Meter) -> Iterable[Any]:
        """Return the values that the step leads to."""
        raise NotImplementedError


#: One step of a path: a key, an index, or one of the above.
Step = str | int | Function | Fork


def walk(value: Any, steps: Sequence[Step], meter: Meter = lambda _: None) -> Any:
    """Follow the steps into a value. Return a list of all values found if a step is a Fork, else one value or None."""
    for position, step in enumerate(steps):
        if isinstance(step, Fork):
            return _walk_all([value], steps[position:], meter)
        if isinstance(step, Function) and step.looks_at_all:
            meter(len(_elements(value)))
        value = _child(value, step)
        if value is MISSING:
            return [] if any(isinstance(later, Fork) for later in steps[position:]) else None
    return value


def _walk_all(values: list[Any], steps: Sequence[Step], meter: Meter) -> list[Any]:
    for step in steps:
        if isinstance(step, Fork):
            values = [found for value in values for found in step.select(value, meter)]
        else:
            looks_at_all = isinstance(step, Function) and step.looks_at_all
            meter(len(values) + (sum(len(_elements(value)) for value in values) if looks_at_all else 0))
            values = [found for value in values if (found := _child(value, step)) is not MISSING]
    return values


def _child(value: Any, step: str | int | Function) -> Any:
    if isinstance(step, Function):
        return step.apply(value)
    if isinstance(value, dict):
        # `get` and not `in`: the secrets of a workflow are a dict that knows every name.
        return MISSING if (found := value.get(step)) is None and step not in value else found
    if isinstance(value, list) and isinstance(step, int):
        return value[step] if -len(value) <= step < len(value) else MISSING
    return MISSING


# -- steps that lead to many values


class _Every(Fork):
    def select(self, value: Any, meter: Meter) -> Iterable[Any]:
        elements = _elements(value)
        meter(len(elements))
        return elements


class _Inside(Fork):
    """A value and all values inside it, each before the values it holds; with a filter, those that it accepts."""

    def __init__(self, accepts: _Filter | None = None) -> None:
        self.accepts = accepts

    def select(self, value: Any, meter: Meter) -> Iterator[Any]:
        left = [value]
        while left:
            at = left.pop()
            if self.accepts is None:
                yield at
            elif isinstance(at, dict):
                yield from self.accepts.select(at, meter)
            if isinstance(at, dict | list):
                elements = _elements(at)
                meter(DEEP_COST * len(elements))
                left += reversed(elements)


class _Slice(Fork):
    def __init__(self, start: int | None, end: int | None) -> None:
        self.range = slice(start, end)

    def select(self, value: Any, meter: Meter) -> Iterable[Any]:
        if not isinstance(value, list):
            return ()
        meter(len(range(*self.range.indices(len(value)))))
        return value[self.range]


class _Union(Fork):
    """Several indexes of a list, or several keys of an object."""

    def __init__(self, steps: Sequence[str | int]) -> None:
        self.steps = steps

    def select(self, value: Any, meter: Meter) -> Iterable[Any]:
        meter(len(self.steps))
        return [found for step in self.steps if (found := _child(value, step)) is not MISSING]

    def as_last(self) -> Function | None:
        """Return the step that several keys are at the end of a path: an object of those that there are."""
        names = [step for step in self.steps if isinstance(step, str)]
        if not names:
            return None
        return Function(lambda value: _pick(value, names))


def _pick(value: Any, names: list[str]) -> Any:
    if not isinstance(value, dict):
        return MISSING
    return {name: value[name] for name in names if name in value}


class _Filter(Fork):
    """The elements of a list, or the object itself, that a filter accepts."""

    def __init__(self, accepts: Test, terms: int) -> None:
        self.accepts = accepts
        self.terms = terms

    def select(self, value: Any, meter: Meter) -> Iterable[Any]:
        candidates = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
        meter(self.terms * len(candidates))
        return [one for one in candidates if self.accepts(one, meter)]


def _elements(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


EVERY, INSIDE = _Every(), _Inside()

# -- functions


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, dict | list | str) else MISSING


def _keys(value: Any) -> Any:
    return list(value) if isinstance(value, dict) else MISSING


def _aggregate(compute: Callable[[list[float]], float]) -> Callable[[Any], Any]:
    """Compute something of the numbers of a list, as Java does it: in doubles."""

    def apply(value: Any) -> Any:
        try:
            numbers = [float(one) for one in value if _is_number(one)] if isinstance(value, list) else []
            result = compute(numbers) if numbers else math.nan
        except OverflowError:
            return MISSING
        return result if math.isfinite(result) else MISSING

    return apply


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
    "keys": Function(_keys, looks_at_all=True),
    "sum": Function(_aggregate(sum), looks_at_all=True),
    "max": Function(_aggregate(max), looks_at_all=True),
    "min": Function(_aggregate(min), looks_at_all=True),
    "avg": Function(_aggregate(_average), looks_at_all=True),
    "stddev": Function(_aggregate(_deviation), looks_at_all=True),
}
_SUPPORTED = (
    "supported are names, ['quoted names'], [0], [*], [1:3], [0,2], [?(@.x == 1)], ..name and the functions "
    + ", ".join(f".{name}()" for name in _FUNCTIONS)
)

# -- parsing

_INT, _QUOTE = r"-?[0-9]{1,9}", r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_NAME = re.compile(r"[^\s.\[\](){}'\"*?@,$]+")
_NAME_IN_FILTER = re.compile(r"[^\s.\[\](){}'\"*?@,$=<>!&|]+")
_EVERY = re.compile(r"\[\s*\*\s*\]|\.\*")
_INSIDE = re.compile(r"\.\.(?=\[)|\.(?=\.[^.\s])")
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
        raise ExpressionError(f"'{_shown(text)}' has more than {MAX_EXPRESSION_CHARS} characters")
    text = text.strip()
    first = _NAME.match(text)
    if first is None:
        raise ExpressionError(f"'{_shown(text)}' does not start with 'workflow' or a task reference name")
    steps: list[Step] = [first.group()]
    position = first.end()
    while position < len(text):
        step, position = _parse_step(text, position)
        if steps[-1] is INSIDE and isinstance(step, _Filter):
            steps[-1] = _Inside(step)
        elif steps[-1] is INSIDE and step is INSIDE:
            raise _problem(text, position)
        else:
            steps.append(step)
    if steps[-1] is INSIDE:
        raise _problem(text, len(text))
    if isinstance(steps[-1], _Union) and (last := steps[-1].as_last()) is not None:
        steps[-1] = last
    return tuple(steps)


def _parse_step(text: str, at: int, name: re.Pattern[str] = _NAME) -> tuple[Step, int]:
    if (found := _FUNCTION.match(text, at)) and (function := _FUNCTIONS.get(found[1])):
        return function, found.end()
    if found := _EVERY.match(text, at):
        return EVERY, found.end()
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
    if found := _INSIDE.match(text, at):
        return INSIDE, found.end()
    if text[at] == "." and (found := name.match(text, at + 1)):
        return found.group(), found.end()
    raise _problem(text, at)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _problem(text: str, at: int, why: str = "") -> ExpressionError:
    where = f"from '{text[at : at + 20]}' on" if at < len(text) else "at its end"
    return ExpressionError(f"'{_shown(text)}' is not understood {where}; {why or _SUPPORTED}")


def _shown(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


# -- filters

Operand = Callable[[Any], Any]
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
        accepts = self.any_of()
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
            raise self.problem(f"'{text}' expected")

    def problem(self, why: str) -> ExpressionError:
        return _problem(self.text, self.at, f"{why} in a filter")

    def any_of(self) -> Test:
        self.depth += 1
        if self.depth > MAX_FILTER_DEPTH:
            raise self.problem(f"more than {MAX_FILTER_DEPTH} levels of parentheses")
        tests = [self.all_of()]
        while self.accept("||"):
            tests.append(self.all_of())
        self.depth -= 1
        return tests[0] if len(tests) == 1 else lambda one, meter: any(test(one, meter) for test in tests)

    def all_of(self) -> Test:
        tests = [self.test()]
        while self.accept("&&"):
            tests.append(self.test())
        return tests[0] if len(tests) == 1 else lambda one, meter: all(test(one, meter) for test in tests)

    def test(self) -> Test:
        negated = self.accept("!") is not None
        if self.accept("("):
            test = self.any_of()
            self.expect(")")
        else:
            test = self.comparison(must_exist=negated)
        return (lambda one, meter: not test(one, meter)) if negated else test

    def comparison(self, *, must_exist: bool) -> Test:
        self.terms += 1
        if self.terms > MAX_FILTER_TERMS:
            raise self.problem(f"more than {MAX_FILTER_TERMS} comparisons")
        is_path = self.accept("@") is not None
        left = self.path() if is_path else self.literal()
        sign = None if must_exist else self.accept(*_COMPARISONS, "=~")
        if sign == "=~":
            raise self.problem("regular expressions are not supported")
        if sign is None:
            if not is_path:
                raise self.problem("a comparison expected")
            return lambda one, _: left(one) is not MISSING
        right, compare = self.path() if self.accept("@") else self.literal(), _COMPARISONS[sign]

        def test(one: Any, meter: Meter) -> bool:
            values = left(one), right(one)
            meter(sum(map(_cost, values)))
            return compare(*values)

        return test

    def path(self) -> Operand:
        """Parse the steps after `@`, which lead to one value."""
        steps: list[str | int | Function] = []
        while self.at < len(self.text) and self.text[self.at] in ".[":
            step, end = _parse_step(self.text, self.at, _NAME_IN_FILTER)
            if isinstance(step, Fork) or (isinstance(step, Function) and step.looks_at_all):
                raise self.problem("names, indexes, .length(), .first() and .last() expected after @")
            steps.append(step)
            self.at = end
        self.terms += len(steps) // 10

        def follow(value: Any) -> Any:
            for step in steps:
                value = _child(value, step)
                if value is MISSING:
                    break
            return value

        return follow

    def literal(self) -> Operand:
        if self.accept("["):
            listed: list[Any] = []
            while not self.accept("]"):
                if listed:
                    self.expect(",")
                listed.append(self.literal()(None))
                self.terms += 1
            return lambda _: listed
        found = _TOKEN.match(self.text, self.at)
        if found is None or found.lastgroup == "sign" or (found["word"] and found["word"] not in _WORDS):
            raise self.problem("a path @.x, a number, a 'text', true, false or null expected")
        self.at = found.end()
        value: Any = None
        if found["number"]:
            whole = found["number"].removeprefix("-").isdigit() and len(found["number"]) < MAX_DIGITS
            value = int(found["number"]) if whole else float(found["number"])
        elif found["string"]:
            value = _unquote(found["string"])
        else:
            value = _WORDS[found["word"]]
        return lambda _: value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cost(value: Any) -> int:
    """Return how many elements it takes as long to compare a value as to look at."""
    return (
        len(value) if isinstance(value, list) else len(value) // CHARACTERS_PER_ELEMENT if isinstance(value, str) else 0
    )


def _equal(left: Any, right: Any) -> bool:
    """Compare as Jayway does: a number equals a text that writes it. Lists and objects equal nothing."""
    if isinstance(left, dict | list) or isinstance(right, dict | list) or left is MISSING or right is MISSING:
        return False
    if _is_number(left) and isinstance(right, str):
        left, right = right, left
    if isinstance(left, str) and _is_number(right):
        return _NUMBER.fullmatch(left) is not None and float(left) == right
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(left: Any, right: Any) -> bool:
        both = (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))
        return bool(both and compare(left, right))

    return apply


def _is_in(left: Any, right: Any) -> bool:
    return isinstance(right, list) and any(_equal(left, one) for one in right)


def _contains(left: Any, right: Any) -> bool:
    return right in left if isinstance(left, str) and isinstance(right, str) else _is_in(right, left)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": _is_in,
    "nin": lambda left, right: not _is_in(left, right),
    "contains": _contains,
    "size": lambda left, right: _equal(_length(left), right),
    "empty": lambda left, right: _length(left) is not MISSING and (not left) is right,
}
