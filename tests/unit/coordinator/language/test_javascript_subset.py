"""Conditions that are evaluated without the script engine have the same value or error as with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.coordinator.language.expressions import to_text
from conductor.coordinator.language.javascript_subset import INHERITED, ConditionError, EngineNeeded, evaluate
from conductor.coordinator.system.script_runner import ScriptError, ScriptRequest, ScriptRunner

FAILS = "fails"
#: Texts and numbers that JavaScript converts in ways of its own.
ODD_TEXTS = [
    *("", " ", "0", "1", "-1", "+1", "1.5", ".5", "1.", "1e3", "1_0", "010", "0x10", "0b1", " 1 ", "\n1", "\u00a01"),
    *("Infinity", "-Infinity", "infinity", "nan", "NaN", "true", "null", "a", "b", "A", "é", "\U0001f600", "\uffff"),
    *("size", "length", "constructor", "__proto__", "٣", "1" * 30),
]
ODD_NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    10,
    0.5,
    -0.0,
    1.0,
    0.1,
    1e21,
    1e-7,
    2**53 - 1,
    2**53,
    2**53 + 1,
    -(2**60),
    10**20,
    1e308,
]
KEYS = ["a", "b", "0", "size", "length", "__proto__", "toString"]
scalars = st.none() | st.booleans() | st.sampled_from(ODD_NUMBERS) | st.sampled_from(ODD_TEXTS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
data_of_conditions = st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=1)

quoted = st.sampled_from([json.dumps(text, ensure_ascii=False) for text in ODD_TEXTS])
literals = st.one_of(
    st.sampled_from(["0", "1", "2", "010", "08", "0x10", "1e3", "1.5", ".5", "1.", "1_000", "9007199254740993", "1n"]),
    st.sampled_from(["true", "false", "null", "undefined", "NaN", "Infinity", "$"]),
    st.sampled_from([r"'\u0041'", r"'\x41'", r"'\a'", r"'\0'", r"'\''", r"'\n'", "'a'", '"b"', "''", "'1'", "`a`"]),
    quoted,
)
names = st.sampled_from([".a", ".b", ".c", ".size", ".length", ".toString", "['a']", "[0]", "[1]", "[-1]", "['0']"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda steps: "$" + "".join(steps))
gaps = st.sampled_from(["", " ", "  ", "\n", "\t", "/* c */", "// c\n"])
comparisons_and_arithmetic = ["==", "!=", "===", "!==", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"]
signs = st.sampled_from(["||", "&&", *comparisons_and_arithmetic])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, gaps, signs, gaps, inner).map("".join),
        st.tuples(st.sampled_from(["!", "-", "+", "- ", "!!", "--"]), inner).map("".join),
        inner.map("({})".format),
        st.tuples(inner, inner, inner).map(lambda parts: "{} ? {} : {}".format(*parts)),
        st.tuples(inner, inner).map(lambda parts: "{}[{}]".format(*parts)),
    )


expressions = st.recursive(paths | literals, larger, max_leaves=6)


def statements_of(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(expressions, inner).map(lambda parts: "if ({}) {}".format(*parts)),
        st.tuples(expressions, inner, inner).map(lambda parts: "if ({}) {} else {}".format(*parts)),
        st.tuples(inner, gaps, inner).map("".join),
        inner.map("{{ {} }}".format),
    )


simple = expressions | st.sampled_from([";", "{}"]) | expressions.map("{};".format)
returned = st.tuples(st.sampled_from(["return ", "return\n", "return/*\n*/ ", "return("]), expressions, st.just(";"))
scripts = st.recursive(simple | returned.map("".join), statements_of, max_leaves=4)
wrappers = ["(function () {{ {} }})()", "(function(){{{}}}())", "(function () {{ {} }})();"]
wrapped = st.tuples(st.sampled_from(wrappers), scripts).map(lambda parts: parts[0].format(parts[1]))
conditions = expressions | scripts | wrapped


@pytest.fixture(scope="module")
def runner() -> Iterator[ScriptRunner]:
    found = ScriptRunner()
    yield found
    found.close()


def of_engine(runner: ScriptRunner, text: str, data: Any) -> Any:
    try:
        return runner.run(ScriptRequest("javascript", text, json.dumps(data).encode()))
    except ScriptError:
        return FAILS


def of_own(text: str, data: Any) -> Any:
    try:
        return evaluate(text, data)
    except EngineNeeded:
        raise
    except ConditionError:
        return FAILS


def check(runner: ScriptRunner, text: str, data: Any) -> bool:
    """Compare both values; return whether the condition could be evaluated without the engine."""
    try:
        own = of_own(text, data)
    except EngineNeeded:
        return False
    found = of_engine(runner, text, data)
    assert (type(own), own) == (type(found), found)
    assert to_text(own) == to_text(found)
    return True


same_as_engine = given(conditions, data_of_conditions)
any_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(any_fixture, max_examples=400)
@same_as_engine
def test_a_condition_has_the_value_of_the_engine_or_needs_it_a08(runner: ScriptRunner, text: str, data: Any) -> None:
    check(runner, text, data)


@pytest.mark.slow
@settings(any_fixture, max_examples=4000)
@same_as_engine
def test_thousands_of_conditions_have_the_value_of_the_engine_a08(runner: ScriptRunner, text: str, data: Any) -> None:
    check(runner, text, data)


@settings(any_fixture, max_examples=300)
@given(scalars, scalars, st.sampled_from(comparisons_and_arithmetic))
def test_operators_on_odd_values_a08(runner: ScriptRunner, left: Any, right: Any, sign: str) -> None:
    check(runner, f"$.left {sign} $.right", {"left": left, "right": right})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"'\u0041' == 'A'", True),
        ("$.hex == 16", True),
        ("$.list == 1", True),
        ("010 == 8", True),
        ("$.list + 1", "11"),
        ("$.text.length", 1),
        ("1; if (false) { 2 }", None),
        ("1 / 0 > 1e9", True),
        ("0 / 0 == 0 / 0", False),
        ("'' + 1e21", "1e+21"),
        ("$.same === $.same", True),
        ("$.same === $.other", False),
        ("return true", FAILS),
        ("if (true) { 1 }; else { 2 }", FAILS),
        ("$.size == undefined", False),
        ("(function () { return\n true; })()", None),
    ],
)
def test_conditions_with_odd_values_have_the_value_of_javascript_a08(
    runner: ScriptRunner, text: str, expected: Any
) -> None:
    shared: dict[str, Any] = {}
    data = {"hex": "0x10", "list": [1], "text": "é", "same": shared, "other": shared}
    try:
        found = of_own(text, data)
    except EngineNeeded:
        found = of_engine(runner, text, data)
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "$.x > 3",
        "$.status == 'OK' && !$.done",
        "$.x > 3 ? 'large' : 'small'",
        "$.loop['iteration'] < $.x",
        "if ($.loop['iteration'] < 5) { true; } else { false; }",
        "if ($.x > 9) 'a'; else if ($.x > 3) 'b'; else 'c';",
        "(function () { if ($.loop.iteration < 5 && $.list.length == 2) { return true; } return false; })();",
        "(function(){ return $.list[0].id === 1 || $.missing == null; }())",
        "$.missing > 3",
        "$.x % 2 == 0 && $.count == '7'",
        "$.x + 1 <= $.count * 2 - 0.5",
        "$.status != 7 || $.status == ''",
        "$.status + '_' + $.x",
    ],
)
def test_common_conditions_need_no_engine_a08(runner: ScriptRunner, text: str) -> None:
    data = {"x": 5, "count": 7, "status": "OK", "done": False, "loop": {"iteration": 2}, "list": [{"id": 1}, {}]}
    assert check(runner, text, data)


def test_the_inherited_names_are_those_of_the_engine_a08(runner: ScriptRunner) -> None:
    script = """
        var names = []; /* size */
        for (var at = $; at; at = Object.getPrototypeOf(at)) names = names.concat(Object.getOwnPropertyNames(at)); names
    """
    assert set(of_engine(runner, script, {})) == INHERITED
