"""Regular expressions of strangers: how long one may take, known before it is used.

Python's `re` tries one way to match after the other and cannot be stopped: `^(a+)+$` on thirty letters takes longer
than anybody waits. So the ways are counted first, from above: a repeat multiplies them, a repeat of repeats raises them
to a power. Only what is sure to end is ever run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined] # there is no public way to look into a pattern
from typing import Any

#: Ways to match that are tried at most for one input; the worst takes about a second.
MAX_WAYS = 1e9
#: A repeat of what may be empty takes its turns whatever the text is.
MAX_EMPTY_TURNS = 1000
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
_SINGLE = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN, _constants.AT)


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> Any:
    return _parser.parse(pattern)


def explodes(pattern: str) -> bool:
    """Whether the time a pattern takes doubles with every letter. Raises re.error for what is no pattern."""
    return math.isinf(ways(pattern, 10_000))


def ways(pattern: str, length: int) -> float:
    """An upper bound on the ways in which a text of this length can be tried."""
    items = list(_parsed(pattern))
    anchored = bool(items) and items[0] == (_constants.AT, _constants.AT_BEGINNING)
    return _sequence(items, length) * (1 if anchored else length + 1)


def _sequence(items: Sequence[Any], length: int) -> float:
    return math.prod(_one(kind, argument, length) for kind, argument in items)


def _one(kind: Any, argument: Any, length: int) -> float:
    if kind in _SINGLE or kind is _constants.GROUPREF:
        return 1
    if kind in _REPEATS:
        return _repeat(argument, length)
    if kind is _constants.BRANCH:
        return _branches([list(branch) for branch in argument[1]], length)
    if kind is _constants.SUBPATTERN:
        return _sequence(list(argument[-1]), length)
    if kind in (_constants.ASSERT, _constants.ASSERT_NOT):
        return _sequence(list(argument[1]), length)
    return math.inf  # rare, and not worth the thought


def _branches(branches: list[list[Any]], length: int) -> float:
    """One of these. Where each begins with a letter of its own, only one is ever tried."""
    found = [_sequence(branch, length) for branch in branches]
    letters = [chr(branch[0][1]) for branch in branches if branch and branch[0][0] is _constants.LITERAL]
    # Whether case counts is not known here, and beyond ASCII it is not simple.
    apart = len({letter.lower() for letter in letters if letter.isascii()}) == len(branches)
    return max(found) if apart else sum(found)


def _repeat(argument: Any, length: int) -> float:
    least, most, body = argument
    if body.getwidth()[0] == 0 and least > MAX_EMPTY_TURNS:
        return math.inf  # nothing, a thousand million times over
    times: int = min(int(most), length)
    counts: int = max(1, times - least + 1)
    inside = _sequence(list(body), length)
    if inside <= 1 or times <= 1:
        return counts * inside
    if _is_separated(list(body)):
        return counts * (length + 1)
    return counts * inside**times if times * math.log(inside) < 700 else math.inf


def _is_separated(body: list[Any]) -> bool:
    """Whether it is clear where each turn of a repeat ends: `(-[a-z]+)*`, `([0-9]+;)*`.

    That is so if it begins or ends with a letter that nothing else in it matches, and has no more than one repeat.
    """
    while len(body) == 1 and body[0][0] is _constants.SUBPATTERN:
        body = list(body[0][1][-1])
    if sum(kind in _REPEATS for kind, _ in body) != 1:
        return False
    return _ends_with(body[0], body[1:]) or _ends_with(body[-1], body[:-1])


def _ends_with(end: Any, rest: list[Any]) -> bool:
    kind, letter = end
    if kind is not _constants.LITERAL or chr(letter).isalpha():  # a letter may be there in two cases
        return False
    return not any(_may_match(item, letter) for item in rest)


def _may_match(item: Any, letter: int) -> bool:
    """Whether a part of a pattern could match this letter; when in doubt, yes."""
    kind, argument = item
    if kind in _REPEATS:
        body = list(argument[2])
        return len(body) != 1 or body[0][0] in _REPEATS or _may_match(body[0], letter)
    if kind is _constants.LITERAL:
        return bool(argument == letter)
    if kind is _constants.NOT_LITERAL:
        return bool(argument != letter)
    if kind is not _constants.IN:
        return True
    if argument[0][0] is _constants.NEGATE:
        return (_constants.LITERAL, letter) not in argument
    return any(_in_set(member, letter) for member in argument)


def _in_set(member: Any, letter: int) -> bool:
    kind, argument = member
    if kind is _constants.LITERAL:
        return bool(argument == letter)
    if kind is _constants.RANGE:
        return bool(argument[0] <= letter <= argument[1])
    if argument in (_constants.CATEGORY_DIGIT, _constants.CATEGORY_WORD, _constants.CATEGORY_SPACE):
        classes = {_constants.CATEGORY_DIGIT: r"\d", _constants.CATEGORY_WORD: r"\w", _constants.CATEGORY_SPACE: r"\s"}
        return re.match(classes[argument], chr(letter)) is not None
    return True
