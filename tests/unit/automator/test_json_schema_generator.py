# ruff: noqa: UP006, UP007, UP035, UP045 - users write both spellings
"""The schemas that are registered: the documented ones exactly, and no schema rather than a wrong one."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Annotated, Any, Dict, List, NamedTuple, Optional, TypedDict, Union

import msgspec
import pydantic
import pytest
from jsonschema import Draft7Validator

from conductor.client.automator.json_schema_generator import generate_json_schema_from_function, generate_json_schemas
from conductor.client.context.task_context import TaskInProgress
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.output import to_output

DRAFT = "http://json-schema.org/draft-07/schema#"


@dataclass
class OrderInfo:
    order_id: str
    amount: float
    customer_id: int


def process_order(order: OrderInfo, priority: int = 1) -> dict:
    return {"status": "processed", "order_id": order.order_id}


def schemas(function, *, strict=False):
    made = generate_json_schemas(function, "t", strict)
    for schema in made.values():
        if schema is not None:
            Draft7Validator.check_schema(schema)
    return made


def input_of(function, *, strict=False):
    return schemas(function, strict=strict)["input"]


def output_of(annotation, *, strict=False):
    def f(): ...

    f.__annotations__["return"] = annotation
    return schemas(f, strict=strict)["output"]


def property_of(annotation, *, strict=False):
    def f(x): ...

    f.__annotations__["x"] = annotation
    schema = input_of(f, strict=strict)
    return None if schema is None else schema["properties"]["x"]


@pytest.mark.parametrize("strict", [False, True])
def test_the_documented_example_has_the_documented_schema(strict):
    assert schemas(process_order, strict=strict) == {
        "input": {
            "$schema": DRAFT,
            "type": "object",
            "properties": {
                "order": {
                    "type": "object",
                    "properties": {
                        "order_id": {"type": "string"},
                        "amount": {"type": "number"},
                        "customer_id": {"type": "integer"},
                    },
                    "required": ["order_id", "amount", "customer_id"],
                    "additionalProperties": not strict,
                },
                "priority": {"type": "integer"},
            },
            "required": ["order"],
            "additionalProperties": not strict,
        },
        "output": {"$schema": DRAFT, "type": "object"},
    }


def test_both_names_of_the_generator_give_the_same_schema():
    assert generate_json_schema_from_function(process_order, "process_order_input") == generate_json_schemas(
        process_order, "process_order"
    )
    assert generate_json_schema_from_function(process_order, "n", True) == generate_json_schemas(
        process_order, "n", True
    )


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (dict, {"type": "object"}),
        (list, {"type": "array"}),
        (Any, {}),
        (Optional[str], {"type": "string", "nullable": True}),
        (int | None, {"type": "integer", "nullable": True}),
        (List[int], {"type": "array", "items": {"type": "integer"}}),
        (list[int | None], {"type": "array", "items": {"type": "integer", "nullable": True}}),
        (Optional[list[int]], {"type": "array", "items": {"type": "integer"}, "nullable": True}),
        (Dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Dict[str, Any], {"type": "object"}),
        (dict[str, list[int]],
         {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}),
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Union[int, str, None], {"anyOf": [{"type": "integer"}, {"type": "string"}], "nullable": True}),
        (tuple[int, str],
         {"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
        (Annotated[int, msgspec.Meta(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}),
        (Annotated[int, pydantic.Field(gt=0, lt=9)], {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9}),
        (Annotated[str, pydantic.Field(max_length=3, pattern="^a")],
         {"type": "string", "maxLength": 3, "pattern": "^a"}),
        (Annotated[set[int], msgspec.Meta(min_length=2)], {"type": "array", "items": {"type": "integer"}}),
        (Annotated[list[int], msgspec.Meta(min_length=1)],
         {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        (Annotated[dict[str, int], msgspec.Meta(max_length=2)],
         {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2}),
        (Annotated[float, msgspec.Meta(multiple_of=0.5)], {"type": "number", "multipleOf": 0.5}),
        (Annotated[int | None, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1, "nullable": True}),
        (Annotated[str, "what it is"], {"type": "string", "description": "what it is"}),
        (Annotated[str, msgspec.Meta(description="what it is")], {"type": "string", "description": "what it is"}),
        (Annotated[str, pydantic.Field(description="what it is")], {"type": "string", "description": "what it is"}),
    ],
    ids=str,
)  # fmt: skip
def test_the_schema_of_a_parameter(annotation, schema):
    assert property_of(annotation) == schema


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param(object(), id="object()"),
        type("Plain", (), {}),
        complex,
        Optional[complex],
        list[complex],
        dict[str, complex],
        dict[complex, int],
        Union[int, complex],
        tuple[int, complex],
        set[OrderInfo],
        "Nowhere",
        Awaitable[int],
    ],
    ids=str,
)
def test_no_schema_rather_than_a_wrong_one(annotation):
    assert property_of(annotation) is None


def test_any_parameter_without_a_type_leaves_no_input_schema():
    def f(a: int, b): ...

    def g(a: int, b=5): ...

    def h(a: int, b: complex = 1j): ...

    assert [input_of(function) for function in (f, g, h)] == [None, None, None]


def test_p31_a_worker_that_takes_the_task_has_no_input_schema():
    def f(task: Task) -> dict: ...

    def g(task: "Task") -> dict: ...

    def h(task) -> dict: ...

    def i(task: Task | None = None) -> dict: ...

    for function in (f, g, h, i):
        for strict in (False, True):
            assert input_of(function, strict=strict) is None
        assert schemas(function)["output"] == {"$schema": DRAFT, "type": "object"}


def test_p31_beside_the_task_the_other_parameters_are_described():
    def f(task: Task, order_id: str): ...

    schema = input_of(f, strict=True)
    assert schema["properties"] == {"order_id": {"type": "string"}}
    assert schema["additionalProperties"] is True  # the task shows the worker all of its input


def test_parameters_without_a_default_are_required():
    def f(a: int, b: int | None, c: int = 1, d: int | None = 2, *, e: str, g: Any): ...

    assert input_of(f)["required"] == ["a", "e"]


def test_a_function_without_parameters():
    def f(): ...

    assert input_of(f, strict=True) == {
        "$schema": DRAFT,
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_strictness_reaches_every_object():
    @dataclass
    class Inner:
        a: int

    class Dictionary(TypedDict):
        inner: Inner

    @dataclass
    class Outer:
        inner: Inner
        several: list[Inner]
        named: dict[str, Inner]
        maybe: Inner | None
        either: Inner | int
        typed: Dictionary

    def objects(schema):
        if isinstance(schema, dict):
            if "properties" in schema:
                yield schema["additionalProperties"]
            for part in schema.values():
                yield from objects(part)
        elif isinstance(schema, list):
            for part in schema:
                yield from objects(part)

    def f(x: Outer) -> Outer: ...

    for strict in (False, True):
        made = schemas(f, strict=strict)
        found = [*objects(made["input"]), *objects(made["output"])]
        assert len(found) == 17
        assert set(found) == {not strict}


def test_a_class_that_forbids_further_fields_does_so_in_any_mode():
    class Closed(msgspec.Struct, forbid_unknown_fields=True):
        a: int

    class Model(pydantic.BaseModel, extra="forbid"):
        a: int

    assert property_of(Closed)["additionalProperties"] is False
    assert property_of(Model)["additionalProperties"] is False


def test_the_rest_of_the_input():
    def f(a: int, **rest: str): ...

    def g(a: int, **rest): ...

    assert input_of(f, strict=True)["additionalProperties"] == {"type": "string"}
    assert input_of(g, strict=True)["additionalProperties"] is True


def test_docstrings_and_metadata_describe():
    @dataclass
    class Line:
        """One line
        of an order.

        More that nobody asked for.
        """

        sku: Annotated[str, "stock keeping unit"]
        count: int = field(default=1, metadata={"description": "how many"})

    class Model(pydantic.BaseModel):
        price: float = pydantic.Field(gt=0, description="in euros")

    def f(line: Annotated[Line, "the line"], model: Model, n: Annotated[int, msgspec.Meta(description="a number")]):
        """Ship a line.

        Args: none of this.
        """

    schema = input_of(f)
    line, model = schema["properties"]["line"], schema["properties"]["model"]
    assert schema["description"] == "Ship a line."
    assert line["description"] == "the line"
    assert line["properties"]["sku"] == {"type": "string", "description": "stock keeping unit"}
    assert line["properties"]["count"] == {"type": "integer", "description": "how many"}
    assert model["properties"]["price"] == {"type": "number", "exclusiveMinimum": 0, "description": "in euros"}
    assert schema["properties"]["n"]["description"] == "a number"
    assert "description" not in model

    def g(line: Line): ...

    assert input_of(g)["properties"]["line"]["description"] == "One line of an order."


@dataclass
class Node:
    value: int
    next: Optional["Node"] = None
    children: list["Node"] = field(default_factory=list)


def test_a_type_that_contains_itself_is_a_definition():
    def f(x: Node): ...

    schema = input_of(f, strict=True)
    assert schema["properties"]["x"] == {"$ref": "#/definitions/Node"}
    assert list(schema["definitions"]) == ["Node"]
    node = schema["definitions"]["Node"]
    assert node["properties"]["next"] == {"allOf": [{"$ref": "#/definitions/Node"}], "nullable": True}
    assert node["properties"]["children"] == {"type": "array", "items": {"$ref": "#/definitions/Node"}}
    validator = Draft7Validator(schema)
    assert validator.is_valid({"x": {"value": 1, "children": [{"value": 2, "next": {"value": 3}}]}})
    assert not validator.is_valid({"x": {"value": 1, "children": [{"value": 2, "next": {"value": "3"}}]}})


def test_two_types_of_one_name_that_contain_themselves():
    def make():
        @dataclass
        class Node:
            inner: "list[Node]"

        def f(x: Node): ...

        return Node, property_of(Node)

    first, _ = make()

    def f(a: Node, b: first): ...

    schema = input_of(f)
    assert len(schema["definitions"]) == 2
    references = {schema["properties"][name]["$ref"] for name in "ab"}
    assert references == {f"#/definitions/{name}" for name in schema["definitions"]}


# -- what is returned ------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    a: int
    b: str


ORDER = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}, "customer_id": {"type": "integer"}},
    "required": ["order_id", "amount", "customer_id"],
    "additionalProperties": True,
}
NULL = {
    "type": "object",
    "properties": {"result": {"type": "null"}},
    "required": ["result"],
    "additionalProperties": True,
}
NUMBER = {
    "type": "object",
    "properties": {"result": {"type": "integer"}},
    "required": ["result"],
    "additionalProperties": True,
}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (OrderInfo, ORDER),
        (Union[dict, TaskInProgress], {"type": "object"}),
        (OrderInfo | TaskInProgress | None, {"anyOf": [ORDER, NULL]}),
        (Optional[OrderInfo], {"anyOf": [ORDER, NULL]}),
        (Union[OrderInfo, int], {"anyOf": [ORDER, NUMBER]}),
        (int, NUMBER),
        (Optional[int], {"anyOf": [NUMBER, NULL]}),
        (Awaitable[int], NUMBER),
        (Annotated[int, "a number"], NUMBER),
    ],
    ids=str,
)
def test_the_schema_of_an_output(annotation, schema):
    assert output_of(annotation) == {"$schema": DRAFT, **schema}


@pytest.mark.parametrize("annotation", [Optional[OrderInfo], Optional[int], int | dict[str, int] | None])
def test_the_output_for_none_meets_the_schema(annotation):
    Draft7Validator(output_of(annotation)).validate(to_output(None))


def test_a_named_tuple_is_returned_by_its_names():
    assert list(output_of(Pair)["properties"]) == ["a", "b"]


@pytest.mark.parametrize(
    "annotation", [None, type(None), TaskInProgress, TaskResult, Any, complex, Union[dict, TaskResult], "Nowhere"]
)
def test_some_return_types_have_no_output_schema(annotation):
    assert output_of(annotation) is None


def test_no_return_annotation_no_output_schema():
    def f(a: int): ...

    assert schemas(f)["output"] is None
    assert schemas(f)["input"] is not None


def test_async_functions_are_read_like_others():
    async def f(order: OrderInfo, priority: int = 1) -> dict: ...

    assert schemas(f) == schemas(process_order)
