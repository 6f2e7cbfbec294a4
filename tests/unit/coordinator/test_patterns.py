from __future__ import annotations

import re
import time

import pytest

from conductor.coordinator.patterns import MAX_WAYS, explodes, ways


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(a+)+$",
        r"^(a*)*$",
        r"(a|aa)+$",
        r"^(.*)*$",
        r"^(\w+\s?)*$",
        r"^(a|a?)+$",
        r"^(-a*a*)*$",
        r"^(?:-(?:a+)+)*$",
        r"^(?:-(?:a{1,2}){1,2})*$",
        r"(?i)^(ab|AB)*$",
        r"^([-a]+-)*$",
        r"(?i)^(k[a-j]+)*$",
        r"^(a{1,30}){1,3000}$",
        r"^(){1000000000}$",
        r"^(?:(?=a)){1000000000}b$",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
    ],
)
def test_patterns_whose_time_doubles_with_every_letter(pattern: str) -> None:
    assert explodes(pattern)


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        (r"^[a-z0-9]+(-[a-z0-9]+)*$", 500),
        (r"^(\d{1,3}\.){3}\d{1,3}$", 15),
        (r"^[^@]+@[^@]+\.[^@]+$", 254),
        (r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?(?!\n)$", 2000),
        (r"^([^;]+;)*$", 5000),
        (r"^(foo|bar)*$", 100_000),
        (r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$", 36),
        (r"^v?\d+(\.\d+){0,2}$", 100),
        (r"^https?://\S+$", 100_000),
        (r".*", 10_000),
        (r"^\S+$", 10_000_000),
    ],
)
def test_patterns_that_people_use_may_be_used(pattern: str, length: int) -> None:
    assert not explodes(pattern)
    assert ways(pattern, length) <= MAX_WAYS


@pytest.mark.parametrize(
    "pattern",
    [r"^a*a*b$", r"^a*a*a*b$", r"^a*a*a*a*b$", r"a*a*b$", r"^(-a+)*(-a+)*b$", r"^(a?){20}b$", r"^(a{1,6}){1,6}b$"],
)
def test_what_may_be_used_comes_back(pattern: str) -> None:
    length = 1
    while ways(pattern, length * 2) <= MAX_WAYS and length < 20_000:
        length *= 2
    for text in ("a" * length, ("-" + "a" * 9) * (length // 10), "-a" * (length // 2)):
        began = time.process_time()
        assert not re.search(pattern, text)
        assert time.process_time() - began < 10


def test_what_is_no_pattern_is_an_error() -> None:
    with pytest.raises(re.error):
        explodes("(")
