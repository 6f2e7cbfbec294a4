"""Converters of single values: text, numbers, dates, enums and others.

Reading and schema use the same patterns, so that they accept the same texts.
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

from conductor.client.configuration.option import parse_boolean
from conductor.client.worker.conversion.converter import Converter, InputError, NoSchemaError, Schema, SchemaWriter

#: Numbers above this are epoch times in milliseconds, as in Conductor; smaller numbers are in seconds. In seconds, the
#: limit is in the year 2603.
_MILLISECONDS_FROM = 2e10

# In Python, `$` also matches before a final line feed, which JavaScript's `$` does not.
_END = r"$(?!\n)"
# The number of days of a month is checked when the text is parsed, not by the pattern.
_DATE = r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
_COUNT = "[0-9]{1,8}"
_SECONDS = rf"{_COUNT}(?:\.[0-9]{{1,9}})?S"
_CLOCK = f"T(?:{_COUNT}H(?:{_COUNT}M)?(?:{_SECONDS})?|{_COUNT}M(?:{_SECONDS})?|{_SECONDS})"
_DURATION = f"[+-]?P(?:{_COUNT}D(?:{_CLOCK})?|{_CLOCK})"
_DECIMAL = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?" + _END
_INTEGER = r"^-?(?:0|[1-9][0-9]*)" + _END


class StrConverter(Converter):
    """Converts text."""

    name = "str"
    keywords: Mapping[str, object] | None = {"type": "string"}
    exact: type | None = str

    def read_strict(self, value: object) -> object:
        if isinstance(value, str):
            return value
        raise self.make_error(value)

    def read_lenient(self, value: object) -> object:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float, Decimal)):
            return str(value)
        raise self.make_error(value)


class PathConverter(StrConverter):
    """Converts text to the path of a file."""

    exact = None

    def read_strict(self, value: object) -> object:
        return Path(str(super().read_strict(value)))

    def read_lenient(self, value: object) -> object:
        return value if isinstance(value, PurePath) else self.read_strict(value)


class IntConverter(Converter):
    """Converts a whole number. JSON may write it as `5` or `5.0`."""

    name = "int"
    keywords: Mapping[str, object] | None = {"type": "integer"}
    exact: type | None = int

    def read_strict(self, value: object) -> object:
        if type(value) is int:
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise self.make_error(value)

    def read_lenient(self, value: object) -> object:
        if type(value) is int:
            return value
        if isinstance(value, str):
            try:
                return self.read_strict(_parse_number(value))
            except ValueError:
                raise self.make_error(value) from None
        return self.read_strict(value)


class IntTextConverter(Converter):
    """Converts a whole number that is written as text, such as the key of a JSON object."""

    name = "int"
    keywords: Mapping[str, object] | None = {"type": "string", "pattern": _INTEGER}
    _pattern = re.compile(_INTEGER)

    def read_strict(self, value: object) -> object:
        if isinstance(value, str) and self._pattern.search(value):
            return int(value)
        raise self.make_error(value)

    def read_lenient(self, value: object) -> object:
        return IntConverter().read_lenient(value)


class FloatConverter(Converter):
    """Converts a number to a float."""

    name = "float"
    keywords: Mapping[str, object] | None = {"type": "number"}
    exact: type | None = float

    def read_strict(self, value: object) -> object:
        if type(value) is float:
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        raise self.make_error(value)

    def read_lenient(self, value: object) -> object:
        if type(value) is float:
            return value
        if isinstance(value, str):
            try:
                return float(_parse_number(value))
            except ValueError:
                raise self.make_error(value) from None
        return self.read_strict(value)


def _parse_number(text: str) -> int | float:
    """Return the number in a text.

    Raises:
        ValueError: The text is not a finite number.
    """
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


class BoolConverter(Converter):
    """Converts true and false."""

    name = "bool"
    keywords: Mapping[str, object] | None = {"type": "boolean"}
    exact: type | None = bool

    def read_strict(self, value: object) -> object:
        if isinstance(value, bool):
            return value
        raise self.make_error(value)

    def read_lenient(self, value: object) -> object:
        try:
            return parse_boolean(str(value) if isinstance(value, (str, int)) else "")
        except ValueError:
            raise self.make_error(value) from None


class NullConverter(Converter):
    """Accepts only null."""

    name = "null"
    keywords: Mapping[str, object] | None = {"type": "null"}
    nullable = True

    def read_strict(self, value: object) -> object:
        if value is None:
            return None
        raise self.make_error(value)


class ScalarConverter(Converter):
    """Accepts values other than arrays and objects. Used for the items of a set without a declared item type."""

    name = "text, number, boolean or null"
    keywords: Mapping[str, object] | None = {"type": ["string", "number", "boolean", "null"]}
    nullable = True

    def read_strict(self, value: object) -> object:
        if isinstance(value, (list, dict)):
            raise self.make_error(value)
        return value


class TextConverter(Converter):
    """Converts JSON texts that match a pattern to values of one type, such as dates."""

    def __init__(
        self,
        kind: type,
        name: str,
        pattern: str,
        parse: Callable[[str], object],
        lenient: Callable[[Any], object],
        **keywords: str,
    ) -> None:
        self.kind = kind
        self.name = name
        self.pattern = re.compile(f"^{pattern}{_END}")
        self.parse = parse
        self.keywords = {"type": "string", **keywords, "pattern": self.pattern.pattern}
        self._convert = lenient

    def read_strict(self, value: object) -> object:
        if not (isinstance(value, str) and self.pattern.search(value)):
            raise self.make_error(value)
        try:
            return self.parse(value)
        except ValueError:  # for example the 30th of February
            raise self.make_error(value) from None

    def read_lenient(self, value: object) -> object:
        if isinstance(value, self.kind):
            return value
        try:
            return self._convert(value.strip() if isinstance(value, str) else value)
        except (ValueError, TypeError, OverflowError, OSError, AttributeError):
            raise self.make_error(value) from None


def _convert_datetime(value: Any) -> datetime:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, (int, float)):
        return datetime.fromtimestamp(value / 1000 if abs(value) > _MILLISECONDS_FROM else value, UTC)
    return datetime.fromisoformat(value)


def _convert_date(value: Any) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    at = _convert_datetime(value)
    if at.time() != time():  # reject a time of day, because a date would silently drop it
        raise ValueError
    return at.date()


def _parse_duration(text: str) -> timedelta:
    if not re.fullmatch(_DURATION, text):
        raise ValueError(text)
    units = {"D": "days", "H": "hours", "M": "minutes", "S": "seconds"}
    parts = {units[unit]: float(count) for count, unit in re.findall(r"([0-9.]+)([DHMS])", text)}
    return timedelta(**parts) * (-1 if text.startswith("-") else 1)


def _convert_duration(value: Any) -> timedelta:
    if isinstance(value, bool):
        raise TypeError
    return timedelta(seconds=value) if isinstance(value, (int, float)) else _parse_duration(value)


def _convert_bytes(value: Any) -> bytes:
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    padded = value + "=" * (-len(value) % 4)
    try:
        return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error as error:
        raise ValueError from error


def make_text_converters() -> Mapping[type, Converter]:
    """Return the converters of types whose values are texts in JSON."""
    return {
        datetime: TextConverter(
            datetime,
            "datetime",
            f"{_DATE}T{_TIME}",
            datetime.fromisoformat,
            _convert_datetime,
            format="date-time",
        ),
        date: TextConverter(date, "date", _DATE, date.fromisoformat, _convert_date, format="date"),
        time: TextConverter(time, "time", _TIME, time.fromisoformat, time.fromisoformat, format="time"),
        timedelta: TextConverter(
            timedelta, "duration", _DURATION, _parse_duration, _convert_duration, format="duration"
        ),
        uuid.UUID: TextConverter(
            uuid.UUID,
            "UUID",
            r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
            uuid.UUID,
            uuid.UUID,
            format="uuid",
        ),
        bytes: _make_base64_converter(bytes),
        bytearray: _make_base64_converter(bytearray),
    }


def _make_base64_converter(kind: type[bytes] | type[bytearray]) -> TextConverter:
    return TextConverter(
        kind,
        "base64 bytes",
        r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
        lambda text: kind(base64.b64decode(text)),
        lambda value: kind(_convert_bytes(value)),
        contentEncoding="base64",
    )


class DecimalConverter(Converter):
    """Converts a text or a JSON number to a Decimal."""

    name = "Decimal"
    keywords: Mapping[str, object] | None = {"type": ["number", "string"], "pattern": _DECIMAL}
    _pattern = re.compile(_DECIMAL)

    def read_strict(self, value: object) -> object:
        if isinstance(value, str) and self._pattern.search(value):
            return Decimal(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return Decimal(repr(value))
        raise self.make_error(value)

    def read_lenient(self, value: object) -> object:
        if isinstance(value, Decimal):
            return value
        if isinstance(value, str):
            try:
                return Decimal(value)
            except InvalidOperation:
                raise self.make_error(value) from None
        return self.read_strict(value)


class ChoiceConverter(Converter):
    """Accepts the values of a `Literal`, or converts the values of an enum to its members."""

    def __init__(self, name: str, choices: Sequence[tuple[Any, Any]], kind: type[Enum] | None = None) -> None:
        self.name = name
        self.kind = kind
        self._values = [value for value, _ in choices]
        self._by_value = {_make_lookup_key(value): chosen for value, chosen in choices}
        names = dict(kind.__members__) if kind else {}
        self._by_text = {**names, **{str(value): chosen for value, chosen in choices}}

    def as_keys(self) -> ChoiceConverter:
        """Return a converter for the keys of a JSON object, in which numbers are written as text."""
        choices = [(str(value), chosen) for (_, value), chosen in self._by_value.items()]
        return ChoiceConverter(self.name, choices, self.kind)

    def read_strict(self, value: object) -> object:
        try:
            return self._by_value[_make_lookup_key(value)]
        except (KeyError, TypeError):
            raise self.make_error(value) from None

    def read_lenient(self, value: object) -> object:
        if self.kind is not None and isinstance(value, self.kind):
            return value
        try:
            return self.read_strict(value)
        except InputError:
            pass
        return self._by_text[value] if isinstance(value, str) and value in self._by_text else self._call_enum(value)

    def make_error(self, value: object) -> InputError:
        error = super().make_error(value)
        error.is_other_type = True  # the value may be the tag of another member of a union
        return error

    def _call_enum(self, value: object) -> object:
        """Return the member for a value. Calls the enum, because its `_missing_` method may accept further values."""
        if self.kind is None or isinstance(value, bool):
            raise self.make_error(value)
        try:
            return self.kind(value)
        except (ValueError, TypeError):
            raise self.make_error(value) from None

    def write_schema(self, writer: SchemaWriter) -> Schema:  # noqa: ARG002
        if any(not isinstance(value, (str, int, float, types.NoneType)) for value in self._values):
            raise NoSchemaError(self.name)
        kinds = {type(value) for value in self._values}
        names = {str: "string", int: "integer", bool: "boolean"}
        kind = kinds.pop() if len(kinds) == 1 else None
        return {**({"type": names[kind]} if kind in names else {}), "enum": self._values}


def _make_lookup_key(value: object) -> tuple[bool, Any]:
    """Return a dict key for a JSON value: 1 and 1.0 have equal keys, 1 and true do not."""
    return isinstance(value, bool), value


def make_literal_converter(values: tuple[Any, ...]) -> ChoiceConverter:
    """Return the converter of `Literal[...]`. A member of an enum is represented by its value."""
    choices = [(value.value if isinstance(value, Enum) else value, value) for value in values]
    return ChoiceConverter("one of " + ", ".join(repr(value) for value, _ in choices), choices)


class FlagConverter(Converter):
    """Converts a number to the combined members of an `enum.Flag`."""

    def __init__(self, kind: type[Flag]) -> None:
        self.kind = kind
        self.name = kind.__name__

    def read_strict(self, value: object) -> object:
        try:
            return self.kind(value)
        except (ValueError, TypeError):
            raise self.make_error(value) from None


def make_enum_converter(kind: type[Enum]) -> Converter:
    """Return the converter of an enum."""
    if issubclass(kind, Flag):
        return FlagConverter(kind)
    # A member whose value is not hashable can only be looked up by its name.
    choices = [(member.value, member) for member in kind if isinstance(member.value, Hashable)]
    values = ", ".join(repr(member.value) for member in kind)
    return ChoiceConverter(f"{kind.__name__} ({values})", choices, kind)
