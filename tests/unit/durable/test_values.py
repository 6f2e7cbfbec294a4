"""Fingerprints, results and exceptions of steps: equal in every process, and made again as they were."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from conductor.durable.errors import DurableError, StepFailed
from conductor.durable.fingerprint import make_fingerprint
from conductor.durable.values import decode_result, encode_error, encode_result, make_error
from conductor.protocol.steps import Step, StepState


@dataclass(frozen=True)
class Order:
    number: int
    tags: frozenset[str]


class Shipment(msgspec.Struct, array_like=True):
    tags: set[str]


class Invoice(BaseModel):
    tags: set[str]


class Color(Enum):
    RED = "red"


@dataclass
class Node:
    name: str
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)


class Cents(int):
    """A number that the JSON encoder does not know."""


class Handle:
    """An object without readable fields, such as a connection."""


def charge(*_args: Any, **_kwargs: Any) -> None: ...


def fingerprints() -> list[str]:
    order = Order(7, frozenset({"a", "b", "c", "d"}))
    arguments: list[Any] = [
        order, {"z": 1, "a": {order, Color.RED}}, {1, 2, "x"}, Decimal("1.50"), datetime(2026, 1, 2, tzinfo=UTC),
        b"\xff", Handle(), charge, float("nan"), "\udcff", {(1, 2): [Color.RED]}, functools.partial(charge, 1),
        Shipment(set("abcdef")), Invoice(tags=set("abcdef")),
    ]  # fmt: skip
    return [make_fingerprint(charge, (argument,), {"b": 1, "a": 2}) for argument in arguments]


def test_fingerprints_are_equal_in_another_process() -> None:
    code = "from tests.unit.durable.test_values import fingerprints\nprint('\\n'.join(fingerprints()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == fingerprints()
    assert len(set(fingerprints())) == len(fingerprints())


def test_a_partial_is_its_function_with_its_arguments() -> None:
    assert make_fingerprint(functools.partial(charge, 1, a=2), (3,), {}) == make_fingerprint(charge, (1, 3), {"a": 2})
    looped: list[Any] = []
    looped.append(looped)
    assert make_fingerprint(charge, (looped,), {}) == make_fingerprint(charge, (looped,), {})


def test_a_tree_whose_nodes_know_their_parents_is_compared_in_bounded_time() -> None:
    def make_tree(name: str) -> Node:
        root = Node("root")
        root.children = [Node(str(number), root) for number in range(50)]
        root.children[-1].children.append(Node(name, root.children[-1]))
        return root

    first, other = make_fingerprint(charge, (make_tree("a"),), {}), make_fingerprint(charge, (make_tree("b"),), {})
    assert first == make_fingerprint(charge, (make_tree("a"),), {}) != other


def test_a_subclass_of_a_number_is_compared_by_its_value() -> None:
    assert make_fingerprint(charge, (Cents(5),), {}) == make_fingerprint(charge, (5,), {})


def test_a_result_is_made_again_by_the_return_annotation() -> None:
    def load() -> list[Order]:
        return []

    made = decode_result(encode_result([Order(7, frozenset({"a"}))], "load"), load, "load")
    assert made == [Order(7, frozenset({"a"}))]
    with pytest.raises(DurableError, match="the result of step load cannot be converted from JSON to"):
        decode_result(b'{"number": 7}', load, "load")


class Declined(Exception):
    def __init__(self, card: str, *, code: int) -> None:
        super().__init__(f"{card} declined")
        self.code = code


class Locked(OSError):
    def __reduce__(self) -> str:
        raise TypeError("cannot be pickled")


@pytest.mark.parametrize(
    "error",
    [
        Declined("visa", code=51),
        KeyError("x"),
        FileNotFoundError(2, "no", "a.txt"),
        Locked("busy"),
        UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "unexpected end of data"),
        UnicodeEncodeError("ascii", "caf\u00e9", 3, 4, "ordinal not in range(128)"),
    ],
)
def test_an_exception_is_made_again_as_the_same_class(error: Exception) -> None:
    made = make_error(Step(name="charge", state=StepState.FAILED, error=encode_error(error)))
    assert (type(made), str(made), made.args, vars(made)) == (type(error), str(error), error.args, vars(error))


def test_the_fields_of_a_builtin_exception_are_made_again() -> None:
    decoding = UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "unexpected end of data")
    made = make_error(Step(name="read", state=StepState.FAILED, error=encode_error(decoding)))
    assert isinstance(made, UnicodeDecodeError)
    assert (made.object, made.start, made.reason) == (decoding.object, decoding.start, decoding.reason)
    syntax = SyntaxError("invalid syntax", ("a.py", 1, 3, "a b", 1, 4))
    made_syntax = make_error(Step(name="read", state=StepState.FAILED, error=encode_error(syntax)))
    assert isinstance(made_syntax, SyntaxError)
    assert (str(made_syntax), made_syntax.filename, made_syntax.lineno) == (str(syntax), "a.py", 1)


def test_an_attribute_whose_name_is_not_text_does_not_hide_the_others() -> None:
    error = Declined("visa", code=51)
    error.__dict__[1] = 2  # type: ignore[index]
    made = make_error(Step(name="charge", state=StepState.FAILED, error=encode_error(error)))
    assert vars(made) == {"code": 51}


def test_an_attribute_that_is_not_json_does_not_hide_the_others() -> None:
    error = Declined("visa", code=51)
    error.response, error.page = Handle(), "x" * 100_000  # type: ignore[attr-defined]
    made = make_error(Step(name="charge", state=StepState.FAILED, error=encode_error(error)))
    assert vars(made) == {"code": 51}


def test_an_exception_of_an_unknown_class_keeps_its_name() -> None:
    class Local(Exception):
        pass

    step = Step(name="charge", number=2, state=StepState.FAILED, error=encode_error(Local("x")))
    made = make_error(step)
    assert isinstance(made, StepFailed)
    assert "step charge#2 failed: " in str(made)
    assert "Local: x" in str(made)
