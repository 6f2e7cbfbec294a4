"""References to values that exist when the workflow runs: texts `${…}` that the server replaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from conductor.client.workflow.no_value import NoValue, make_no_value_error

if TYPE_CHECKING:
    from conductor.client.workflow.step_blocks import StepBlock
    from conductor.client.workflow.value_type import ValueType

#: The open `with` blocks, the innermost last.
open_blocks: ContextVar[tuple[StepBlock, ...]] = ContextVar("conductor_open_blocks", default=())


class Reference(NoValue, str):
    """The text of an expression, such as `${charge.output.receipt}`.

    A reference is a `str`, so it can be used wherever text can: in inputs, inside longer texts, in JSON. It has no
    value while the workflow is built: arithmetic always raises TypeError. Inside a `with workflow:` block, `if`,
    comparisons, `len`, `in` and iteration raise TypeError, too. `reference["field"]` and `reference.field` refer to a
    field.
    """

    #: The JSON type of the value, if it is known.
    value_type: ValueType | None
    #: The workflow whose `with` block has the step or the input, if it is known.
    _owner: str | None
    __slots__ = ("_owner", "value_type")

    def __new__(cls, text: str, value_type: ValueType | None = None, owner: str | None = None) -> Reference:
        """Create a reference from the text of its expression."""
        self = super().__new__(cls, text)
        self.value_type = value_type
        self._owner = owner
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str.__str__(self), self.value_type, self._owner

    # -- fields

    def __getattribute__(self, name: str) -> Any:
        # A declared field takes precedence over a method of `str` with the same name, such as `count` or `title`.
        if not name.startswith("_") and name != "value_type":
            value_type = str.__getattribute__(self, "value_type")
            if value_type is not None and value_type.has_field(name):
                return str.__getattribute__(self, "_refer_to")(name)
            if value_type is not None and value_type.types() == {"string"} and open_blocks.get() and hasattr(str, name):
                raise make_no_value_error(self, f"{{0}}.{name}()")
        return str.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._refer_to(name)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._refer_to(str.__str__(key))
        if not open_blocks.get():
            return str.__getitem__(self, key)
        kinds = None if self.value_type is None else self.value_type.types()
        if isinstance(key, int) and key >= 0 and kinds is not None and "array" in kinds:
            return self._refer_to(f"[{key}]")
        raise make_no_value_error(self, "{0}[{1}]", key)

    def _refer_to(self, path: str) -> Reference:
        text = str.__str__(self)
        value_type = None if self.value_type is None else self.value_type.at(path, text)
        return make_reference(text[2:-1], path, value_type=value_type, owner=self._owner)

    # -- operations

    def __bool__(self) -> bool:
        self._reject_in_block("if")
        return str.__len__(self) > 0

    def __eq__(self, other: object) -> bool:
        if not _is_expression(other):
            self._reject_in_block("{0} == {1}", other)
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        if not _is_expression(other):
            self._reject_in_block("{0} != {1}", other)
        return str.__ne__(self, other)

    __hash__ = str.__hash__

    def __len__(self) -> int:
        self._reject_in_block("len({0})")
        return str.__len__(self)

    def __iter__(self) -> Iterator[str]:
        self._reject_in_block("for")
        return str.__iter__(self)

    def __contains__(self, other: Any) -> bool:
        self._reject_in_block("{1} in {0}", other)
        return str.__contains__(self, other)

    def __lt__(self, other: Any) -> bool:
        self._reject_in_block("{0} < {1}", other)
        return str.__lt__(self, other)

    def __le__(self, other: Any) -> bool:
        self._reject_in_block("{0} <= {1}", other)
        return str.__le__(self, other)

    def __gt__(self, other: Any) -> bool:
        self._reject_in_block("{0} > {1}", other)
        return str.__gt__(self, other)

    def __ge__(self, other: Any) -> bool:
        self._reject_in_block("{0} >= {1}", other)
        return str.__ge__(self, other)

    def __add__(self, other: Any) -> str:
        if not isinstance(other, str) or self._is_number_with(other):
            raise make_no_value_error(self, "{0} + {1}", other)
        return str.__str__(self) + str.__str__(other)

    def __radd__(self, other: Any) -> str:
        if not isinstance(other, str):
            raise make_no_value_error(self, "{1} + {0}", other)
        return str.__str__(other) + str.__str__(self)

    def __format__(self, spec: str) -> str:
        if spec:
            raise make_no_value_error(self, "format({0}, {1})", spec)
        return str.__str__(self)

    def _is_number_with(self, other: object) -> bool:
        """Return whether both are references and one of them is a number: their texts would be joined, not added."""
        values = [value.value_type for value in (self, other) if isinstance(value, Reference)]
        kinds = [value_type.types() for value_type in values if value_type is not None]
        return len(values) == 2 and any(kind and not {"integer", "number"}.isdisjoint(kind) for kind in kinds)

    def _reject_in_block(self, operation: str, other: object = None) -> None:
        if open_blocks.get():
            raise make_no_value_error(self, operation, other)

    def _name_of_value(self) -> str:
        return str.__str__(self)


def _is_expression(value: object) -> bool:
    """Return whether a value looks like an expression.

    No other value can equal a reference, so comparing a reference with another value in a workflow block is an error.
    """
    return isinstance(value, str) and str.startswith(value, "${")


def make_reference(*path: str | None, value_type: ValueType | None = None, owner: str | None = None) -> Reference:
    """Return the expression for a path: `make_reference("charge", "output", "receipt")`. None parts are omitted."""
    text = ".".join(part.removeprefix(".") for part in path if part is not None)
    return Reference("${" + text.replace(".[", "[") + "}", value_type, owner)


def to_plain_value(value: Any) -> Any:
    """Return a value for JSON: references become text, a step becomes the expression for its result."""
    if isinstance(value, Reference):
        return str.__str__(value)
    if isinstance(value, dict):
        return {name: to_plain_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_value(item) for item in value]
    as_reference = getattr(type(value), "as_reference", None)
    return value if as_reference is None else to_plain_value(as_reference(value))


def list_texts(value: object) -> Iterator[str]:
    """Return the texts and references in a value. A step becomes the reference to its result."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from list_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from list_texts(item)
    elif (as_reference := getattr(type(value), "as_reference", None)) is not None:
        yield as_reference(value)


def contains_reference(value: object) -> bool:
    """Return whether a value is or contains a reference or a step."""
    if isinstance(value, Reference) or hasattr(type(value), "as_reference"):
        return True
    if isinstance(value, dict):
        return any(map(contains_reference, value.values()))
    return isinstance(value, list | tuple) and any(map(contains_reference, value))


def makes_step(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Return whether a call with these arguments adds a step to a workflow."""
    return (
        bool(open_blocks.get()) or any(map(contains_reference, args)) or any(map(contains_reference, kwargs.values()))
    )


def omit_none(**values: object) -> dict[str, object]:
    """Return the values that are not None, with camelCase names."""
    return {to_camel_case(name): value for name, value in values.items() if value is not None}


def omit_empty(**values: object) -> dict[str, object]:
    """Return the values that are neither None, empty nor False, with camelCase names."""
    return {to_camel_case(name): value for name, value in values.items() if value}


def to_camel_case(name: str) -> str:
    """Return a name in snake_case as camelCase."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
