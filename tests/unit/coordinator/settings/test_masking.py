"""The texts in which the values of secrets are masked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conductor.coordinator.settings.masking import SecretMask

X = "${workflow.secrets.X}"


def mask(value: str, output: Any, *, failed: bool = False) -> Any:
    return SecretMask({"X": value}).mask_output({"result": output}, failed=failed)["result"]


@pytest.mark.parametrize(
    ("value", "output", "masked"),
    [
        ("token-1", "token-1", X),
        ("token-1", "Bearer token-1, Bearer TOKEN-1", f"Bearer {X}, Bearer {X}"),
        ("token-1", {"a token-1": [["token-1"], None, True, 1.5]}, {f"a {X}": [[X], None, True, 1.5]}),
        ("a/b c", "?k=a%2fb%20c&k=a%2Fb+c&k=a/b%20c", f"?k={X}&k={X}&k={X}"),
        ('a"b\nc', '{"k":"a\\"b\\nc"}', f'{{"k":"{X}"}}'),
        ("<a&b>", "&lt;a&amp;b&gt;", X),
        ("\u00e4ssw\u00f6rd", "\\u00e4ssw\\u00f6rd \\u00E4ssw\\u00F6rd \u00c3\u00a4ssw\u00c3\u00b6rd", f"{X} {X} {X}"),
        ("\u79d8\u5bc6\u5bc6\u7801", "???? \u79d8\u5bc6\u5bc6\u7801", f"???? {X}"),
        ("\u00c4\u03a3\u03a3A", "-\u00c4\u03a3\u03a3A\u03b1", f"-{X}\u03b1"),
        ("12345", [12345, 12345.5, 123456, "123456"], [X, 12345.5, 123456, f"{X}6"]),
        ("true", [True, "true", None], [True, X, None]),
        ("Aladdin:open", "QWxhZGRpbjpvcGVu eHg6QWxhZGRpbjpvcGVu", f"{X} eHg6{X}"),
    ],
)
def test_a_value_is_masked_wherever_it_stands_a04(value: str, output: Any, masked: Any) -> None:
    assert mask(value, output) == masked


@pytest.mark.parametrize(
    ("value", "output", "masked"),
    [
        ("a", ["a", "banana", "a b", "a=a", 5], [X, "banana", f"{X} b", f"{X}={X}", 5]),
        ("7", [7, "7", "17", "v7"], [7, X, "17", "v7"]),
        ("", ["", "text"], ["", "text"]),
    ],
)
def test_a_short_value_is_masked_only_where_it_stands_alone_a04(value: str, output: Any, masked: Any) -> None:
    assert mask(value, output) == masked


def test_a_value_that_contains_another_is_masked_whole_a04() -> None:
    found = SecretMask({"X": "token", "Y": "token-of-y"}).mask_failure("token-of-y, token")
    assert found == "${workflow.secrets.Y}, ${workflow.secrets.X}"
    found = SecretMask({"X": "abcdef", "Y": "efghij"}).mask_failure("abcdefghij, efghijk")
    assert found == "${workflow.secrets.X}, ${workflow.secrets.Y}k"


def test_a_failure_loses_parts_of_values_too_a04() -> None:
    value = "correct-horse-battery"
    assert mask(value, 'string ("correct-hors...', failed=True) == 'string ("***...'
    assert mask(value, "'horse' is not defined; battery, corre", failed=True) == "'horse' is not defined; ***, corre"
    assert mask(value, f"{value} is wrong", failed=True) == f"{X} is wrong"
    assert mask(value, "battery") == "battery"  # a success is not searched for parts


def test_an_output_may_be_nested_as_deeply_as_json_is_read_a04() -> None:
    depth = 900
    output = json.loads("[" * depth + '"token-1"' + "]" * depth)
    found = mask("token-1", output)
    for _ in range(depth):
        (found,) = found
    assert found == X


def test_a_task_without_secrets_is_left_alone_a04() -> None:
    nothing = SecretMask({})
    assert not nothing
    assert nothing.mask_failure("text") == "text"
