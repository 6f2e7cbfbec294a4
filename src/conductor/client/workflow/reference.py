"""References to values that exist when the workflow runs: texts `${…}` that the server replaces."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conductor.client.workflow.step_blocks import StepBlock
    from conductor.client.workflow.value_type import ValueType

#: The open `with` blocks, the innermost last.
open_blocks: ContextVar[tuple[StepBlock, ...]] = ContextVar("conductor_open_blocks", default=())


class Reference(str):
    """The text of an expression, such as `${charge.output.receipt}`.

    A reference is a `str`, so it can be used wherever text can: in inputs, inside longer texts, in JSON.
    """

    #: The JSON type of the value, if it is known.
    value_type: ValueType | None
    __slots__ = ("value_type",)

    def __new__(cls, text: str, value_type: ValueType | None = None) -> Reference:
        """Create a reference from the text of its expression."""
        self = super().__new__(cls, text)
        self.value_type = value_type
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str.__str__(self), self.value_type

    # Inside a `with workflow:` block, testing or comparing a reference is a mistake, because it has no value yet.

    def __bool__(self) -> bool:
        if open_blocks.get():
            raise make_no_value_error(str.__str__(self))
        return len(self) > 0

    def __eq__(self, other: object) -> bool:
        if open_blocks.get() and not isinstance(other, str):
            raise make_no_value_error(str.__str__(self))
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def make_no_value_error(what: str) -> TypeError:
    """Return the error for code that uses a value while the workflow is built."""
    return TypeError(
        f"{what} has no value while the workflow is built, only when it runs: choose with switch(...), repeat with "
        "loop(...), and compute in a worker"
    )


def make_reference(*path: str | None, value_type: ValueType | None = None) -> Reference:
    """Return the expression for a path: `make_reference("charge", "output", "receipt")`. None parts are omitted."""
    text = ".".join(part.removeprefix(".") for part in path if part is not None)
    return Reference("${" + text.replace(".[", "[") + "}", value_type)


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
