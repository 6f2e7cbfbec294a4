"""Conversion of models to JSON and back."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.client.http.models.model import Model, plain_text


class ObjectMapper:
    """Converts models to decoded JSON and back.

    Example:
        task = ObjectMapper().from_json({"taskId": "t"}, Task)
    """

    def to_json(self, obj: Any) -> Any:
        """Return an object as plain dicts, lists and scalars, with camelCase keys."""
        return msgspec.to_builtins(obj, str_keys=True, enc_hook=plain_text)

    def from_json(self, data: Any, klass: Any) -> Any:
        """Return an object of the type `klass`, made from decoded JSON.

        Args:
            data: The decoded JSON.
            klass: A class, the name of a model, or a list of models such as `list[Task]`.
        """
        if data is None:
            return None
        if isinstance(klass, str):
            klass = _find_type(klass)
        if isinstance(klass, type) and issubclass(klass, Model):
            return klass.from_dict(data)
        return msgspec.convert(data, klass, strict=False)


def _find_type(name: str) -> Any:
    """Return a type by its name in conductor-python."""
    from conductor.client.http import models

    if name.startswith("list["):
        return list[_find_type(name[5:-1])]  # type: ignore[misc]
    simple = {"int": int, "float": float, "str": str, "bool": bool, "object": Any, "dict": dict[str, Any]}
    if name.startswith("dict("):
        return dict[str, Any]
    return simple[name] if name in simple else getattr(models, name)
