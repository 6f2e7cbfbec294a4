"""Fingerprints of steps: the name of the function and a digest of its arguments, equal in every process."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from enum import Enum
from hashlib import blake2b
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode
#: Values nested deeper than this are compared only by their types.
_MAX_DEPTH = 50


def get_function_name(function: Callable[..., Any]) -> str:
    """Return the qualified name of a function, also of one in a partial. For a callable object, return its class."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__qualname__


def make_fingerprint(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the fingerprint of a call."""
    while isinstance(function, functools.partial):
        args = (*function.args, *args)
        kwargs = {**function.keywords, **kwargs}
        function = function.func
    return f"{get_function_name(function)[:400]}:{digest((args, kwargs))}"


def digest(value: object) -> str:
    """Return a digest of a value that does not depend on the process: sets are sorted, and `id()` is not used."""
    return blake2b(_encode(_describe(value, ())), digest_size=8).hexdigest()


def _describe(value: object, path: tuple[int, ...]) -> object:
    """Return JSON that is equal for equal values. A value whose fields cannot be read is described by its type.

    `path` has the ids of the values around this one. A value inside itself is described by its type, too.
    """
    if isinstance(value, Enum):
        return [_type_name(value), value.name]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)  # also for subclasses, which JSON does not distinguish
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if len(path) > _MAX_DEPTH or id(value) in path:
        return _type_name(value)
    path = (*path, id(value))
    if isinstance(value, Mapping):
        pairs = [[_describe(key, path), _describe(item, path)] for key, item in value.items()]
        return {"map": sorted(pairs, key=_encode)}
    if isinstance(value, Set):
        return {"set": sorted((_describe(item, path) for item in value), key=_encode)}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_describe(item, path) for item in value]
    if isinstance(value, functools.partial):
        return ["partial", *(_describe(part, path) for part in (value.func, value.args, value.keywords))]
    if inspect.isroutine(value) or isinstance(value, type):
        return get_function_name(value)
    try:
        fields = _read_fields(value)
        if fields is not None:
            return {_type_name(value): _describe(fields, path)}
        return msgspec.to_builtins(value)  # datetime, UUID, Decimal, bytes and the like
    except Exception:  # the object's code can raise anything, and some objects cannot be converted
        return _type_name(value)


def _read_fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a dataclass, struct, attrs or pydantic instance; None for others.

    The values are not converted to JSON, because the JSON of a set has the order of its hashes.
    """
    cls: Any = type(value)
    if isinstance(value, msgspec.Struct):
        names: Iterable[str] = cls.__struct_fields__
    elif dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
    elif hasattr(cls, "__attrs_attrs__"):
        names = [attribute.name for attribute in cls.__attrs_attrs__]
    elif hasattr(cls, "__pydantic_serializer__"):
        names = [*cls.model_fields, *(value.__pydantic_extra__ or ())]
    else:
        return None
    return {name: getattr(value, name) for name in names}


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
