"""The memory and work of a request are bounded, however the request is written."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.coordinator.definitions.workflow_defs import check_workflow_def
from conductor.coordinator.http.request import read_json
from conductor.coordinator.language.javascript_subset import ConditionError, parse
from conductor.coordinator.limits import MAX_JSON_VALUES, MAX_POLLS_KEPT
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.tasks.poll_data import PollData

MB = 1024 * 1024


@pytest.mark.parametrize("small", [b"[],", b"{},", b"0,", b'"",', b"[[]],", b'{"a":0},'])
def test_more_json_values_than_fit_into_memory_are_refused(small: bytes) -> None:
    with pytest.raises(ApiError, match="more than 1000000 values") as refused:
        read_json(b"[" + small * (MAX_JSON_VALUES + 1) + b"0]", Any)
    assert refused.value.status == 413


@pytest.mark.parametrize("text", [b"a,b,", b"[{", rb"\",", rb"\\,"])
def test_brackets_inside_a_text_are_not_counted(text: bytes) -> None:
    assert read_json(b'["' + text * (3 * MB // 2) + b'",1]', list)[1] == 1


@pytest.mark.parametrize("body", [b'["' + rb"\"," * (2 * MB), b'"' * 3 * MB, b'[",' + b"," * 3 * MB + b"\\"])
def test_texts_that_are_never_closed_are_bad_json(body: bytes) -> None:
    with pytest.raises(ApiError):
        read_json(body, list)


def test_the_oldest_polls_are_forgotten() -> None:
    polls = PollData()
    for number in range(MAX_POLLS_KEPT + 5):
        polls.note(f"t{number}", "", "w", number)
        polls.note("busy", "", "w", number)
    names = {poll["queueName"] for poll in polls.list_wire()}
    assert len(names) == MAX_POLLS_KEPT
    assert {"busy", f"t{MAX_POLLS_KEPT + 4}"} <= names
    polls.note("n" * 2000, "", "w", 1)
    assert not polls.list_wire("n" * 2000)


def test_a_refusal_names_a_hundred_problems_and_counts_the_rest() -> None:
    with pytest.raises(ApiError) as refused:
        check_workflow_def({"name": "w", "tasks": [5] * 1000})
    problems = refused.value.body()["validationErrors"]
    assert len(problems) == 101
    assert problems[-1] == {"path": "workflowDef", "message": "there are 900 more problems"}


def test_a_condition_is_read_up_to_the_bound_and_no_further() -> None:
    with pytest.raises(ConditionError, match="more than 400 words and signs"):
        parse("!" * 500 + "\x01")
