"""The base of the models: snake_case in Python, camelCase on the wire. Fields that are None are not sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import msgspec
from msgspec import inspect as types

from conductor.protocol.json_types import JsonObject

T = TypeVar("T")
#: The field for each name that is often used by mistake, because other libraries or `@worker_task` use it.
_USUAL_NAMES = {
    "retries": "retry_count",
    "max_retries": "retry_count",
    "backoff": "retry_logic",
    "timeout": "timeout_seconds",
    "timeout_s": "timeout_seconds",
    "concurrency": "concurrent_exec_limit",
    "rate_limit": "rate_limit_per_frequency",
    "inputs": "input_parameters",
    "outputs": "output_parameters",
}

if TYPE_CHECKING:
    OrDefault = Annotated[T, "null is read as the default"]
else:
    #: The type of a field that is never None in Python. If a server sends null, the field gets its default.
    OrDefault = T | None


def sent_default(default: Any) -> Any:
    """Return a field that is sent even if its value is the default. Ordinary fields are not sent in that case.

    Args:
        default: The default, or a function that makes it.
    """
    # If the factory is `dict` or `list` itself, msgspec does not send an empty value. With a lambda, it does.
    if default in (dict, list):
        return msgspec.field(default_factory=lambda: default())
    return msgspec.field(default_factory=default if callable(default) else lambda: default)


class Model(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True, weakref=True):
    """Base of all models. Models are mutable and compared by value; unknown fields on the wire are ignored."""

    def __post_init__(self) -> None:
        guard = _guard(type(self))
        if guard is not None and None in guard(self):
            _fill_defaults(self)

    @classmethod
    def decode(cls, data: bytes | str) -> Self:
        """Make a model from JSON.

        Raises:
            msgspec.DecodeError: The data is not JSON, or not this model.
        """
        model: Self = _decoder(cls).decode(data)
        return model

    @classmethod
    def decode_list(cls, data: bytes | str) -> list[Self]:
        """Make models from a JSON array."""
        models: list[Self] = _decoder(list[cls]).decode(data)  # type: ignore[valid-type]
        return models

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a model from a dict with camelCase or snake_case keys, also in nested models."""
        return msgspec.convert(_wire_keys(values, _type_info(cls)), cls)

    def encode(self) -> bytes:
        """Return the model as JSON, without the fields that are None."""
        return encode(self)

    def to_dict(self) -> JsonObject:
        """Return the model as a dict with camelCase keys, without the fields that are None."""
        values: JsonObject = msgspec.to_builtins(self, str_keys=True, enc_hook=plain_text)
        return values


class _DefinitionType(msgspec.StructMeta):
    """Raises an error with the most similar field name for an argument that is not a field of the definition."""

    def __call__(self, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except TypeError as error:
            wrong = [name for name in values if name not in self.__struct_fields__]
            if not wrong:
                raise
            raise TypeError(_describe_unknown_field(self.__name__, wrong[0], self.__struct_fields__)) from error


def _describe_unknown_field(model: str, wrong: str, fields: Sequence[str]) -> str:
    usual = [name for name in fields if name == _USUAL_NAMES.get(wrong)]
    near = usual or get_close_matches(wrong, fields, n=1) or [name for name in fields if name.startswith(wrong)]
    advice = f"did you mean {near[0]!r}?" if near else f"its fields are {', '.join(fields)}"
    return f"{model} has no field {wrong!r}; {advice}"


class Definition(Model, kw_only=True, metaclass=_DefinitionType):
    """A model that users write. Older programs name the fields with an underscore, so `_tasks` also means `tasks`."""

    def __getattr__(self, name: str) -> Any:
        public = name.removeprefix("_")
        if public != name and public in self.__struct_fields__:
            return getattr(self, public)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        public = name.removeprefix("_")
        super().__setattr__(public if public in self.__struct_fields__ else name, value)


def plain_text(value: Any) -> str:
    """Encode a subclass of `str` as text. Raise `TypeError` for any other type that msgspec does not know."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"Encoding objects of type {type(value).__qualname__} is unsupported")


_ENCODER = msgspec.json.Encoder(enc_hook=plain_text)


def encode(value: Any, name: str = "the value") -> bytes:
    """Return a model, or any value of JSON types, as JSON.

    Args:
        value: The model or value.
        name: The name of the value in errors. A model has the name of its class.

    Raises:
        TypeError: A value cannot be sent as JSON. The message names its place.
    """
    try:
        return _ENCODER.encode(value)
    except TypeError:
        raise TypeError(
            describe_unsendable(value, type(value).__name__ if isinstance(value, Model) else name)
        ) from None


def describe_unsendable(value: Any, name: str) -> str:
    """Return a message with the place of the first value that is not JSON."""
    place, wrong = _find_unsendable(value, name)
    return f"{place}: {wrong} cannot be sent as JSON"


def _find_unsendable(value: Any, place: str) -> tuple[str, str]:
    """Return the place of the first value that is not JSON, and its description."""
    for key, child in _list_children(value):
        try:
            _ENCODER.encode(child)
        except TypeError:
            return _find_unsendable(child, f"{place}.{key}" if str(key).isidentifier() else f"{place}[{key!r}]")
    if isinstance(value, Mapping):
        return place, "a key of the dict"
    return place, f"an object of type {type(value).__qualname__}"


def _list_children(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Model):
        return ((name, getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple | set | frozenset) else ()


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


@cache
def _type_info(cls: type[Model]) -> types.Type:
    return types.type_info(cls)


@cache
def _never_none(cls: type[Model]) -> dict[str, Callable[[], Any]]:
    """Return the fields that are never None, each with the function that makes its default."""
    makers: dict[str, Callable[[], Any]] = {}
    for field in msgspec.structs.fields(cls):
        if field.default_factory is not msgspec.NODEFAULT:
            makers[field.name] = field.default_factory
        elif field.default is not None and field.default is not msgspec.NODEFAULT:
            makers[field.name] = partial(copy, field.default)
    return makers


@cache
def _guard(cls: type[Model]) -> Callable[[Model], tuple[Any, ...]] | None:
    """Return a function that reads all fields that must not be None; None if there are no such fields.

    Every new model is searched for None with this function. An `attrgetter` is fast, because it is implemented in C.
    """
    names = list(_never_none(cls))
    if not names:
        return None
    return attrgetter(
        names[0], names[-1], *names[1:-1]
    )  # repeats a single name, because `attrgetter` of one name returns no tuple


def _fill_defaults(model: Model) -> None:
    for name, make in _never_none(type(model)).items():
        if getattr(model, name) is None:
            setattr(model, name, make())


def _wire_keys(value: Any, type_: types.Type) -> Any:
    """Return the value with the keys of its models in their wire spelling. Keys of plain dicts stay as they are."""
    if isinstance(type_, types.UnionType):
        return next((_wire_keys(value, t) for t in type_.types if _matches(value, t)), value)
    if isinstance(type_, types.StructType) and isinstance(value, Mapping):
        fields = {field.name: field for field in type_.fields} | {field.encode_name: field for field in type_.fields}
        return {fields[key].encode_name: _wire_keys(v, fields[key].type) for key, v in value.items() if key in fields}
    if isinstance(type_, types.ListType) and isinstance(value, list | tuple):
        return [_wire_keys(item, type_.item_type) for item in value]
    if isinstance(type_, types.DictType) and isinstance(value, Mapping):
        return {key: _wire_keys(item, type_.value_type) for key, item in value.items()}
    return value


def _matches(value: Any, type_: types.Type) -> bool:
    if isinstance(type_, types.StructType | types.DictType):
        return isinstance(value, Mapping)
    return isinstance(type_, types.ListType) and isinstance(value, list | tuple)
