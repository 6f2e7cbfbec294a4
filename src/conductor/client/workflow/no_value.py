"""Rejection of Python operations on values that exist only when the workflow runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

#: The longest text of an operand in a message.
MAX_OPERAND_CHARS = 40
_CHOOSE = "choose with switch(...), or compare in a worker"
_REPEAT = "repeat steps for each element with each(...) or loop(items=...)"
_COMPUTE = "compute it in a worker"


def make_no_value_error(value: NoValue, operation: str, other: object = None) -> TypeError:
    """Return the error for code that uses a value while the workflow is built.

    Args:
        value: The value, which is inserted for `{0}` in the operation.
        operation: The operation of the code, such as `{0} * {1}`, or `if` or `for`.
        other: The second operand, which is inserted for `{1}`.
    """
    name = value._name_of_value()
    if operation == "if":
        used, advice = f"`if`, `not`, `and` and `or` cannot use {name}", _CHOOSE
    elif operation == "for":
        used, advice = f"`for` cannot iterate over {name}", _REPEAT
    else:
        code = operation.format(name.strip("'"), _describe_operand(other))
        is_comparison = any(f" {sign} " in operation for sign in ("==", "!=", "<", "<=", ">", ">=", "in"))
        used, advice = f"Python cannot compute `{code}` here", _CHOOSE if is_comparison else _COMPUTE
    return TypeError(f"{used}: {name} has no value while the workflow is built, only when it runs; {advice}")


def _describe_operand(value: object) -> str:
    text = value._name_of_value().strip("'") if isinstance(value, NoValue) else repr(value)
    return text if len(text) <= MAX_OPERAND_CHARS else text[:MAX_OPERAND_CHARS] + "..."


def reject(operation: str) -> Callable[..., NoReturn]:
    """Return a method that raises the error for an operation."""

    def method(self: NoValue, other: object = None, *_: object) -> NoReturn:
        raise make_no_value_error(self, operation, other)

    return method


class NoValue:
    """Base class of references and steps: arithmetic and conversion to numbers raise TypeError."""

    __slots__ = ()

    def _name_of_value(self) -> str:
        raise NotImplementedError

    __sub__, __rsub__ = reject("{0} - {1}"), reject("{1} - {0}")
    __mul__, __rmul__ = reject("{0} * {1}"), reject("{1} * {0}")
    __truediv__, __rtruediv__ = reject("{0} / {1}"), reject("{1} / {0}")
    __floordiv__, __rfloordiv__ = reject("{0} // {1}"), reject("{1} // {0}")
    __mod__, __rmod__ = reject("{0} % {1}"), reject("{1} % {0}")
    __divmod__, __rdivmod__ = reject("divmod({0}, {1})"), reject("divmod({1}, {0})")
    __pow__, __rpow__ = reject("{0} ** {1}"), reject("{1} ** {0}")
    __neg__, __pos__, __abs__ = reject("-{0}"), reject("+{0}"), reject("abs({0})")
    __int__, __float__, __complex__ = reject("int({0})"), reject("float({0})"), reject("complex({0})")
    __round__, __floor__, __ceil__ = reject("round({0})"), reject("floor({0})"), reject("ceil({0})")
    __index__ = reject("range({0})")
