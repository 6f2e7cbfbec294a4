"""From what a worker returned to what travels as the task's output.

JSON's own types are encoded in one pass. Everything else is first brought to them step by step, so that the place of
what cannot be sent is known.
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
from typing import Any

import msgspec

from conductor.client.worker.exception import NonRetryableException


class OutputError(NonRetryableException):
    """A value in the output cannot be sent as JSON; `path` says which one."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message

    def __reduce__(self) -> tuple[type[OutputError], tuple[str, str]]:
        return OutputError, (self.path, self.message)


def to_output(value: Any) -> dict[str, Any]:
    """The output that a return value stands for.

    A mapping is the output itself; a dataclass, model, struct or named tuple gives its fields;
    everything else, None included, becomes `{"result": value}`.
    """
    if type(value) is dict:
        return value
    if isinstance(value, Mapping):
        return dict(value)
    try:
        fields = read_object_fields(value)
    except Exception as error:  # the object's own code was asked for its fields: anything may come out
        raise OutputError("output", f"{type(error).__name__}: {error}") from error
    if fields is None and isinstance(value, tuple) and hasattr(value, "_asdict"):
        fields = value._asdict()
    return {"result": value} if fields is None else fields


def encode_output(output: Mapping[str, Any]) -> bytes:
    """The output as JSON, or an OutputError that names the value which has no place in JSON.

    Sets become arrays; Enum members their values; datetime, date, time, timedelta and UUID their ISO text; bytes
    base64; Decimal its exact text, which a Decimal parameter reads back unchanged; keys that are no text become text.
    """
    try:
        raw = _encoder.encode(output)
        if _is_plain(output):
            if len(raw) > 2 * MAX_NESTING and _is_deeper(output, MAX_NESTING):
                raise OutputError("output", TOO_DEEP)
            return raw
    except (TypeError, ValueError, RecursionError):
        pass
    # Something else than JSON's own types, a NaN, or an error that has to be given a place.
    try:
        return _encoder.encode(to_plain(output, "output", ()))
    except RecursionError:
        raise OutputError("output", TOO_DEEP) from None


#: Containers inside of each other, at most. From Python 3.14 on the encoder stops at nothing like it; servers do.
MAX_NESTING = 1000
TOO_DEEP = "is nested too deeply to be sent as JSON"
_encoder = msgspec.json.Encoder()
_TEXT_ONLY = frozenset({str})
_LEAVES = frozenset({str, int, bool, type(None)})
_CONTAINERS = frozenset({dict, list, tuple})


def _is_plain(output: Any) -> bool:
    """Whether the output, which does not contain itself, holds nothing but JSON's own types and finite numbers."""
    waiting = [output]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in _LEAVES:
            continue
        if kind is dict:
            if not _TEXT_ONLY.issuperset(map(type, value)):
                return False
            waiting += value.values()
        elif kind is list or kind is tuple:
            waiting += value
        elif kind is not float or not math.isfinite(value):
            return False
    return True


def _is_deeper(output: Any, limit: int) -> bool:
    """Whether more than so many containers of a plain output are inside of each other."""
    level = [output]
    for _ in range(limit):
        held = [value.values() if type(value) is dict else value for value in level]
        level = [value for values in held for value in values if type(value) in _CONTAINERS]
        if not level:
            return False
    return True


def to_plain(value: Any, path: str, above: tuple[int, ...]) -> Any:
    """The value in JSON's own types; raises OutputError at the first one that has none. `above`: what holds it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):  # also one that is a text or a number besides
        return to_plain(value.value, path, above)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, float):
        return _finite(value, path)
    if id(value) in above:
        raise OutputError(path, "refers to itself and cannot be sent as JSON")
    above = (*above, id(value))
    if isinstance(value, Mapping):
        return {_key(k, path): to_plain(v, _member(path, k), above) for k, v in value.items()}
    if isinstance(value, (list, tuple, Set)):
        return [to_plain(item, f"{path}[{i}]", above) for i, item in enumerate(value)]
    return _plain_object(value, path, above)


def _plain_object(value: Any, path: str, above: tuple[int, ...]) -> Any:
    try:
        simpler = _simpler(value)
    except Exception as error:  # the object's own code was asked for its fields: anything may come out
        raise OutputError(path, f"{type(error).__name__}: {error}") from error
    if simpler is not value:
        return to_plain(simpler, path, above)
    try:
        return msgspec.to_builtins(value)  # datetime, UUID, bytes and the like
    except TypeError:
        raise OutputError(path, f"object of type {_type_name(value)} cannot be sent as JSON") from None


def _simpler(value: Any) -> Any:
    """One step from an object towards JSON's own types; the object itself if there is none."""
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


def read_object_fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, struct, attrs or pydantic instance under the names they travel by; else None."""
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
    """Of a dataclass or attrs class: the names its fields travel by and those of its attributes."""
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


def _pydantic_dump(value: Any) -> Any:
    # By alias, since that is how a model of the same class reads it back. A pydantic dataclass has the serializer
    # but not the method.
    serializer = type(value).__pydantic_serializer__
    try:
        return serializer.to_python(value, mode="json", by_alias=True)
    except ValueError:  # one field cannot be serialized: let the walk find it
        return serializer.to_python(value, mode="python", by_alias=True)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise OutputError(path, f"text with a lone surrogate at {error.start} cannot be sent as JSON") from None
    return str(value)


def _finite(value: float, path: str) -> float:
    if math.isfinite(value):
        return float(value)
    raise OutputError(path, f"{value} cannot be sent as JSON")


def _key(key: Any, path: str) -> str:
    """A key as text, the way the JSON encoders of the standard library and msgspec write it."""
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return _text(key, _member(path, key))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int):
        return str(int(key))
    try:
        return next(iter(msgspec.to_builtins({key: 0}, str_keys=True)))  # type: ignore[no-any-return]
    except TypeError:
        raise OutputError(path, f"a key of type {_type_name(key)} cannot be sent as JSON") from None


def _member(path: str, key: Any) -> str:
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"


def _type_name(value: Any) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
