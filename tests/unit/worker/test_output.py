"""Return values as the output of a task, and values that cannot be one."""

import asyncio
import collections
import datetime as dt
import decimal
import enum
import fractions
import json
import math
import pathlib
import sys
import types
import uuid
from dataclasses import dataclass, field
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.client.http.models.task import Task
from conductor.client.worker.output import OutputError, encode_output, to_output
from conductor.client.worker.signature import read_signature
from tests.unit.worker import shop_models as m


def sent(value):
    return json.loads(encode_output(to_output(value)), parse_constant=pytest.fail)


@dataclass
class Box:
    held: Any = None
    hidden: int = field(init=False, default=5)


@attrs.define
class AttrsBox:
    _held: Any


class ModelBox(pydantic.BaseModel, arbitrary_types_allowed=True):
    held: Any = pydantic.Field(alias="heldInside")


class StructBox(msgspec.Struct, rename="camel", tag="box"):
    is_held: Any = None
    unset: int | msgspec.UnsetType = msgspec.UNSET


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class OldStyle(str, enum.Enum):  # noqa: UP042  # older code has them
    RED = "red"


class Odd(enum.Enum):
    PAIR = (1, 2)
    BOX = Box(1)


MOMENT = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
ID = uuid.UUID(int=1)


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ({"a": 1}, {"a": 1}),
        ({}, {}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (None, {"result": None}),
        (5, {"result": 5}),
        (0, {"result": 0}),
        (False, {"result": False}),
        ("text", {"result": "text"}),
        ([1, 2], {"result": [1, 2]}),
        ((1, 2), {"result": [1, 2]}),
        ([], {"result": []}),
        (m.Item("a", 1.5), {"sku": "a", "price": 1.5, "quantity": 1}),
        (
            m.Order(1, [m.Item("a", 1)]),
            {"id": 1, "items": [{"sku": "a", "price": 1, "quantity": 1}], "note": None, "placed": None},
        ),
        (Box(), {"held": None, "hidden": 5}),
        (m.Point(1, 2), {"x": 1, "y": 2}),
        ([m.Point(1, 2)], {"result": [[1, 2]]}),
        (m.StructOrder(1, decimal.Decimal("1.10")), {"orderId": 1, "total": "1.10"}),
        (StructBox(m.Item("a", 1)), {"type": "box", "isHeld": {"sku": "a", "price": 1, "quantity": 1}}),
        (m.Pair(1, "a"), {"result": [1, "a"]}),
        (AttrsBox(1), {"held": 1}),
        (ModelBox(heldInside=MOMENT), {"heldInside": "2024-01-01T12:00:00Z"}),
        (m.ModelList([1]), {"result": [1]}),
        ({"list": m.ModelList([1])}, {"list": [1]}),
        (m.ModelData(1), {"a": 1, "b": "b"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_output_of_a_return_value(value, output):
    assert sent(value) == output


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ({3, 1}, [1, 3]),
        (frozenset({"a"}), ["a"]),
        (m.Color.RED, "red"),
        (m.Level.HIGH, 2),
        (m.Word.YES, "yes"),
        (OldStyle.RED, "red"),
        (Odd.PAIR, [1, 2]),
        (Odd.BOX, {"held": 1, "hidden": 5}),
        (MOMENT, "2024-01-01T12:00:00Z"),
        (dt.date(2024, 1, 1), "2024-01-01"),
        (dt.time(1, 2, 3), "01:02:03"),
        (dt.timedelta(days=1, seconds=1), "P1DT1S"),
        (ID, str(ID)),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (decimal.Decimal("1.10"), "1.10"),
        (b"ab\xff", "YWL/"),
        (bytearray(b"a"), "YQ=="),
        (memoryview(b"a"), "YQ=="),
        (2**70, 2**70),
        (-(2**70), -(2**70)),
        (Text("a"), "a"),
        (Number(5), 5),
        (Real(1.5), 1.5),
        (fractions.Fraction(1, 2), 0.5),
        (collections.deque([1, Box(2)]), [1, {"held": 2, "hidden": 5}]),
        (range(3), [0, 1, 2]),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.UserDict(a=1), {"a": 1}),
        (AttrsBox({1}), {"held": [1]}),
        (ModelBox(heldInside=decimal.Decimal("1.5")), {"heldInside": "1.5"}),
        (
            {7: "a", 2.5: "b", None: "c", True: "d", ID: "e", m.Color.RED: "f", dt.date(2024, 1, 1): "g"},
            {"7": "a", "2.5": "b", "null": "c", "true": "d", str(ID): "e", "red": "f", "2024-01-01": "g"},
        ),
        ({Number(1): "a", Text("b"): "c", False: 1}, {"1": "a", "b": "c", "false": 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_inside_an_output(value, wire):
    assert sent({"v": value}) == {"v": wire}
    assert sent([value]) == {"result": [wire]}
    # The slow path, which looks for what cannot be sent, must not see another value than the fast one.
    assert sent({"v": value, "slow": {None: None}}) == {"v": wire, "slow": {"null": None}}


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, Real("nan"), decimal.Decimal("NaN"), decimal.Decimal("-Infinity")], ids=str
)
@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda bad: bad, "output.result"),
        (lambda bad: {"a": [1, {"b": bad}]}, "output.a[1].b"),
        (lambda bad: {"a b": (1, bad)}, "output['a b'][1]"),
        (lambda bad: {"a": None, "b": Box([bad])}, "output.b.held[0]"),
        (lambda bad: Box(AttrsBox(bad)), "output.held.held"),
        (lambda bad: StructBox({"x": bad}), "output.isHeld.x"),
        (lambda bad: {"x": collections.deque([bad])}, "output.x[0]"),
        (lambda bad: {1: bad}, "output[1]"),
    ],
    ids=["bare", "nested", "tuple", "dataclass", "attrs", "struct", "deque", "number key"],
)  # fmt: skip
def test_p09_a_number_that_is_not_finite_is_named(bad, wrap, path):
    with pytest.raises(OutputError) as caught:
        encode_output(to_output(wrap(bad)))
    assert caught.value.path == path
    assert "cannot be sent as JSON" in caught.value.message


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"items": [1, 2, 3, Box(sys.__stdout__)]}, "output.items[3].held",
         "object of type _io.TextIOWrapper cannot be sent as JSON"),
        (object(), "output.result", "object of type object cannot be sent as JSON"),
        (Box, "output.result", "object of type type cannot be sent as JSON"),
        ((i for i in [1]), "output.result", "object of type generator cannot be sent as JSON"),
        ({"a": 1j}, "output.a", "object of type complex cannot be sent as JSON"),
        ({"a": {(1, 2): 3}}, "output.a", "a key of type tuple cannot be sent as JSON"),
        ({"a": "\ud800"}, "output.a", "text with a lone surrogate at 0 cannot be sent as JSON"),
        ({"a": {"b\ud800": 1}}, "output.a['b\\ud800']", "text with a lone surrogate at 1 cannot be sent as JSON"),
        (ModelBox(heldInside=object()), "output.heldInside", "object of type object cannot be sent as JSON"),
        ({"m": [ModelBox(heldInside=object())]}, "output.m[0].heldInside",
         "object of type object cannot be sent as JSON"),
    ],
)  # fmt: skip
def test_p09_a_value_that_cannot_be_sent_is_named(value, path, message):
    with pytest.raises(OutputError) as caught:
        encode_output(to_output(value))
    assert (caught.value.path, caught.value.message) == (path, message)
    assert str(caught.value) == f"{path}: {message}"


def test_p09_a_value_that_contains_itself_is_named_and_does_not_crash():
    around: dict[str, Any] = {"a": []}
    around["a"].append(around)
    box = Box()
    box.held = [box]
    for value, path in [(around, "output.a[0]"), (box, "output.held[0].held")]:
        with pytest.raises(OutputError) as caught:
            encode_output(to_output(value))
        assert "refers to itself" in caught.value.message
        assert caught.value.path.startswith(path)


def test_p09_a_value_that_is_nested_too_deeply_does_not_crash():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(OutputError, match="too deeply"):
        encode_output(to_output(deep))


def test_a_wide_and_long_value_is_not_deep():
    wide = {"rows": [{"cells": [[n, str(n)] for n in range(50)]} for _ in range(50)]}
    assert sent(wide) == wide


def test_the_same_object_twice_is_not_a_circle():
    shared = [None, {"a": None}]
    assert sent({"a": shared, "b": shared}) == {"a": shared, "b": shared}
    assert sent({"a": Box(1), "b": {None: 1}, "c": [shared, shared]})["c"] == [shared, shared]


class RudeModel(pydantic.BaseModel):
    a: int = 1

    @pydantic.model_serializer
    def refuse(self):
        raise ValueError("not today")


def test_p09_a_serializer_that_raises_is_an_output_error():
    for value, path in [(RudeModel(), "output"), ({"x": RudeModel()}, "output.x")]:
        with pytest.raises(OutputError, match="not today") as caught:
            encode_output(to_output(value))
        assert caught.value.path == path


@pytest.mark.parametrize(
    "value",
    [
        m.Order(1, [m.Item("a", 1.5)], None, MOMENT),
        Box(None),
        {1, 2},
        m.Color.RED,
        None,
        [m.Color.BLUE, None],
        {"none": None, "decimal": decimal.Decimal("0.10")},
    ],
    ids=repr,
)
def test_p26_sync_and_async_give_the_same_output(value):
    from conductor.client.worker.worker import Worker

    def plain():
        return value

    async def coroutine():
        return value

    outputs = [encode_output(Worker("t", f).execute(Task(task_id="1")).output_data) for f in (plain, coroutine)]
    assert outputs[0] == outputs[1] == encode_output(to_output(value))


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_comes_back_exactly(number):
    def f(x: decimal.Decimal): ...

    back = json.loads(encode_output({"x": number}))
    assert read_signature(f).bind(Task(input_data=back))[1]["x"].as_tuple() == number.as_tuple()


@pytest.mark.parametrize(
    "value",
    [MOMENT, dt.date(2024, 2, 29), dt.time(1, 2, 3, 4), dt.timedelta(days=-1, microseconds=5), ID, b"\x00\xff",
     m.Color.RED, m.Level.HIGH, m.Order(1, [m.Item("a", 1.5)], "n", MOMENT), m.Point(1, 2), m.StructOrder(1),
     m.AttrsOrder(1, "x"), m.ModelOrder(orderId=1, at=MOMENT), m.ModelData(2), m.Circle(1.0), m.Pair(1, "a"),
     m.Tree(1, [m.Tree(2)])],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.parametrize("strict", [False, True])
def test_a_worker_receives_the_value_that_another_returned(value, strict):
    def f(x): ...

    f.__annotations__["x"] = type(value)
    back = json.loads(encode_output({"x": value}))
    assert read_signature(f).bind(Task(input_data=back), strict=strict)[1]["x"] == value


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON))
def test_json_is_sent_as_it_is(output):
    assert json.loads(encode_output(to_output(output))) == output


MAYBE_FINITE = st.recursive(
    st.none() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def is_finite(value):
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    return (
        all(map(is_finite, value)) if isinstance(value, list) else not isinstance(value, float) or math.isfinite(value)
    )


@given(st.dictionaries(st.text(), MAYBE_FINITE))
def test_p09_an_output_is_sent_exactly_if_all_its_numbers_are_finite(output):
    try:
        raw = encode_output(output)
    except OutputError:
        assert not is_finite(output)
    else:
        assert json.loads(raw) == output


def test_an_output_error_survives_a_process_boundary():
    import pickle

    error = pickle.loads(pickle.dumps(OutputError("output.a", "cannot")))
    assert (error.path, error.message, str(error)) == ("output.a", "cannot", "output.a: cannot")


def test_outputs_from_many_tasks_at_once_do_not_disturb_each_other():
    async def one(i):
        return sent({"i": i, "none": None})

    async def all_of_them():
        return await asyncio.gather(*(one(i) for i in range(100)))

    assert [output["i"] for output in asyncio.run(all_of_them())] == list(range(100))


def test_a_coroutine_in_the_output_is_an_error_that_names_await() -> None:
    async def load() -> int:
        return 1

    pending = load()
    with pytest.raises(OutputError, match="output.n: object of type coroutine cannot be sent as JSON: write `await`"):
        encode_output({"n": pending})
    pending.close()
