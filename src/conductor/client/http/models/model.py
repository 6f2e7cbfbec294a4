"""What every model has in common: snake_case in Python, camelCase on the wire, nothing sent that was never set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import msgspec
from msgspec import inspect as types

T = TypeVar("T")

if TYPE_CHECKING:
    OrDefault = Annotated[T, "null on the wire reads as the default"]
else:
    #: A field that is never None in Python although a server may send null for it: null reads as the field's default.
    OrDefault = T | None


def sent(make: Callable[[], Any]) -> Any:
    """A default that travels. Plain defaults are left out on the wire, made ones are not."""
    if make in (dict, list):  # an empty plain container counts as a default too
        return msgspec.field(default_factory=lambda: make())
    return msgspec.field(default_factory=make)


class Model(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True, weakref=True):
    """Base of all models: keyword construction, mutable, compared by value; unknown fields are ignored when reading."""

    def __post_init__(self) -> None:
        guard = _guard(type(self))
        if guard is not None and None in guard(self):
            _fill_defaults(self)

    @classmethod
    def decode(cls, data: bytes | str) -> Self:
        """Read one from JSON. Raises `msgspec.DecodeError` for what is not one."""
        model: Self = _decoder(cls).decode(data)
        return model

    @classmethod
    def decode_list(cls, data: bytes | str) -> list[Self]:
        """Read a JSON array of them, in one pass."""
        models: list[Self] = _decoder(list[cls]).decode(data)  # type: ignore[valid-type]
        return models

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make one from a dict with camelCase or snake_case keys, nested ones included."""
        return msgspec.convert(_wire_keys(values, _type_info(cls)), cls)

    def encode(self) -> bytes:
        """The JSON that travels; fields that are None are left out."""
        return _ENCODER.encode(self)

    def to_dict(self) -> dict[str, Any]:
        """What travels, as a dict with camelCase keys; fields that are None are left out."""
        values: dict[str, Any] = msgspec.to_builtins(self, str_keys=True, enc_hook=plain_text)
        return values


class Definition(Model, kw_only=True):
    """A model that people write by hand. `_tasks` and the like are taken for `tasks`: old programs write them so."""

    def __getattr__(self, name: str) -> Any:
        public = name.removeprefix("_")
        if public != name and public in self.__struct_fields__:
            return getattr(self, public)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        public = name.removeprefix("_")
        super().__setattr__(public if public in self.__struct_fields__ else name, value)


def plain_text(value: Any) -> str:
    """What the encoders do not know: subclasses of `str` are text; anything else is a TypeError."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"Encoding objects of type {type(value).__qualname__} is unsupported")


_ENCODER = msgspec.json.Encoder(enc_hook=plain_text)


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


@cache
def _type_info(cls: type[Model]) -> types.Type:
    return types.type_info(cls)


def _same(value: T) -> T:
    return value


@cache
def _never_none(cls: type[Model]) -> dict[str, Callable[[], Any]]:
    """The fields that have a default other than None, and what makes it."""
    makers: dict[str, Callable[[], Any]] = {}
    for field in msgspec.structs.fields(cls):
        if field.default_factory is not msgspec.NODEFAULT:
            makers[field.name] = field.default_factory
        elif field.default is not None and field.default is not msgspec.NODEFAULT:
            makers[field.name] = partial(_same, field.default)
    return makers


@cache
def _guard(cls: type[Model]) -> Callable[[Model], tuple[Any, ...]] | None:
    """Reads all fields that are never None at once, in C: this runs for every model that is made."""
    names = list(_never_none(cls))
    if not names:
        return None
    return attrgetter(names[0], names[-1], *names[1:-1])  # two names at least, so that it gives a tuple


def _fill_defaults(model: Model) -> None:
    for name, make in _never_none(type(model)).items():
        if getattr(model, name) is None:
            setattr(model, name, make())


def _wire_keys(value: Any, type_: types.Type) -> Any:
    """The same value with the keys of its models as the wire spells them; keys of plain maps are the user's."""
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
