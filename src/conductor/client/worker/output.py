"""The task output that is sent for a return value.

Values of the JSON types are encoded in one pass. Other values are first converted to them, one by one, so that an error
names the place of the value that cannot be sent.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import os
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from enum import Enum
from types import CoroutineType
from typing import Any

import msgspec

from conductor.client.worker.exception import NonRetryableException


class OutputError(NonRetryableException):
    """A value in the output cannot be sent as JSON. `path` is its place."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message

    def __reduce__(self) -> tuple[type[OutputError], tuple[str, str]]:
        return OutputError, (self.path, self.message)


def to_output(value: object) -> dict[str, Any]:
    """Return the task output for a return value.

    A mapping is the output itself. The output of a dataclass, model, struct or named tuple has its fields. Every other
    value, including None, becomes `{"result": value}`.
    """
    if type(value) is dict:
        return value
    if isinstance(value, Mapping):
        return dict(value)
    try:
        fields = read_object_fields(value)
    except Exception as error:  # the code of the object may raise anything
        raise OutputError("output", f"{type(error).__name__}: {error}") from error
    if fields is None and isinstance(value, tuple) and hasattr(value, "_asdict"):
        fields = value._asdict()
    return {"result": value} if fields is None else fields


def encode_output(output: Mapping[str, Any]) -> bytes:
    """Encode the output as JSON.

    Sets become arrays, enum members their values, bytes base64, and keys become text. Datetimes, dates, times,
    timedeltas and UUIDs become ISO text. A Decimal becomes its exact text, which a Decimal parameter can read.

    Raises:
        OutputError: A value cannot be sent as JSON.
    """
    return encode_value(output, "output")


def encode_value(value: object, path: str) -> bytes:
    """Encode any value as JSON, with the conversions of `encode_output`.

    Args:
        value: The value.
        path: The name of the value in errors.

    Raises:
        OutputError: The value cannot be sent as JSON.
    """
    try:
        raw = _encoder.encode(value)
        if _is_plain(value):
            if len(raw) > 2 * MAX_NESTING and _is_deeper(value, MAX_NESTING):
                raise OutputError(path, TOO_DEEP)
            return raw
    except (TypeError, ValueError, RecursionError):
        pass
    # The value contains other types or a NaN, or cannot be encoded: find out where, for the error message.
    try:
        return _encoder.encode(to_plain(value, path, ()))
    except RecursionError:
        raise OutputError(path, TOO_DEEP) from None


#: The deepest nesting of containers. Servers have such a limit, but the encoder has none on Python 3.14.
MAX_NESTING = 1000
TOO_DEEP = "is nested too deeply to be sent as JSON"
_encoder = msgspec.json.Encoder()
_STR_ONLY = frozenset({str})
_SCALARS = frozenset({str, int, bool, type(None)})
_CONTAINERS = frozenset({dict, list, tuple})


def _is_plain(output: Any) -> bool:
    """Return whether an output without cycles contains only JSON types and finite numbers."""
    pending = [output]
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind in _SCALARS:
            continue
        if kind is dict:
            if not _STR_ONLY.issuperset(map(type, value)):
                return False
            pending += value.values()
        elif kind is list or kind is tuple:
            pending += value
        elif kind is not float or not math.isfinite(value):
            return False
    return True


def _is_deeper(output: Any, limit: int) -> bool:
    """Return whether containers are nested more than `limit` levels deep. The output must be plain."""
    level = [output]
    for _ in range(limit):
        children = [value.values() if type(value) is dict else value for value in level]
        level = [value for values in children for value in values if type(value) in _CONTAINERS]
        if not level:
            return False
    return True


def to_plain(value: object, path: str, above: tuple[int, ...]) -> object:
    """Convert a value to JSON types.

    Args:
        value: The value.
        path: The place of the value in the output.
        above: The ids of the containers around the value.

    Raises:
        OutputError: The value, or a value inside it, cannot be converted.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):  # including str and int enums
        return to_plain(value.value, path, above)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return _check_text(value, path)
    if isinstance(value, float):
        return _check_finite(value, path)
    if id(value) in above:
        raise OutputError(path, "refers to itself and cannot be sent as JSON")
    above = (*above, id(value))
    if isinstance(value, Mapping):
        return {_convert_key(k, path): to_plain(v, _join_path(path, k), above) for k, v in value.items()}
    if isinstance(value, (list, tuple, Set)):
        return [to_plain(item, f"{path}[{i}]", above) for i, item in enumerate(value)]
    return _convert_object(value, path, above)


def _convert_object(value: object, path: str, above: tuple[int, ...]) -> object:
    try:
        simpler = _simplify(value)
    except Exception as error:  # the code of the object may raise anything
        raise OutputError(path, f"{type(error).__name__}: {error}") from error
    if simpler is not value:
        return to_plain(simpler, path, above)
    try:
        return msgspec.to_builtins(value)  # datetime, UUID, bytes and the like
    except TypeError:
        advice = ": write `await` before the call that returns it" if isinstance(value, CoroutineType) else ""
        raise OutputError(path, f"object of type {_type_name(value)} cannot be sent as JSON{advice}") from None


def _simplify(value: object) -> object:
    """Convert an object to a simpler type; return the object itself if there is none."""
    if hasattr(type(value), "__pydantic_serializer__"):
        return _pydantic_dump(value)
    fields = read_object_fields(value)
    if fields is not None:
        return fields
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else float(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return list(value)
    return value


def read_object_fields(value: object) -> dict[str, Any] | None:
    """Return the fields of a dataclass, struct, attrs or pydantic instance by their JSON names; None for others."""
    cls: Any = type(value)
    if hasattr(cls, "__pydantic_serializer__"):
        dumped = _pydantic_dump(value)
        return dumped if isinstance(dumped, dict) else None
    if isinstance(value, msgspec.Struct):
        return None if cls.__struct_config__.array_like else _struct_fields(value)
    names = _field_names(cls)
    return None if names is None else {wire_name: getattr(value, name) for wire_name, name in names}


@functools.lru_cache(maxsize=1024)
def _field_names(cls: Any) -> list[tuple[str, str]] | None:
    """Return the JSON name and the attribute of each field of a dataclass or attrs class."""
    if dataclasses.is_dataclass(cls):
        return [(f.name, f.name) for f in dataclasses.fields(cls)]
    if hasattr(cls, "__attrs_attrs__"):
        return [(a.alias, a.name) for a in cls.__attrs_attrs__]
    return None


def _struct_fields(value: msgspec.Struct) -> dict[str, Any]:
    config = value.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    pairs = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    values = ((wire_name, getattr(value, name)) for wire_name, name in pairs)
    return tag | {wire_name: item for wire_name, item in values if item is not msgspec.UNSET}


def _pydantic_dump(value: Any) -> object:
    # Use aliases, because the same class expects them as input. Call the serializer, because pydantic dataclasses have
    # no `model_dump`.
    serializer = type(value).__pydantic_serializer__
    try:
        return serializer.to_python(value, mode="json", by_alias=True)
    except ValueError:  # a field cannot be serialized; `to_plain` raises an error with the path of the field
        return serializer.to_python(value, mode="python", by_alias=True)


def _check_text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise OutputError(path, f"text with a lone surrogate at {error.start} cannot be sent as JSON") from None
    return str(value)


def _check_finite(value: float, path: str) -> float:
    if math.isfinite(value):
        return float(value)
    raise OutputError(path, f"{value} cannot be sent as JSON")


def _convert_key(key: object, path: str) -> str:
    """Return a key as text, as the JSON encoders of the standard library and msgspec write it."""
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return _check_text(key, _join_path(path, key))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int):
        return str(int(key))
    try:
        return next(iter(msgspec.to_builtins({key: 0}, str_keys=True)))  # type: ignore[no-any-return]
    except TypeError:
        raise OutputError(path, f"a key of type {_type_name(key)} cannot be sent as JSON") from None


def _join_path(path: str, key: object) -> str:
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"


def _type_name(value: object) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
