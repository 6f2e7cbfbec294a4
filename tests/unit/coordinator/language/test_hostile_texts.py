"""Hostile texts: parsing takes time in proportion to the length, and the length is limited."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.coordinator.definitions.validation import validate_definition
from conductor.coordinator.language import durations, expressions, javascript_subset
from conductor.coordinator.language.durations import parse_duration_ms, parse_until_ms
from conductor.coordinator.language.javascript_subset import ConditionError
from conductor.coordinator.language.value_sizes import TooLarge
from conductor.coordinator.limits import MAX_EXPRESSIONS
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.views import search_query


class NeverUsed:
    """Stands for a pattern that must not see the text."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a pattern was used: {name}")


class Counted:
    """A pattern that counts how often it is used."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.times = 0

    def match(self, *args: Any) -> Any:
        self.times += 1
        return self.pattern.match(*args)


# -- durations

_SPACES = st.text(" \t\n", max_size=3)
_NUMBERS = st.integers(0, 999_999_999)
_NAMES = (
    (86_400, ("d", "day", "days")),
    (3600, ("h", "hr", "hrs", "hour", "hours")),
    (60, ("m", "min", "mins", "minute", "minutes")),
    (1, ("s", "sec", "secs", "second", "seconds")),
)


@st.composite
def written_durations(draw: st.DrawFn) -> tuple[str, int]:
    """Draw a written duration and its seconds."""
    text, seconds = draw(_SPACES), 0
    for length_s, names in draw(st.lists(st.sampled_from(_NAMES), min_size=1, unique=True).map(sorted))[::-1]:
        number, name = draw(_NUMBERS), draw(st.sampled_from(names))
        name = draw(st.sampled_from((name, name.upper(), name.title())))
        text += f"{number}{draw(_SPACES)}{name}{draw(_SPACES)}"
        seconds += number * length_s
    return text, seconds


@given(written_durations())
def test_every_duration_that_can_be_written_is_read(written: tuple[str, int]) -> None:
    text, seconds = written
    assert parse_duration_ms(text) == seconds * 1000


@given(written_durations(), written_durations())
def test_units_come_once_and_the_large_ones_first(first: tuple[str, int], second: tuple[str, int]) -> None:
    ranks = [
        next(rank for rank, (_, names) in enumerate(_NAMES) if unit.lower() in names)
        for unit in re.findall("[A-Za-z]+", first[0] + second[0])
    ]
    if ranks == sorted(set(ranks)):
        assert parse_duration_ms(first[0] + second[0]) == (first[1] + second[1]) * 1000
    else:
        with pytest.raises(ValueError, match="not a duration"):
            parse_duration_ms(first[0] + second[0])


@pytest.mark.parametrize("text", [" " * 199 + "x", "1" + " " * 198 + "x", "1 " * 100, "1h" + " " * 197 + "x"])
def test_a_duration_of_spaces_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms(text)
    with pytest.raises(ValueError, match="not a time"):
        parse_until_ms(text)


def test_a_long_text_meets_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PART", "_UNTIL", "_OFFSET"):
        monkeypatch.setattr(durations, name, NeverUsed())
    for text in (" " * 1_000_000 + "x", "2025-12-31" + " " * 1_000_000, "1" * 1_000_000):
        with pytest.raises(ValueError, match="not a duration") as refused:
            parse_duration_ms(text)
        assert len(str(refused.value)) < 500
        with pytest.raises(ValueError, match="not a time"):
            parse_until_ms(text)


# -- conditions


def test_a_comment_that_is_not_closed_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(javascript_subset._TOKENS)
    monkeypatch.setattr(javascript_subset, "_TOKENS", counted)
    with pytest.raises(ConditionError, match="is not closed"):
        javascript_subset.parse("/* " * 21_000)
    assert counted.times == 1


@pytest.mark.parametrize(
    "piece", ["'", '"', "'\\", "/*", "1e", "1.", "(", "[", "!", "$.", "a ", "if(", "{", "/* */ 1 "]
)
def test_hostile_conditions_are_refused(piece: str) -> None:
    with pytest.raises(ConditionError):
        javascript_subset.parse(piece * (javascript_subset.MAX_LENGTH // len(piece)))


def test_a_long_condition_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript_subset, "_TOKENS", NeverUsed())
    with pytest.raises(ConditionError, match="more than 65536 characters"):
        javascript_subset.parse("/* " * 32_000)


def test_comments_are_read_over() -> None:
    assert javascript_subset.evaluate("/* one */ 1 + /* two\n*/ 2 // three", {}) == 3
    assert javascript_subset.evaluate(f"/*{'*' * 60_000}*/ 1", {}) == 1


# -- expressions


def flow(**parameters: Any) -> dict[str, Any]:
    return {"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a", "inputParameters": parameters}]}


@pytest.mark.parametrize(
    "text",
    ["${workflow.input.name", "Hello ${workflow.input.name, hello", "${a ${workflow.input.x}", "$$${workflow.x ${"],
)
def test_an_expression_that_is_not_closed_is_refused_at_registration(text: str) -> None:
    (problem,) = validate_definition(flow(greeting={"to": [text]}))
    assert problem.path == "tasks[0].inputParameters.greeting.to[0]"
    assert f"the ${{ in '{text}' is never closed" in problem.message


def test_an_unclosed_expression_in_the_output_of_a_workflow_is_refused() -> None:
    (problem,) = validate_definition({**flow(), "outputParameters": {"x": "${workflow.input.name"}})
    assert problem.path == "outputParameters.x"


@pytest.mark.parametrize("text", ["$${workflow.input.name", "${workflow.input.name} }", "{", "}", "$", "$$${x", "${}"])
def test_a_text_that_opens_no_expression_is_text(text: str) -> None:
    assert validate_definition(flow(x=text)) == []


@pytest.mark.parametrize("text", ["${" * 20_000, "${a" * 150 + "x" * 100_000, "$${" * 100_000, "${a['" * 20_000])
def test_hostile_expressions_are_read_in_one_go(text: str) -> None:
    assert expressions.resolve(text, expressions.lookup_in({})) is not None
    assert validate_definition(flow(x=text)) or "$${" in text


def test_a_template_with_too_many_expressions_is_refused() -> None:
    text = "${workflow.input.a}" * (MAX_EXPRESSIONS + 1)
    (problem,) = validate_definition(flow(x=text))
    assert problem.message == "there are 20001 expressions; a definition can have at most 20000"
    with pytest.raises(TooLarge, match="write at most 20000 of them"):
        expressions.resolve({"x": text}, expressions.lookup_in({}))
    assert validate_definition(flow(x=text.removesuffix("${workflow.input.a}"))) == []


def test_an_expression_has_a_length() -> None:
    (problem,) = validate_definition(flow(x="${workflow.input" + ".a" * 10_000 + "}"))
    assert "has more than 10000 characters" in problem.message
    assert len(problem.message) < 1000, "it does not repeat what was sent"


# -- searches


def values_of(query: str) -> list[tuple[str, list[Any]]]:
    return [
        search_query._build_condition(None, clause, search_query.WORKFLOW_FIELDS)  # type: ignore[arg-type]
        for clause in search_query._split_query(query)
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("status=RUNNING", [("w.status = ?", ["RUNNING"])]),
        ("status = 'RUNNING' AND version>=2", [("w.status = ?", ["RUNNING"]), ("w.version >= ?", [2])]),
        ("status IN (RUNNING, FAILED)", [("w.status IN (?, ?)", ["RUNNING", "FAILED"])]),
        (
            "status in('RUNNING',\"FAILED\") and name != x",
            [("w.status IN (?, ?)", ["RUNNING", "FAILED"]), ("w.name != ?", ["x"])],
        ),
        ("name = 'salt AND pepper'", [("w.name = ?", ["salt AND pepper"])]),
        (
            "name IN ('a AND b', 'c, d')  AND  status=FAILED",
            [("w.name IN (?, ?)", ["a AND b", "c, d"]), ("w.status = ?", ["FAILED"])],
        ),
        ("name = it's AND status = RUNNING", [("w.name = ?", ["it's"]), ("w.status = ?", ["RUNNING"])]),
        ("name = 'it's'", [("w.name = ?", ["it's"])]),
        ("name = two words", [("w.name = ?", ["two words"])]),
        ("name = a=b", [("w.name = ?", ["a=b"])]),
        ("startTime > 0 AND endTime <= 5", [("w.created_ms > ?", [0]), ("w.ended_ms <= ?", [5])]),
        ("", []),
    ],
)
def test_valid_queries_are_parsed(query: str, expected: Any) -> None:
    assert values_of(query) == expected


@pytest.mark.parametrize(
    "query", ["status", "status=", "=RUNNING", "statusIN (A)", "a AND b", "name=a AND AND name=b", "name=a\nb"]
)
def test_a_text_that_is_not_a_query_is_a_400(query: str) -> None:
    with pytest.raises(ApiError, match="Incorrectly formatted") as refused:
        values_of(query)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "query",
    [
        "name=" + " " * 9000 + "x\ny",
        "name=" + "\t AND" * 50 + " " * 9000,
        "a" * 9990,
        "name IN" * 1400,
        "name='" * 1600,
        "name=" + "'\"" * 4900,
        "name=" + " AND" * 2000 + "\ny",
    ],
)
def test_hostile_queries_are_answered_at_once(query: str) -> None:
    with pytest.raises(ApiError) as refused:
        values_of(query + " AND =")
    assert refused.value.status == 400


def test_queries_have_limits() -> None:
    with pytest.raises(ApiError, match="at most 10000 characters, not 20005"):
        values_of("name=" + "x" * 20_000)
    with pytest.raises(ApiError, match="at most 1000 values, not 1001"):
        values_of(f"name IN ({','.join('x' * 1001)})")


def test_a_query_of_a_thousand_conditions_is_a_400() -> None:
    assert len(values_of(" AND ".join(["name=x"] * 100))) == 100
    with pytest.raises(ApiError, match="at most 100 conditions, not 750") as refused:
        values_of(" AND ".join(["name=x"] * 750))
    assert refused.value.status == 400


def test_a_page_that_is_too_large_is_refused_and_says_what_to_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_query, "MAX_PAGE_BYTES", 1000)
    made = []

    def results() -> Any:
        for number in range(1000):
            made.append(number)
            yield {"input": "x" * 300}

    with pytest.raises(ApiError, match="ask for fewer at a time: size=3") as refused:
        search_query.encode_page(results())
    assert (refused.value.status, len(made)) == (400, 4)
    assert len(search_query.encode_page([{"input": "x" * 5000}])) == 1
