"""A value that exists only when the workflow runs: the text `${…}` that the server replaces."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conductor.client.workflow.block import Block
    from conductor.client.workflow.shape import Shape

#: The `with` blocks that are open here, the innermost last.
open_blocks: ContextVar[tuple[Block, ...]] = ContextVar("conductor_open_blocks", default=())


class Reference(str):
    """The text of an expression, such as `${charge.output.receipt}`.

    It is a `str`, so it can stand wherever text can: in inputs, inside longer texts, in JSON. `shape` says what the
    value will be, where that is known.
    """

    shape: Shape | None
    __slots__ = ("shape",)

    def __new__(cls, text: str, shape: Shape | None = None) -> Reference:
        """The expression with that text."""
        self = super().__new__(cls, text)
        self.shape = shape
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str.__str__(self), self.shape

    # Inside a `with workflow:` block, what looks like a question about the value is a mistake: there is none yet.

    def __bool__(self) -> bool:
        if open_blocks.get():
            raise no_value_yet(str.__str__(self))
        return len(self) > 0

    def __eq__(self, other: object) -> bool:
        if open_blocks.get() and not isinstance(other, str):
            raise no_value_yet(str.__str__(self))
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def no_value_yet(what: str) -> TypeError:
    """The error for code that asks for a value while the workflow is built."""
    return TypeError(
        f"{what} has no value while the workflow is built, only when it runs: choose with switch(...), repeat with "
        "loop(...), and compute in a worker"
    )


def reference(*path: str | None, shape: Shape | None = None) -> Reference:
    """The expression for a path, as in `reference("charge", "output", "receipt")`; parts that are None are left out."""
    text = ".".join(part.removeprefix(".") for part in path if part is not None)
    return Reference("${" + text.replace(".[", "[") + "}", shape)


def plain(value: Any) -> Any:
    """The same value as JSON has it: references as plain text, a step as the expression for what it returns."""
    if isinstance(value, Reference):
        return str.__str__(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    as_reference = getattr(type(value), "as_reference", None)
    return value if as_reference is None else plain(as_reference(value))


def holds_reference(value: Any) -> bool:
    """Whether it is, or has inside, something that is known only when the workflow runs."""
    if isinstance(value, Reference) or hasattr(type(value), "as_reference"):
        return True
    if isinstance(value, dict):
        return any(map(holds_reference, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_reference, value))


def makes_step(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call with these arguments, here, belongs to a workflow that is being built."""
    return bool(open_blocks.get()) or any(map(holds_reference, args)) or any(map(holds_reference, kwargs.values()))


def omit_none(**values: Any) -> dict[str, Any]:
    """Return the values that are not None, with camelCase names."""
    return {to_camel_case(name): value for name, value in values.items() if value is not None}


def omit_empty(**values: Any) -> dict[str, Any]:
    """Return the values that are neither None, empty nor False, with camelCase names."""
    return {to_camel_case(name): value for name, value in values.items() if value}


def to_camel_case(name: str) -> str:
    """Return a name in snake_case as camelCase."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
