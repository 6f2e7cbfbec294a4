"""A schema and its converter agree: strict, they accept the same values; lenient, valid values convert."""

import json
import re
from datetime import date

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conductor.client.http.models.task import Task
from conductor.client.worker.signature import InputError, read_signature
from tests.unit.worker.nullable import ANYTHING, check_schema, inputs_near, validator
from tests.unit.worker.test_signature import CASES, make

ANNOTATIONS = sorted({case.annotation for case in CASES})
#: Types for which no schema can say what is accepted.
WITHOUT_SCHEMA = {"ModelLink", "ModelList", "Pair", "Rights", "complex"}
#: Types whose own code refuses more than a schema can say.
WITH_CODE = {"Picky"} | {a for a in ANNOTATIONS if "datetime.date" in a}  # which days a month has
DESCRIBED = [a for a in ANNOTATIONS if a not in WITHOUT_SCHEMA]


def reading(annotation):
    return read_signature(make(f"def f(x: {annotation}): return x"))


def converts(signature, given_input, *, strict):
    try:
        signature.bind(Task(input_data=given_input), strict=strict)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("annotation", ANNOTATIONS)
@pytest.mark.parametrize("strict", [False, True])
def test_a_schema_is_valid_draft_07_or_absent(annotation, strict):
    schema = reading(annotation).input_schema(strict)
    if annotation in WITHOUT_SCHEMA:
        assert schema is None
    else:
        assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
        check_schema(schema)


#: Few inputs, or many.
EFFORTS = [pytest.param(None, id="few"), pytest.param(300, marks=pytest.mark.slow, id="many")]


def for_inputs_near(schema, check, examples=None):
    """Call the check with inputs that fit the schema or just do not."""
    effort = settings(
        max_examples=examples or 10,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        database=None,
    )
    effort(given(inputs_near(schema))(check))()


def names_no_day(given_input):
    """Whether a time in it is written as one, but there is no such day: 31 April. A schema cannot tell."""
    for text in re.findall(r"\d{4}-\d\d-\d\d(?=T)", json.dumps(given_input, default=str)):
        try:
            date.fromisoformat(text)
        except ValueError:
            return True
    return False


@pytest.mark.parametrize("examples", EFFORTS)
@pytest.mark.parametrize("annotation", [a for a in DESCRIBED if a not in WITH_CODE])
def test_strict_the_schema_accepts_exactly_what_converts(annotation, examples):
    signature = reading(annotation)
    schema = signature.input_schema(strict=True)
    accepts = validator(schema).is_valid

    def check(given_input):
        if not names_no_day(given_input):
            assert accepts(given_input) == converts(signature, given_input, strict=True), given_input

    for_inputs_near(schema, check, examples)


@pytest.mark.parametrize("examples", EFFORTS)
@pytest.mark.parametrize("annotation", [a for a in DESCRIBED if a not in WITH_CODE])
def test_lenient_what_the_schema_accepts_converts(annotation, examples):
    signature = reading(annotation)
    schema = signature.input_schema(strict=False)
    accepts = validator(schema).is_valid

    def check(given_input):
        if not names_no_day(given_input):
            assert not accepts(given_input) or converts(signature, given_input, strict=False), given_input

    for_inputs_near(schema, check, examples)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(given_input=st.dictionaries(st.sampled_from(["x", "y", "z"]), ANYTHING))
def test_strict_holds_for_several_parameters_defaults_and_the_rest(given_input):
    for declaration in [
        "def f(x: int, y: Optional[str], z: list[int] = []): ...",
        "def f(x: Any, *, y: dict[str, int] = {}): ...",
        "def f(x: str, **rest: int): ...",
        "def f(x: str = '', **rest): ...",
        "def f(): ...",
    ]:
        signature = read_signature(make(declaration))
        schema = signature.input_schema(strict=True)
        assert validator(schema).is_valid(given_input) == converts(signature, given_input, strict=True), declaration


def fits(annotation, value, *, strict=True):
    return validator(reading(annotation).input_schema(strict)).is_valid({"x": value})


@pytest.mark.parametrize("case", [c for c in CASES if c.annotation in DESCRIBED], ids=lambda case: case.annotation)
def test_the_schema_agrees_with_the_table_of_inputs(case):
    assert fits(case.annotation, case.good)
    for value in (case.convertible, case.bad):
        if type(value) is not object and case.annotation not in WITH_CODE:
            assert not fits(case.annotation, value), value


def test_the_generator_reaches_both_sides():
    """A generator that only made misfits, or only fits, would prove nothing."""
    schema = reading("Order").input_schema(strict=True)
    seen = set()
    for_inputs_near(schema, lambda given_input: seen.add(validator(schema).is_valid(given_input)))
    assert seen == {True, False}


def test_a_whole_number_that_pydantic_does_not_read_converts_as_its_schema_says() -> None:
    """Found by the search above: pydantic takes no float beyond 64 bits for an int."""
    signature = reading("ModelClosed")
    assert converts(signature, {"x": {"a": -3.069551355447756e253}}, strict=False)
    assert not converts(signature, {"x": {"a": 0.5}}, strict=False)
