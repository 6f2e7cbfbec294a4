"""JSON and models, for code that converts by itself."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.client.http.models.model import Model, plain_text


class ObjectMapper:
    """Turns models into what travels, and back.

    task = ObjectMapper().from_json({"taskId": "t"}, Task)
    """

    def to_json(self, obj: Any) -> Any:
        """The same as plain dicts, lists and scalars, with the names of the wire."""
        return msgspec.to_builtins(obj, str_keys=True, enc_hook=plain_text)

    def from_json(self, data: Any, klass: Any) -> Any:
        """A `klass` made of decoded JSON: a model by its class or its name, or a list of them as `list[Task]`."""
        if data is None:
            return None
        if isinstance(klass, str):
            klass = _named(klass)
        if isinstance(klass, type) and issubclass(klass, Model):
            return klass.from_dict(data)
        return msgspec.convert(data, klass, strict=False)


def _named(name: str) -> Any:
    """A type by the name that conductor-python gives it."""
    from conductor.client.http import models

    if name.startswith("list["):
        return list[_named(name[5:-1])]  # type: ignore[misc]
    simple = {"int": int, "float": float, "str": str, "bool": bool, "object": Any, "dict": dict[str, Any]}
    if name.startswith("dict("):
        return dict[str, Any]
    return simple[name] if name in simple else getattr(models, name)
