"""msgspec structs: what they declare beyond their fields."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.client.worker.conversion.node import InputError, Node
from conductor.client.worker.conversion.objects import ObjectField, ObjectNode
from conductor.client.worker.conversion.scalars import literal_node

_TAG = "<tag>"


def struct_node(cls: type[msgspec.Struct], node: ObjectNode) -> Node:
    """The node of a struct: its fields, its tag, and whether it forbids unknown fields."""
    config = cls.__struct_config__
    if config.array_like:
        return ArrayStructNode(cls)
    node.closed = config.forbid_unknown_fields
    if config.tag_field is not None:
        tag = ObjectField(config.tag_field, _TAG, literal_node((config.tag,)), required=True, has_default=False)
        node.set_fields([tag, *node.fields])
        node.build = lambda **arguments: cls(**{k: v for k, v in arguments.items() if k != _TAG})
    return node


class ArrayStructNode(Node):
    """A struct that travels as an array: msgspec reads it."""

    hashable = False

    def __init__(self, cls: type[msgspec.Struct]) -> None:
        self.cls = cls
        self.name = cls.__name__

    def strict(self, value: Any) -> Any:
        return self._convert(value, strict=True)

    def lenient(self, value: Any) -> Any:
        return self._convert(value, strict=False)

    def _convert(self, value: Any, *, strict: bool) -> Any:
        try:
            return msgspec.convert(value, self.cls, strict=strict)
        except msgspec.ValidationError as error:
            raise InputError("", str(error)) from None
