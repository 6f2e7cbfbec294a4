"""The leaves: how text, numbers, dates and the like are read. See `conversion` for what a node promises.

The patterns here are used by the reader and by the schema alike, so both mean the same texts.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import types
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum, Flag
from pathlib import Path, PurePath
from typing import Any

from conductor.client.configuration.option import read_boolean
from conductor.client.worker.conversion.node import InputError, Node, NoSchemaError, Schema, SchemaWriter

#: An epoch number above this counts milliseconds, as Conductor's own times do; below it, seconds (until the year 2603).
_MILLISECONDS_FROM = 2e10

# `$` alone would let a final line feed through in Python; ECMA's would not.
_END = r"$(?!\n)"
# Which days a month has is for the reader to know, not for the schema.
_DATE = r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
_COUNT = "[0-9]{1,8}"
_SECONDS = rf"{_COUNT}(?:\.[0-9]{{1,9}})?S"
_CLOCK = f"T(?:{_COUNT}H(?:{_COUNT}M)?(?:{_SECONDS})?|{_COUNT}M(?:{_SECONDS})?|{_SECONDS})"
_DURATION = f"[+-]?P(?:{_COUNT}D(?:{_CLOCK})?|{_CLOCK})"
_DECIMAL = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?" + _END
_INTEGER = r"^-?(?:0|[1-9][0-9]*)" + _END


class StrNode(Node):
    """Text."""

    name = "str"
    exact: type | None = str

    def strict(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        raise self.wrong(value)

    def lenient(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float, Decimal)):
            return str(value)
        raise self.wrong(value)

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": "string"}


class PathNode(StrNode):
    """Text that names a file."""

    exact = None

    def strict(self, value: Any) -> Any:
        return Path(super().strict(value))

    def lenient(self, value: Any) -> Any:
        return value if isinstance(value, PurePath) else self.strict(value)


class IntNode(Node):
    """A whole number, however JSON writes it: `5` and `5.0` are the same number."""

    name = "int"
    exact: type | None = int

    def strict(self, value: Any) -> Any:
        if type(value) is int:
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise self.wrong(value)

    def lenient(self, value: Any) -> Any:
        if type(value) is int:
            return value
        if isinstance(value, str):
            try:
                return self.strict(_number(value))
            except ValueError:
                raise self.wrong(value) from None
        return self.strict(value)

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": "integer"}


class IntTextNode(Node):
    """A whole number as the key of an object."""

    name = "int"
    _pattern = re.compile(_INTEGER)

    def strict(self, value: Any) -> Any:
        if isinstance(value, str) and self._pattern.search(value):
            return int(value)
        raise self.wrong(value)

    def lenient(self, value: Any) -> Any:
        return IntNode().lenient(value)

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": "string", "pattern": _INTEGER}


class FloatNode(Node):
    """A number."""

    name = "float"
    exact: type | None = float

    def strict(self, value: Any) -> Any:
        if type(value) is float:
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        raise self.wrong(value)

    def lenient(self, value: Any) -> Any:
        if type(value) is float:
            return value
        if isinstance(value, str):
            try:
                return float(_number(value))
            except ValueError:
                raise self.wrong(value) from None
        return self.strict(value)

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": "number"}


def _number(text: str) -> int | float:
    """The finite number in a text."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


class BoolNode(Node):
    """True or false."""

    name = "bool"
    exact: type | None = bool

    def strict(self, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        raise self.wrong(value)

    def lenient(self, value: Any) -> Any:
        try:
            return read_boolean(str(value) if isinstance(value, (str, int)) else "")
        except ValueError:
            raise self.wrong(value) from None

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": "boolean"}


class NullNode(Node):
    """Nothing but null."""

    name = "null"
    nullable = True

    def strict(self, value: Any) -> Any:
        if value is None:
            return None
        raise self.wrong(value)

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": "null"}


class ScalarNode(Node):
    """Any value that is neither array nor object: what a set of no declared type may hold."""

    name = "text, number, boolean or null"
    nullable = True

    def strict(self, value: Any) -> Any:
        if isinstance(value, (list, dict)):
            raise self.wrong(value)
        return value

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": ["string", "number", "boolean", "null"]}


class TextNode(Node):
    """A type that JSON holds as text of a certain form."""

    def __init__(
        self,
        kind: type,
        name: str,
        pattern: str,
        parse: Callable[[str], Any],
        lenient: Callable[[Any], Any],
        **keywords: str,
    ) -> None:
        self.kind = kind
        self.name = name
        self.pattern = re.compile(f"^{pattern}{_END}")
        self.parse = parse
        self.keywords = keywords
        self._convert = lenient

    def strict(self, value: Any) -> Any:
        if not (isinstance(value, str) and self.pattern.search(value)):
            raise self.wrong(value)
        try:
            return self.parse(value)
        except ValueError:  # the thirtieth of February
            raise self.wrong(value) from None

    def lenient(self, value: Any) -> Any:
        if isinstance(value, self.kind):
            return value
        try:
            return self._convert(value.strip() if isinstance(value, str) else value)
        except (ValueError, TypeError, OverflowError, OSError, AttributeError):
            raise self.wrong(value) from None

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": "string", **self.keywords, "pattern": self.pattern.pattern}


def _lenient_datetime(value: Any) -> datetime:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, (int, float)):
        return datetime.fromtimestamp(value / 1000 if abs(value) > _MILLISECONDS_FROM else value, UTC)
    return datetime.fromisoformat(value)


def _lenient_date(value: Any) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    moment = _lenient_datetime(value)
    if moment.time() != time():  # a time of day would be lost without a word
        raise ValueError
    return moment.date()


def _duration(text: str) -> timedelta:
    if not re.fullmatch(_DURATION, text):
        raise ValueError(text)
    units = {"D": "days", "H": "hours", "M": "minutes", "S": "seconds"}
    parts = {units[unit]: float(count) for count, unit in re.findall(r"([0-9.]+)([DHMS])", text)}
    return timedelta(**parts) * (-1 if text.startswith("-") else 1)


def _lenient_duration(value: Any) -> timedelta:
    if isinstance(value, bool):
        raise TypeError
    return timedelta(seconds=value) if isinstance(value, (int, float)) else _duration(value)


def _lenient_bytes(value: Any) -> bytes:
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    padded = value + "=" * (-len(value) % 4)
    try:
        return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error as error:
        raise ValueError from error


def text_nodes() -> Mapping[type, Node]:
    """The types that travel as text."""
    return {
        datetime: TextNode(
            datetime,
            "datetime",
            f"{_DATE}T{_TIME}",
            datetime.fromisoformat,
            _lenient_datetime,
            format="date-time",
        ),
        date: TextNode(date, "date", _DATE, date.fromisoformat, _lenient_date, format="date"),
        time: TextNode(time, "time", _TIME, time.fromisoformat, time.fromisoformat, format="time"),
        timedelta: TextNode(timedelta, "duration", _DURATION, _duration, _lenient_duration, format="duration"),
        uuid.UUID: TextNode(
            uuid.UUID,
            "UUID",
            r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
            uuid.UUID,
            uuid.UUID,
            format="uuid",
        ),
        bytes: _base64_node(bytes),
        bytearray: _base64_node(bytearray),
    }


def _base64_node(kind: type[bytes] | type[bytearray]) -> TextNode:
    return TextNode(
        kind,
        "base64 bytes",
        r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
        lambda text: kind(base64.b64decode(text)),
        lambda value: kind(_lenient_bytes(value)),
        contentEncoding="base64",
    )


class DecimalNode(Node):
    """An exact number: text with digits, or a JSON number taken by the digits it was written with."""

    name = "Decimal"
    _pattern = re.compile(_DECIMAL)

    def strict(self, value: Any) -> Any:
        if isinstance(value, str) and self._pattern.search(value):
            return Decimal(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return Decimal(repr(value))
        raise self.wrong(value)

    def lenient(self, value: Any) -> Any:
        if isinstance(value, Decimal):
            return value
        if isinstance(value, str):
            try:
                return Decimal(value)
            except InvalidOperation:
                raise self.wrong(value) from None
        return self.strict(value)

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        return {"type": ["number", "string"], "pattern": _DECIMAL}


class ChoiceNode(Node):
    """Literal values, or the members of an Enum by their values."""

    def __init__(self, name: str, choices: Sequence[tuple[Any, Any]], kind: type[Enum] | None = None) -> None:
        self.name = name
        self.kind = kind
        self._values = [value for value, _ in choices]
        self._by_value = {_identity(value): chosen for value, chosen in choices}
        names = dict(kind.__members__) if kind else {}
        self._by_text = {**names, **{str(value): chosen for value, chosen in choices}}

    def as_keys(self) -> ChoiceNode:
        """The same choices as keys of an object, where numbers are text."""
        choices = [(str(value), chosen) for (_, value), chosen in self._by_value.items()]
        return ChoiceNode(self.name, choices, self.kind)

    def strict(self, value: Any) -> Any:
        try:
            return self._by_value[_identity(value)]
        except (KeyError, TypeError):
            raise self.wrong(value) from None

    def lenient(self, value: Any) -> Any:
        if self.kind is not None and isinstance(value, self.kind):
            return value
        try:
            return self.strict(value)
        except InputError:
            pass
        return self._by_text[value] if isinstance(value, str) and value in self._by_text else self._missing(value)

    def wrong(self, value: Any) -> InputError:
        error = super().wrong(value)
        error.elsewhere = True  # a tag of another type of a union
        return error

    def _missing(self, value: Any) -> Any:
        """An Enum may know more spellings than its members' values."""
        if self.kind is None or isinstance(value, bool):
            raise self.wrong(value)
        try:
            return self.kind(value)
        except (ValueError, TypeError):
            raise self.wrong(value) from None

    def schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        if any(not isinstance(value, (str, int, float, types.NoneType)) for value in self._values):
            raise NoSchemaError(self.name)
        kinds = {type(value) for value in self._values}
        names = {str: "string", int: "integer", bool: "boolean"}
        kind = kinds.pop() if len(kinds) == 1 else None
        return {**({"type": names[kind]} if kind in names else {}), "enum": self._values}


def _identity(value: Any) -> tuple[bool, Any]:
    """JSON's equality: 1 and 1.0 are one number, true is not 1."""
    return isinstance(value, bool), value


def literal_node(values: tuple[Any, ...]) -> ChoiceNode:
    """`Literal[...]`; a member of an Enum in it stands for its value."""
    choices = [(value.value if isinstance(value, Enum) else value, value) for value in values]
    return ChoiceNode("one of " + ", ".join(repr(value) for value, _ in choices), choices)


class FlagNode(Node):
    """An enum.Flag: a number that combines members."""

    def __init__(self, kind: type[Flag]) -> None:
        self.kind = kind
        self.name = kind.__name__

    def strict(self, value: Any) -> Any:
        try:
            return self.kind(value)
        except (ValueError, TypeError):
            raise self.wrong(value) from None


def enum_node(kind: type[Enum]) -> Node:
    """The members of an Enum."""
    if issubclass(kind, Flag):
        return FlagNode(kind)
    # A value that cannot be looked up leaves its member known by name only.
    choices = [(member.value, member) for member in kind if isinstance(member.value, Hashable)]
    values = ", ".join(repr(member.value) for member in kind)
    return ChoiceNode(f"{kind.__name__} ({values})", choices, kind)
