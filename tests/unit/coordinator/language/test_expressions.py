"""Expressions in templates, conditions, durations and times."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.coordinator.language.durations import parse_duration_ms, parse_until_ms
from conductor.coordinator.language.expressions import find_expressions, lookup_in, resolve
from conductor.coordinator.language.javascript_subset import ConditionError, evaluate, is_true
from conductor.coordinator.language.jsonpath import ExpressionError, parse_path

DATA: dict[str, Any] = {
    "workflow": {"input": {"name": "Ada", "count": 3, "deep": {"list": [{"id": 1}, {"id": 2}, {"other": 0}]}}},
    "ref": {"output": {"y": {"z": [10, 20]}, "a key": 5, "none": None, "flag": True, "half": 0.5, "text": "abc"}},
    "key": {"output": {"which": "count"}},
}


def value(template: Any) -> Any:
    return resolve(template, lookup_in(DATA))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${workflow.input.count}", 3),
        ("${workflow.input.deep}", {"list": [{"id": 1}, {"id": 2}, {"other": 0}]}),
        ("${ref.output.y.z[0]}", 10),
        ("${ref.output.y.z[-1]}", 20),
        ("${ref.output.y.z[2]}", None),
        ("${ref.output['a key']}", 5),
        ('${ref.output["a key"]}', 5),
        ("${ ref.output.flag }", True),
        ("${workflow.input.deep.list[*].id}", [1, 2]),
        ("${workflow.input.deep.list.length()}", 3),
        ("${workflow.input..id}", [1, 2]),
        ("${ref.output..z[0]}", [10]),
        ("${ref.output..nothing}", []),
        ("${ref.output.y[z]}", [10, 20]),
        ("${workflow.input.deep.list[other]}", None),
        ("${ref.output.text.length()}", 3),
        ("${ref.output.nothing.at.all}", None),
        ("${unknown.output.x}", None),
        ("${workflow.input.${key.output.which}}", 3),
        ("${}", ""),
    ],
)
def test_an_expression_alone_keeps_the_type_of_its_value(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello ${workflow.input.name}!", "Hello Ada!"),
        ("${workflow.input.count}${workflow.input.count}", "33"),
        ("is ${ref.output.flag}, ${ref.output.half}", "is true, 0.5"),
        ("got ${ref.output.y}", 'got {"z":[10,20]}'),
        ("missing: ${ref.output.gone}.", "missing: null."),
        ("none: ${ref.output.none}.", "none: null."),
        ("$${workflow.input.name}", "${workflow.input.name}"),
        ("a $${b} c ${workflow.input.name}", "a ${b} c Ada"),
        ("open ${workflow.input.name", "open ${workflow.input.name"),
        ("costs $5 {really}", "costs $5 {really}"),
    ],
)
def test_an_expression_inside_a_string_is_written_out(text: str, expected: str) -> None:
    assert value(text) == expected


def test_dicts_and_lists_are_walked_and_not_changed() -> None:
    template = {"a": ["${workflow.input.count}", {"b": "x${workflow.input.name}"}], "n": 1, "t": None}
    before = json.dumps(template)
    assert value(template) == {"a": [3, {"b": "xAda"}], "n": 1, "t": None}
    assert json.dumps(template) == before


@pytest.mark.parametrize("text", ["", ".x", "a..", "a...b", "a.b[", "a[?(@.x>1]", "a[1:2:3]", "a.b()", "a b", "a['x"])
def test_unknown_path_syntax_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_path(text)


def test_expressions_are_found_with_their_place() -> None:
    template = {"a": ["x ${one.output}", {"b": "${two.output.${three.output.k}}"}], "c": "$${no}"}
    assert list(find_expressions(template, "in")) == [("in.a[0]", "one.output"), ("in.a[1].b", "three.output.k")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
snippets = st.lists(
    st.sampled_from(
        ["${", "}", "$", "$${", "workflow", ".input", ".x", "[0]", "[*]", "['k']", ".length()", "ref", " ", "é"]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)


@given(snippets, json_values)
def test_any_text_resolves_to_something(text: str, known: Any) -> None:
    found = resolve({"a": [text]}, lookup_in({"workflow": {"input": known}, "ref": known}))
    assert json.loads(json.dumps(found)).keys() == {"a"}


@given(json_values)
def test_a_value_comes_back_as_it_went_in(known: Any) -> None:
    assert resolve("${workflow.input}", lookup_in({"workflow": {"input": known}})) == known


@given(st.text(alphabet=st.characters(exclude_characters="$", exclude_categories=["Cs"])))
def test_text_without_expressions_is_left_alone(text: str) -> None:
    assert resolve(text, lookup_in(DATA)) == text


# -- conditions of loops and switches

CONDITION_DATA: dict[str, Any] = {
    "loop": {"iteration": 2, "1": {"t": {"ok": False}}},
    "t": {"count": 7, "list": [1, 2, 3], "name": "x", "nothing": None},
    "limit": 5,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$.loop['iteration'] < 3", True),
        ("$.loop.iteration < $.limit", True),
        ("if ($.loop['iteration'] < 2) { true; } else { false; }", False),
        ("if ( $.loop.iteration < 3 ) { true; } else { false; }", True),
        ("if ($.t.count > 9) true; else if ($.t.count > 5) true; else false;", True),
        ("(function () {\n  if ($.loop['iteration'] < 5) {\n    return true;\n  }\n  return false;\n})();", True),
        ("(function(){ return $.t.count == 8; }())", False),
        ("$.t.count % 2 === 1 && !($.t.name == 'y')", True),
        ("$.t.list.length >= 3 || $.missing.x", True),
        ("$.t.list[1] + 1 == 3", True),
        ("$.loop['1'].t.ok", False),
        ("$.t.nothing == undefined", True),
        ("$.t.nothing === undefined", False),
        ("$.t.gone === undefined", True),
        ("'2' == 2", True),
        ("'2' === 2", False),
        ("true === 1", False),
        ("-1 < 0 // why not", True),
        ("$.t.count - 7", False),
        ("$.t.count", True),
        ("'yes'", False),
        ("", False),
    ],
)
def test_a_condition_has_the_expected_value(text: str, expected: bool) -> None:
    assert is_true(evaluate(text, CONDITION_DATA)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$.limit > 3 ? 'big' : 'small'", "big"),
        ("'a' + 1", "a1"),
        ("1 + 2 * 3 - 4 / 2", 5),
        ("(1 + 2) * 3", 9),
        ("7 % 4", 3),
        ("-7 % 4", -3),
        ("$.t.name || 'other'", "x"),
        ("$.t.nothing || 'other'", "other"),
        ("'it\\'s'", "it's"),
        ("$.t.name + $.t.count", "x7"),
        ("4.0 / 2 + 'x'", "2x"),
    ],
)
def test_value_of_a_script(text: str, expected: Any) -> None:
    assert evaluate(text, CONDITION_DATA) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$.x.map(f)", "function calls"),
        ("while (true) {}", "not understood"),
        ("$.x = 1", "not understood"),
        ("x < 3", "not understood"),
        ("1 +", "the end"),
        ("$.a ? 1", "':' is expected"),
        ("(" * 60 + "1" + ")" * 60, "nested more than"),
        ("+".join(["1"] * 300), "more than"),
        ("process.exit()", "not understood"),
        ("'open", "not understood"),
    ],
)
def test_a_condition_outside_the_subset_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConditionError, match=said):
        evaluate(text, {})


def test_reading_a_property_of_nothing_says_so() -> None:
    with pytest.raises(ConditionError, match="reads 'y' of undefined"):
        evaluate("$.x.y", {})


condition_words = st.lists(
    st.sampled_from(
        [
            "$",
            ".",
            "a",
            "[",
            "]",
            "'a'",
            "0",
            "1",
            "2.5",
            "+",
            "-",
            "*",
            "/",
            "%",
            "<",
            "==",
            "===",
            "&&",
            "||",
            "!",
            "(",
            ")",
        ]
        + ["?", ":", "if", "else", "{", "}", ";", "return", "true", "null", "undefined", "function", "length", " "]
    ),
    max_size=14,
).map(" ".join)


@given(condition_words, st.dictionaries(st.just("a"), json_values))
def test_a_condition_is_understood_or_refused(text: str, data: dict[str, Any]) -> None:
    try:
        assert isinstance(is_true(evaluate(text, data)), bool)
    except ConditionError as error:
        assert str(error)


# -- durations and times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30 seconds", 30),
        ("1h 30m", 5400),
        ("1 hour 30 mins 10s", 5410),
        ("2 days", 172800),
        ("2D 1HR", 176400),
        (" 5 secs ", 5),
        ("0s", 0),
    ],
)
def test_a_duration_is_parsed(text: str, seconds: int) -> None:
    assert parse_duration_ms(text) == seconds * 1000


@pytest.mark.parametrize("text", ["", "soon", "30", "5m 1h", "-5s", "1.5h", "PT5M"])
def test_a_text_that_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01 00:01", 60_000),
        ("1970-01-01 01:00 GMT+1", 0),
        ("1970-01-01 01:00 +01:00", 0),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:00.250+00:00", 250),
        ("1970-01-01 01:00 Europe/Berlin", 0),
    ],
)
def test_a_time_is_parsed(text: str, ms: int) -> None:
    assert parse_until_ms(text) == ms


@pytest.mark.parametrize("text", ["", "tomorrow", "1970-13-01", "1970-01-01 25:00", "1970-01-01 10:00 Nowhere/Atall"])
def test_a_text_that_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_until_ms(text)


@given(st.text(max_size=30) | st.from_regex(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}( [A-Z+:0-9/]{1,9})?)?", fullmatch=True))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    for parse in (parse_duration_ms, parse_until_ms):
        try:
            assert isinstance(parse(text), int)
        except ValueError:
            pass
