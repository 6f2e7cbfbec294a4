"""The values of a worker's parameters: annotation × input × mode × kind of function × stored form of annotations."""

import base64
import collections
import collections.abc
import datetime as dt
import decimal
import functools
import inspect
import itertools
import logging
import pathlib
import subprocess
import sys
import types
import typing
import uuid
from dataclasses import dataclass
from datetime import UTC

import pytest

from conductor.client.http.models.task import Task
from conductor.client.worker.signature import InputError, read_signature
from tests.unit.worker import shop_models as m

NAMES = {
    **vars(typing),
    **{name: getattr(m, name) for name in m.__all__},
    "abc": collections.abc,
    "collections": collections,
    "datetime": dt,
    "decimal": decimal,
    "pathlib": pathlib,
    "uuid": uuid,
}
NOTHING = object()
SAME = object()


@dataclass
class Case:
    """An annotation with: JSON of exactly that type and its value; JSON that converts; JSON that does not."""

    annotation: str
    good: object
    value: object = SAME
    convertible: object = NOTHING
    converted: object = SAME
    bad: object = NOTHING
    path: str = "x"
    optional: bool = False

    def __post_init__(self):
        self.value = self.good if self.value is SAME else self.value
        self.converted = self.value if self.converted is SAME else self.converted


D = dt.datetime
ID = "6f1a8a34-5d1e-4c55-9b7e-0e6a3f2f9c11"
ITEM = {"sku": "a", "price": 1.5, "quantity": 2}
CASES = [
    # text and numbers
    Case("str", "a", convertible=5, converted="5", bad=["a"]),
    Case("str", "", convertible=True, converted="true", bad={}),
    Case("int", 5, convertible="5", bad="abc"),
    Case("int", 5.0, value=5, convertible=" 7 ", converted=7, bad=5.5),
    Case("int", -3, convertible="5.0", converted=5, bad=True),
    Case("int", 2**70, convertible=str(2**70), bad=[]),
    Case("float", 1.5, convertible="1.5", bad="abc"),
    Case("float", 2, value=2.0, convertible="2e0", bad="nan"),
    Case("float", 0.0, convertible="0", bad=False),
    Case("bool", True, convertible="yes", bad="maybe"),
    Case("bool", False, convertible=0, bad=2),
    Case("Any", {"a": [1, None]}, optional=True),
    Case("object", [1], optional=True),
    Case("None", None, bad=0, optional=True),
    Case("LiteralString", "a", convertible=5, converted="5", bad=[]),
    Case("pathlib.Path", "a/b", value=pathlib.Path("a/b"), bad=5),
    Case("OrderId", 5, convertible="5", bad="x"),
    Case("complex", NOTHING, bad=1),
    # bare and generic containers
    Case("list", [1, "a", None], bad={"a": 1}),
    Case("dict", {"a": 1}, bad=[1]),
    Case("set", [1, "a", 1], value={1, "a"}, bad=[[1]], path="x[0]"),
    Case("tuple", [1, "a"], value=(1, "a"), bad="ab"),
    Case("List", [1], bad="a"),
    Case("Dict", {"a": 1}, bad="a"),
    Case("Dict[str, Any]", {"a": {"b": [1]}}, bad=5),
    Case("List[int]", [1, 2], convertible=["1", 2], converted=[1, 2], bad=[1, "b"], path="x[1]"),
    Case("list[list[int]]", [[1], []], convertible=[["1"], []], bad=[[1], [2, "b"]], path="x[1][1]"),
    Case("list[Optional[int]]", [1, None], convertible=["1", None], bad=["b"], path="x[0]"),
    Case("set[int]", [1, 2, 2], value={1, 2}, convertible=["1", 2], bad=[None], path="x[0]"),
    Case(
        "frozenset[str]", ["a"], value=frozenset("a"), convertible=[1], converted=frozenset("1"), bad=[[]], path="x[0]"
    ),
    Case("tuple[int, str]", [1, "a"], value=(1, "a"), convertible=["1", "a"], bad=[1]),
    Case("tuple[int, ...]", [1, 2], value=(1, 2), convertible=["1", "2"], bad=["b"], path="x[0]"),
    Case("tuple[()]", [], value=(), bad=[1]),
    Case("Sequence[int]", [1], convertible=["1"], bad=["b"], path="x[0]"),
    Case("Iterable[str]", ["a"], convertible=[1], converted=["1"], bad="abc"),
    Case("collections.deque[int]", [1], value=collections.deque([1]), convertible=["1"], bad=5),
    Case("dict[str, int]", {"a": 1}, convertible={"a": "1"}, bad={"a b": "c"}, path="x['a b']"),
    Case("dict[int, str]", {"1": "a"}, value={1: "a"}, convertible={"01": "a"}, bad={"a": "a"}, path="x.a"),
    Case(
        "dict[Color, int]", {"red": 1}, value={m.Color.RED: 1}, convertible={"RED": 1}, bad={"green": 1}, path="x.green"
    ),
    Case("dict[Level, int]", {"1": 1}, value={m.Level.LOW: 1}, convertible={"LOW": 1}, bad={"3": 1}, path="x['3']"),
    Case("dict[Literal['a', 5], int]", {"5": 1}, value={5: 1}, bad={"b": 1}, path="x.b"),
    Case(
        "dict[uuid.UUID, int]",
        {ID: 1},
        value={uuid.UUID(ID): 1},
        convertible={ID.replace("-", ""): 1},
        bad={"a": 1},
        path="x.a",
    ),
    Case("Mapping[str, list[float]]", {"a": [1]}, convertible={"a": ["1"]}, bad={"a": [1, "b"]}, path="x.a[1]"),
    Case(
        "collections.OrderedDict[str, int]",
        {"a": 1},
        value=collections.OrderedDict(a=1),
        convertible={"a": "1"},
        bad=[],
    ),
    # unions
    Case("Optional[int]", 5, convertible="5", bad="abc", optional=True),
    Case("Optional[int]", None, bad=[], optional=True),
    Case("int | None", 5, convertible="5", bad="abc", optional=True),
    Case("Union[int, str]", 5, bad=[]),
    Case("Union[int, str]", "5", bad={}),
    Case("Union[int, str, None]", None, bad=[], optional=True),
    Case("Union[int, list[int]]", [1], convertible=["1"], bad=[1, "b"], path="x[1]"),
    Case("Union[Item, Base]", {"a": 1}, value=m.Base(1), convertible={"a": "1"}, bad={"sku": "s"}, path="x.price"),
    Case("Optional[Item]", ITEM, value=m.Item("a", 1.5, 2), convertible={**ITEM, "price": "1.5"}, bad=5, optional=True),
    Case("Union[datetime.datetime, str]", "soon", bad=[]),
    # values of a kind
    Case("Color", "red", value=m.Color.RED, convertible="RED", bad="green"),
    Case("Level", 1, value=m.Level.LOW, convertible="1", bad=3),
    Case("Level", 2.0, value=m.Level.HIGH, convertible="HIGH", bad=True),
    Case("Word", "yes", value=m.Word.YES, convertible="YES", bad=["yes"]),
    Case("Rights", 3, value=m.Rights.READ | m.Rights.WRITE, bad="x"),
    Case("Literal['a', 'b']", "a", bad="c"),
    Case("Size", 5, convertible="5", bad="L"),
    Case("Literal[True, 2]", True, convertible="2", converted=2, bad=1),
    Case(
        "datetime.datetime",
        "2024-02-29T12:00:00Z",
        value=D(2024, 2, 29, 12, tzinfo=UTC),
        convertible=1_709_208_000_000,
        bad="2023-02-29T12:00:00Z",
    ),
    Case("datetime.datetime", "2024-01-01T00:00:00", value=D(2024, 1, 1), convertible="2024-01-01 00:00", bad="today"),
    Case(
        "datetime.datetime",
        "2024-01-01T00:00:00.123456+02:00",
        value=D.fromisoformat("2024-01-01T00:00:00.123456+02:00"),
        convertible=1704067200,
        converted=D(2024, 1, 1, tzinfo=UTC),
        bad=True,
    ),
    Case(
        "datetime.date",
        "2024-02-29",
        value=dt.date(2024, 2, 29),
        convertible="2024-02-29T00:00:00",
        bad="2023-02-29",
    ),
    Case(
        "datetime.date",
        "0400-02-29",
        value=dt.date(400, 2, 29),
        convertible="04000229",
        bad="2024-01-01T10:00:00",
    ),
    Case("datetime.time", "10:20:30", value=dt.time(10, 20, 30), convertible="10:20:30 ", bad="25:00:00"),
    Case("datetime.timedelta", "P1DT2H", value=dt.timedelta(days=1, hours=2), convertible=93600, bad="P"),
    Case("datetime.timedelta", "-PT0.5S", value=dt.timedelta(seconds=-0.5), convertible=-0.5, bad="1 day"),
    Case("uuid.UUID", ID, value=uuid.UUID(ID), convertible="{" + ID.upper() + "}", bad="x"),
    Case("decimal.Decimal", "1.10", value=decimal.Decimal("1.10"), convertible=" 1.10", bad="abc"),
    Case(
        "decimal.Decimal",
        0.1,
        value=decimal.Decimal("0.1"),
        convertible="1_0.0",
        converted=decimal.Decimal(10),
        bad=True,
    ),
    Case(
        "decimal.Decimal",
        5,
        value=decimal.Decimal(5),
        convertible="1e99999",
        converted=decimal.Decimal("1e99999"),
        bad=[],
    ),
    Case("bytes", base64.b64encode(b"ab\xff").decode(), value=b"ab\xff", convertible="YWL_", bad="not base64!"),
    Case("bytes", "", value=b"", convertible="YQ", converted=b"a", bad=5),
    Case("bytearray", "YQ==", value=bytearray(b"a"), convertible="YQ", bad=[1]),
    # classes made of fields
    Case(
        "Item",
        ITEM,
        value=m.Item("a", 1.5, 2),
        convertible={**ITEM, "price": "1.5", "more": 1},
        bad={**ITEM, "price": "abc"},
        path="x.price",
    ),
    Case(
        "Item",
        {"sku": "a", "price": 1},
        value=m.Item("a", 1.0),
        convertible={"sku": 1, "price": 1, "quantity": None},
        converted=m.Item("1", 1.0),
        bad={"sku": "a"},
        path="x.price",
    ),
    Case(
        "Order",
        {"id": 1, "items": [ITEM]},
        value=m.Order(1, [m.Item("a", 1.5, 2)]),
        convertible={"id": "1", "items": [ITEM]},
        bad={"id": 1, "items": [ITEM, ITEM, {**ITEM, "price": "abc"}]},
        path="x.items[2].price",
    ),
    Case(
        "OptionalWithoutDefault",
        {"b": 1},
        value=m.OptionalWithoutDefault(None, 1),
        convertible={"b": "1"},
        bad={"a": 1},
        path="x.b",
    ),
    Case("Frozen", {"a": 1}, value=m.Frozen(1), convertible={"a": "1"}, bad={"a": {}}, path="x.a"),
    Case("WithFactory", {}, value=m.WithFactory([]), convertible={"tags": None}, bad={"tags": 5}, path="x.tags"),
    Case("WithHidden", {"a": 1}, value=m.WithHidden(1), convertible={"a": 1, "total": 9}, bad={}, path="x.a"),
    Case(
        "WithInitVar",
        {"a": 2, "scale": 3},
        value=m.WithInitVar(2, 3),
        convertible={"a": 2, "scale": "3"},
        bad={"a": 2},
        path="x.scale",
    ),
    Case("Picky", {"a": 1}, value=m.Picky(1), convertible={"a": "1"}, bad={"a": -1}),
    Case(
        "Tree",
        {"value": 1, "children": [{"value": 2}]},
        value=m.Tree(1, [m.Tree(2)]),
        convertible={"value": 1, "children": [{"value": "2"}]},
        bad={"value": 1, "children": [{"value": 2, "parent": {}}]},
        path="x.children[0].parent.value",
    ),
    Case(
        "Page[int]",
        {"items": [1]},
        value=m.Page([1]),
        convertible={"items": ["1"]},
        bad={"items": ["b"]},
        path="x.items[0]",
    ),
    Case(
        "Page[Item]",
        {"items": [ITEM]},
        value=m.Page([m.Item("a", 1.5, 2)]),
        convertible={"items": [{**ITEM, "z": 1}]},
        bad={"items": [1]},
        path="x.items[0]",
    ),
    Case(
        "Derived",
        {"a": 1, "b": "c"},
        value=m.Derived(1, "c"),
        convertible={"a": "1", "b": "c"},
        bad={"b": "c"},
        path="x.a",
    ),
    Case(
        "Described",
        {"amount": 1},
        value=m.Described(amount=1),
        convertible={"amount": "1"},
        bad={"amount": 0},
        path="x.amount",
    ),
    Case("Point", [1, 2], value=m.Point(1, 2), convertible=["1", 2], bad=[1]),
    Case("Point", {"x": 1}, value=m.Point(1), convertible={"x": "1"}, bad={"x": "b"}, path="x.x"),
    Case("Untyped", [1, "a"], value=m.Untyped(1, "a"), bad=[1]),
    Case("Movie", {"title": "a"}, convertible={"title": 5}, converted={"title": "5"}, bad={"year": 1}, path="x.title"),
    Case(
        "Loose",
        {"title": "a", "year": 1},
        convertible={"title": "a", "year": "1"},
        bad={"title": "a", "year": "b"},
        path="x.year",
    ),
    Case(
        "StructOrder",
        {"orderId": 1, "total": "1.5"},
        value=m.StructOrder(1, decimal.Decimal("1.5")),
        convertible={"orderId": "1", "total": 1.5},
        bad={"orderId": 1, "total": "b"},
        path="x.total",
    ),
    Case("StructClosed", {"a": 1}, value=m.StructClosed(1), convertible={"a": "1"}, bad={"a": 1, "b": 2}, path="x.b"),
    Case(
        "Union[Circle, Square]",
        {"type": "square", "side": 1},
        value=m.Square(1.0),
        convertible={"type": "square", "side": "1"},
        bad={"type": "circle", "r": "b"},
        path="x.r",
    ),
    Case("Pair", [1, "a"], value=m.Pair(1, "a"), convertible=["1", "a"], bad=["b", "a"]),
    Case(
        "AttrsOrder",
        {"id": 1, "secret": "t"},
        value=m.AttrsOrder(1, "t"),
        convertible={"id": "1", "secret": "t"},
        bad={"secret": "t"},
        path="x.id",
    ),
    Case(
        "ModelItem",
        {"sku": "a", "price": 1.5},
        value=m.ModelItem(sku="a", price=1.5),
        convertible={"sku": "a", "price": "1.5"},
        bad={"sku": "a", "price": 0},
        path="x.price",
    ),
    Case(
        "ModelOrder",
        {"orderId": 1, "items": [{"sku": "a", "price": 1}]},
        value=m.ModelOrder(orderId=1, items=[m.ModelItem(sku="a", price=1)]),
        convertible={"orderId": "1", "items": [{"sku": "a", "price": 1}]},
        bad={"orderId": 1, "items": [{"sku": "a", "price": "b"}]},
        path="x.items[0].price",
    ),
    Case(
        "Optional[ModelOrder]",
        {"orderId": 1, "at": "2024-01-01T00:00:00Z"},
        value=m.ModelOrder(orderId=1, at=D(2024, 1, 1, tzinfo=UTC)),
        convertible={"orderId": "1", "at": 1704067200},
        bad={},
        path="x.orderId",
        optional=True,
    ),
    Case("ModelClosed", {"a": 1}, value=m.ModelClosed(a=1), convertible={"a": "1"}, bad={"a": 1, "b": 2}, path="x.b"),
    Case(
        "ModelLink",
        {"url": "https://a.example/"},
        value=m.ModelLink(url="https://a.example/"),  # type: ignore[arg-type]
        bad={"url": "nope"},
        path="x.url",
    ),
    Case("ModelList", [1, 2], value=m.ModelList([1, 2]), convertible=["1", 2], bad=["b"], path="x[0]"),
    Case("ModelData", {"a": 1}, value=m.ModelData(1), convertible={"a": "1"}, bad={"a": "b"}, path="x.a"),
    Case(
        "list[ModelItem]",
        [{"sku": "a", "price": 1}],
        value=[m.ModelItem(sku="a", price=1)],
        convertible=[{"sku": "a", "price": "1"}],
        bad=[{"sku": "a"}],
        path="x[0].price",
    ),
    Case(
        "IntPage",
        {"items": [1]},
        value=m.IntPage([1]),
        convertible={"items": ["1"]},
        bad={"items": ["b"]},
        path="x.items[0]",
    ),
    # constraints
    Case("Positive", 1, convertible="1", bad=0),
    Case("Percent", 50, value=50.0, convertible="50", bad=100.5),
    Case("Short", "abc", convertible=12, converted="12", bad="abcd"),
    Case("Code", "AB", bad="ab"),
    Case("Pairs", [1, 2], convertible=["1", 2], bad=[1]),
    Case("Even", 4, convertible="4", bad=3),
    Case("Optional[Positive]", None, bad=0, optional=True),
    Case("list[Annotated[int, 'a count']]", [1], convertible=["1"], bad=["b"], path="x[0]"),
]


def make(declaration, *, future=False):
    """A function from source, its annotations kept as objects or as strings."""
    source = ("from __future__ import annotations\n" if future else "") + declaration
    module = types.ModuleType("written_for_the_test")
    module.__dict__.update(NAMES)
    exec(compile(source, "written", "exec", dont_inherit=True), module.__dict__)
    return module.__dict__["f"]


@functools.cache
def takers(annotation):
    """Return a worker as `def` and as `async def`, with annotations as objects and as strings."""
    kinds = itertools.product(("def", "async def"), (False, True))
    return [make(f"{kind} f(x: {annotation}):\n    return x", future=future) for kind, future in kinds]


def received(function, given, *, strict):
    args, kwargs = read_signature(function).bind(Task(input_data=given), strict=strict)
    result = function(*args, **kwargs)
    if not inspect.iscoroutine(result):
        return result
    with pytest.raises(StopIteration) as ended:  # it awaits nothing, so that one step is its whole life
        result.send(None)
    return ended.value.value


def same(got, expected):
    return got == expected and type(got) is type(expected)


def cases(has="annotation"):
    """The cases that have such an input."""
    chosen = [(i, case) for i, case in enumerate(CASES) if getattr(case, has) is not NOTHING]
    return pytest.mark.parametrize("case", [case for _, case in chosen], ids=[f"{i}-{c.annotation}" for i, c in chosen])


@cases(has="good")
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_good_input_becomes_the_value(case, strict):
    for function in takers(case.annotation):
        assert same(received(function, {"x": case.good}, strict=strict), case.value)


@cases(has="convertible")
def test_convertible_input_is_converted_unless_strict(case):
    for function in takers(case.annotation):
        got = received(function, {"x": case.convertible}, strict=False)
        assert same(got, case.converted)
        with pytest.raises(InputError, match="^x"):
            received(function, {"x": case.convertible}, strict=True)


@cases(has="bad")
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_bad_input_is_refused_with_its_path(case, strict):
    for function in takers(case.annotation):
        with pytest.raises(InputError) as caught:
            received(function, {"x": case.bad}, strict=strict)
        assert caught.value.path == case.path
        assert str(caught.value).startswith(f"{case.path}: ")


@cases()
def test_missing_input_is_none_or_strictly_an_error(case):
    for function in takers(case.annotation):
        assert received(function, {}, strict=False) is None
        if case.optional:
            assert received(function, {}, strict=True) is None
        else:
            with pytest.raises(InputError, match="^x: is missing"):
                received(function, {}, strict=True)


@cases()
def test_null_means_not_given_where_null_is_no_value(case):
    function = make(f"def f(x: {case.annotation} = 'default'): return x")
    expected = None if case.optional else "default"
    args, kwargs = read_signature(function).bind(Task(input_data={"x": None}))
    assert function(*args, **kwargs) == expected


def test_the_table_is_large_enough():
    assert len({case.annotation for case in CASES}) >= 60


def bind(declaration, given, *, strict=False, future=False):
    function = make(declaration, future=future)
    task = Task(input_data=given)
    args, kwargs = read_signature(function).bind(task, strict=strict)
    return task, function(*args, **kwargs)


# -- P06 and P07, by name --------------------------------------------------------------------------------------------


def test_p06_postponed_annotations_are_read():
    _, got = bind(
        "def f(order: Order, n: int): return order, n", {"order": {"id": "1", "items": []}, "n": "2"}, future=True
    )
    assert got == (m.Order(1, []), 2)


@pytest.mark.parametrize(
    ("annotation", "given", "expected"),
    [
        ("Dict[str, Any]", {"a": 1}, {"a": 1}),
        ("Any", [1], [1]),
        ("list", [1], [1]),
        ("Color", "red", m.Color.RED),
        ("uuid.UUID", ID, uuid.UUID(ID)),
        ("Literal['a']", "a", "a"),
        ("Movie", {"title": "a"}, {"title": "a"}),
        ("ModelItem", {"sku": "a", "price": 1}, m.ModelItem(sku="a", price=1)),
        ("Optional[Item]", {"sku": "a", "price": 1}, m.Item("a", 1)),
        ("decimal.Decimal", "1.10", decimal.Decimal("1.10")),
        ("bytes", "YWI=", b"ab"),
    ],
)
def test_p07_types_that_used_to_fail(annotation, given, expected):
    assert bind(f"def f(x: {annotation}): return x", {"x": given})[1] == expected


def test_p07_an_unannotated_parameter_gets_the_raw_value_and_none_when_missing():
    assert bind("def f(a, b): return a, b", {"a": {"k": 1}})[1] == ({"k": 1}, None)


# -- which parameter receives the task -------------------------------------------------------------------------------


@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize(
    "declaration",
    [
        "from conductor.client.http.models.task import Task\ndef f(task: Task): return task",
        "from conductor.client.http.models.task import Task\ndef f(t: 'Task'): return t",
        "from conductor.client.http.models.task import Task\ndef f(t: Optional[Task]): return t",
        "from conductor.client.http.models.task import Task\ndef f(t: Task | None = None): return t",
        "import conductor.client.http.models.task as models\ndef f(t: 'models.Task'): return t",
        "def f(task): return task",
        "def f(anything): return anything",
        "def f(task, **rest): return task",
        "def f(task, /): return task",
    ],
)
def test_a_parameter_that_receives_the_task(declaration, future):
    task, got = bind(declaration, {"task": 1, "t": 2, "anything": 3}, future=future)
    assert got is task


def test_a_task_that_only_type_checkers_know():
    function = make("def f(job: 'Task'): return job")
    task = Task(input_data={})
    assert read_signature(function).bind(task) == ((), {"job": task})


def test_a_class_of_the_users_that_is_called_task_is_not_the_task():
    declaration = (
        "import dataclasses\n@dataclasses.dataclass\nclass Task:\n    a: int\ndef f(task: Task): return task.a"
    )
    assert bind(declaration, {"task": {"a": "1"}})[1] == 1


def test_the_task_beside_other_parameters_wherever_it_stands():
    declaration = (
        "from conductor.client.http.models.task import Task\n"
        "def f(a: int, task: Task, /, b: str = 'b'): return a, task, b"
    )
    task, got = bind(declaration, {"a": "1", "x": 9})
    assert got == (1, task, "b")
    assert bind(declaration, {"a": 1, "x": 9}, strict=True)[1][0] == 1


def test_a_single_parameter_with_a_default_or_an_annotation_is_read_by_name():
    assert bind("def f(x=5): return x", {})[1] == 5
    assert bind("def f(x=5): return x", {"x": 6})[1] == 6
    assert bind("def f(x: Any): return x", {"x": 6})[1] == 6


def test_a_function_without_parameters_gets_nothing():
    assert bind("def f(): return 'ok'", {"a": 1})[1] == "ok"
    with pytest.raises(InputError, match="^a: is not a parameter of f"):
        bind("def f(): return 'ok'", {"a": 1}, strict=True)


# -- kinds of parameters and of callables ----------------------------------------------------------------------------


def test_the_rest_goes_to_keyword_arguments():
    assert bind("def f(a: int, **rest): return a, rest", {"a": "1", "b": "2"})[1] == (1, {"b": "2"})
    assert bind("def f(a: int, **rest: int): return rest", {"a": 1, "b": "2"})[1] == {"b": 2}
    assert bind("def f(**rest): return rest", {"b": 2}, strict=True)[1] == {"b": 2}
    with pytest.raises(InputError, match="^b: expected int"):
        bind("def f(**rest: int): return rest", {"b": "x"})


def test_positional_only_keyword_only_and_variable_parameters():
    declaration = "def f(a: int, b: int = 2, /, c: int = 3, *more, d: int, e: int = 5): return a, b, c, more, d, e"
    assert bind(declaration, {"a": 1, "d": 4})[1] == (1, 2, 3, (), 4, 5)
    assert bind(declaration, {"b": 9, "e": 8})[1] == (None, 9, 3, (), None, 8)


def test_strict_refuses_unknown_input():
    with pytest.raises(InputError, match=r"^\['b c'\]: is not a parameter of f"):
        bind("def f(a: int): return a", {"a": 1, "b c": 2}, strict=True)


def double(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Methods:
    def by_instance(self, order: "m.Item", n: int):
        return order, n

    @classmethod
    def by_class(cls, order: "m.Item", n: int):
        return order, n

    @staticmethod
    def by_nobody(order: "m.Item", n: int):
        return order, n

    def __call__(self, order: "m.Item", n: int):
        return order, n


def three(order: "m.Item", n: int, fixed: str = ""):
    return order, n


@pytest.mark.parametrize(
    "function",
    [
        double(Methods.by_nobody),
        double(double(three)),
        functools.partial(three, fixed="set"),
        functools.partial(functools.partial(three), fixed="set"),
        double(functools.partial(three, fixed="set")),
        Methods().by_instance,
        Methods.by_class,
        Methods.by_nobody,
        Methods(),
        functools.lru_cache(three),
    ],
    ids=lambda function: getattr(function, "__qualname__", type(function).__name__),
)
def test_the_signature_of_a_wrapped_function_is_found(function):
    args, kwargs = read_signature(function).bind(Task(input_data={"order": {"sku": "a", "price": "2"}, "n": "5"}))
    assert kwargs == {"order": m.Item("a", 2.0), "n": 5}
    assert args == ()


def test_arguments_of_a_partial_are_not_read_from_the_input():
    function = functools.partial(three, n=7, fixed="set")
    _, kwargs = read_signature(function).bind(
        Task(input_data={"order": {"sku": "a", "price": 2}, "n": 5, "fixed": "x"})
    )
    assert function(**kwargs) == (m.Item("a", 2.0), 7)
    positional = functools.partial(three, m.Item("b", 1.0))
    assert read_signature(positional).bind(Task(input_data={"n": 5, "order": 1})) == ((), {"n": 5})


def test_local_types_in_strings_are_found_while_their_function_runs():
    namespace = {"read_signature": read_signature, "Task": Task}
    source = """
from __future__ import annotations
from dataclasses import dataclass

def outer():
    @dataclass
    class Local:
        a: int
        next: Local | None = None

    def f(x: Local):
        return x

    read_signature(f)
    return f, Local
"""
    exec(compile(source, "local", "exec", dont_inherit=True), namespace)
    function, local = namespace["outer"]()  # type: ignore[operator]
    args, kwargs = read_signature(function).bind(Task(input_data={"x": {"a": "1", "next": {"a": 2}}}))
    assert kwargs["x"] == local(1, local(2))


@pytest.mark.skipif(sys.version_info < (3, 14), reason="before Python 3.14 such a function cannot be defined")
def test_a_name_that_is_not_there_does_not_spoil_the_others():
    """Without a string around it, and imported for type checkers only: the others are converted."""
    function = make("def f(x: Later, n: int, y: list[Later] | None = None): return x")
    args, kwargs = read_signature(function).bind(Task(input_data={"x": {"a": 1}, "n": "5"}))
    assert kwargs == {"x": {"a": 1}, "n": 5}


def test_a_type_that_is_defined_later_is_found_at_the_next_reading():
    function = make("def f(x: 'Later'): return x")
    assert read_signature(function).bind(Task(input_data={"x": "1"})) == ((), {"x": "1"})
    function.__globals__["Later"] = int
    assert read_signature(function).bind(Task(input_data={"x": "1"})) == ((), {"x": 1})


def test_an_annotation_that_cannot_be_resolved_does_not_affect_the_others():
    declaration = "def f(x: 'Nowhere', y: 'int', z: 'broken['): return x, y, z"
    assert bind(declaration, {"x": {"a": 1}, "y": "5", "z": 1})[1] == ({"a": 1}, 5, 1)


def test_a_type_that_json_cannot_make_works_by_its_default():
    declaration = "import logging\ndef f(x: int, log: logging.Logger = logging.getLogger('a')): return x, log"
    assert bind(declaration, {"x": 1})[1] == (1, logging.getLogger("a"))
    with pytest.raises(InputError, match="log: Logger cannot be made from JSON"):
        bind(declaration, {"x": 1, "log": "a"})


@pytest.mark.parametrize("annotation", ["[int]", "{'a': int}", "5", "'%'", "print", "Callable[[int], str]", "type"])
def test_an_annotation_that_is_no_type_of_json_spoils_nothing(annotation):
    assert bind(f"def f(x: {annotation} = 1, y: int = 2): return x, y", {"y": "3"})[1] == (1, 3)


def test_values_that_are_already_there_are_taken_as_they_are():
    moment = D(2024, 1, 1)
    assert bind("def f(x: datetime.datetime): return x", {"x": moment})[1] is moment
    item = m.Item("a", 1.0)
    assert bind("def f(x: Item): return x", {"x": item})[1] is item
    model = m.ModelItem(sku="a", price=1)
    assert bind("def f(x: ModelItem): return x", {"x": model})[1] is model


def test_the_reading_is_made_once():
    assert read_signature(three) is read_signature(three)


def test_long_values_are_cut_in_messages():
    with pytest.raises(InputError) as caught:
        bind("def f(x: int): return x", {"x": "y" * 1000})
    assert len(str(caught.value)) < 120


def test_a_conversion_error_has_the_documented_message():
    declaration = "def f(order: Order): return order"
    items = [ITEM, ITEM, {**ITEM, "price": "abc"}]
    with pytest.raises(InputError) as caught:
        bind(declaration, {"order": {"id": 1, "items": items}})
    assert str(caught.value) == "order.items[2].price: expected float, got 'abc'"
    assert (caught.value.path, caught.value.message) == ("order.items[2].price", "expected float, got 'abc'")


def test_neither_pydantic_nor_attrs_is_imported():
    program = """
import dataclasses, sys
from conductor.client.worker.output import encode_output, to_output
from conductor.client.worker.signature import read_signature

@dataclasses.dataclass
class A:
    a: int

def f(a: A) -> A:
    return a

read_signature(f).input_schema()
encode_output(to_output(A(1)))
print([name for name in ("pydantic", "attr", "jsonschema_rs", "annotated_types") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
