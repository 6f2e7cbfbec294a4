"""From an annotation to its node: the one place that knows what the types of Python mean in JSON."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import inspect
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import msgspec

from conductor.client.worker.conversion.constraints import constrained
from conductor.client.worker.conversion.containers import ArrayNode, DictNode, OptionalNode, TupleNode, UnionNode
from conductor.client.worker.conversion.declared import Unresolved, fields_of_class, is_named_tuple
from conductor.client.worker.conversion.libraries import PydanticNode, is_pydantic, struct_node
from conductor.client.worker.conversion.node import AnyNode, DeferredNode, Node, OpaqueNode, RawNode
from conductor.client.worker.conversion.objects import EitherFormNode, ObjectField, ObjectNode
from conductor.client.worker.conversion.scalars import (
    BoolNode,
    ChoiceNode,
    DecimalNode,
    FloatNode,
    IntNode,
    IntTextNode,
    NullNode,
    PathNode,
    ScalarNode,
    StrNode,
    enum_node,
    literal_node,
    text_nodes,
)

_LEAVES: Mapping[Any, Node] = {
    Any: AnyNode(),
    object: AnyNode(),
    str: StrNode(),
    typing.LiteralString: StrNode(),
    Path: PathNode(),
    PurePath: PathNode(),
    int: IntNode(),
    float: FloatNode(),
    bool: BoolNode(),
    None: NullNode(),
    types.NoneType: NullNode(),
    Decimal: DecimalNode(),
    **text_nodes(),
}
_ARRAYS: Mapping[Any, Callable[[list[Any]], Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_TABLES: Mapping[Any, Callable[[dict[Any, Any]], Any]] = {
    dict: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
#: Types whose JSON form is text, so that they can be the keys of an object.
_KEYS = (uuid.UUID, date, datetime)
_Variables = Mapping[Any, Any]


def read_annotation(annotation: Any) -> Node:
    """The node of a type. A type that JSON cannot be turned into gives an OpaqueNode, never an error."""
    return _Reader().read(annotation, {})


class _Reader:
    """Reads one annotation. Remembers the classes it is inside of, since a class may contain itself."""

    def __init__(self) -> None:
        self._inside: dict[Any, DeferredNode] = {}

    def read(self, annotation: Any, variables: _Variables) -> Node:
        annotation = variables.get(annotation, annotation) if isinstance(annotation, typing.TypeVar) else annotation
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            return self._annotated(annotation, variables)
        if _is_leaf(annotation):
            return _LEAVES[annotation]
        if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
            return self.read(typing.get_args(annotation)[0], variables)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(typing.get_args(annotation), variables)
        if origin is typing.Literal:
            return literal_node(typing.get_args(annotation))
        return self._named(annotation, variables)

    def _annotated(self, annotation: Any, variables: _Variables) -> Node:
        inner, *metadata = typing.get_args(annotation)
        return constrained(self.read(inner, variables), metadata)

    def _union(self, members: Sequence[Any], variables: _Variables) -> Node:
        nodes = [self.read(m, variables) for m in members if m is not types.NoneType]
        node = nodes[0] if len(nodes) == 1 else UnionNode(nodes)
        return OptionalNode(node) if types.NoneType in members and not node.nullable else node

    def _named(self, annotation: Any, variables: _Variables) -> Node:
        """What is neither a leaf nor an operator on types: containers, classes, and names for other types."""
        if isinstance(annotation, Unresolved):
            return RawNode()
        if isinstance(annotation, typing.NewType):
            return self.read(annotation.__supertype__, variables)
        if isinstance(annotation, typing.TypeVar):
            return self.read(annotation.__bound__ or Any, variables)
        if isinstance(annotation, dataclasses.InitVar):
            return self.read(annotation.type, variables)
        if hasattr(annotation, "__value__"):  # `type Name = ...`
            return self.read(annotation.__value__, variables)
        origin = typing.get_origin(annotation) or annotation
        arguments = typing.get_args(annotation)
        if not isinstance(origin, type):
            return OpaqueNode(_name(annotation))
        if origin is tuple:
            bare = annotation in (tuple, typing.Tuple)  # noqa: UP006  # the other spelling of the same
            return self._tuple((Any, ...) if bare else arguments, variables)
        if origin in _ARRAYS:
            return self._array(_ARRAYS[origin], arguments, variables)
        if origin in _TABLES:
            return self._table(_TABLES[origin], arguments, variables)
        return self._class(annotation, origin, arguments, variables)

    def _tuple(self, arguments: Sequence[Any], variables: _Variables) -> Node:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return ArrayNode(self.read(arguments[0], variables), tuple)
        return TupleNode([self.read(argument, variables) for argument in arguments])

    def _array(self, build: Callable[[list[Any]], Any], arguments: Sequence[Any], variables: _Variables) -> Node:
        item = self.read(arguments[0], variables) if arguments else AnyNode()
        if build in (set, frozenset) and type(item) is AnyNode:
            item = ScalarNode()
        return ArrayNode(item, build)

    def _table(self, build: Callable[[dict[Any, Any]], Any], arguments: Sequence[Any], variables: _Variables) -> Node:
        if not arguments:
            return DictNode(None, AnyNode(), build)
        key = self.read(arguments[0], variables)
        value = self.read(arguments[1], variables)
        if isinstance(key, (StrNode, AnyNode)):
            return DictNode(None, value, build)
        if isinstance(key, IntNode):
            return DictNode(IntTextNode(), value, build)
        if isinstance(key, ChoiceNode):
            return DictNode(key.as_keys(), value, build)
        if arguments[0] in _KEYS:
            return DictNode(key, value, build)
        return OpaqueNode(f"a mapping with keys of type {key.name}")

    def _class(self, annotation: Any, cls: type, arguments: Sequence[Any], variables: _Variables) -> Node:
        if issubclass(cls, Enum):
            return enum_node(cls)
        read_fields = fields_of_class(cls)
        if read_fields is None:
            return OpaqueNode(_name(annotation))
        key = (cls, repr(arguments))  # arguments may hold metadata that cannot be a key
        if key in self._inside:
            return self._inside[key]
        bound = _type_variables(cls, [variables.get(a, a) for a in arguments])
        self._inside[key] = deferred = DeferredNode(cls.__name__)
        try:
            deferred.target = self._object(cls, read_fields(lambda inner: self.read(inner, bound)))
        finally:
            del self._inside[key]
        return deferred.target

    def _object(self, cls: type, fields: Sequence[ObjectField]) -> Node:
        node = ObjectNode(cls.__name__, dict if typing.is_typeddict(cls) else cls, cls, docstring(cls))
        node.set_fields(fields)
        if is_pydantic(cls):
            return PydanticNode(cls, node)
        if is_named_tuple(cls):
            return EitherFormNode(TupleNode([field.node for field in node.fields]), node)
        if issubclass(cls, msgspec.Struct):
            return struct_node(cls, node)
        return node


def _type_variables(cls: Any, arguments: Sequence[Any]) -> dict[Any, Any]:
    """What the type variables of a generic class, and of the generic classes it is derived from, stand for."""
    bound = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    for base in getattr(cls, "__orig_bases__", ()):
        origin = typing.get_origin(base)
        if isinstance(origin, type) and origin not in (typing.Generic, typing.Protocol):
            bound |= _type_variables(origin, [bound.get(a, a) for a in typing.get_args(base)])
    return bound


def _is_leaf(annotation: Any) -> bool:
    try:
        return annotation in _LEAVES
    except TypeError:  # what cannot be hashed is no type, and no leaf
        return False


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).removeprefix("typing.")


def docstring(documented: Any) -> str:
    """The first paragraph of a docstring; nothing for the one that dataclasses and named tuples make up."""
    own = vars(documented).get("__doc__") if isinstance(documented, type) else documented.__doc__  # not a base's
    text = inspect.cleandoc(own or "")
    made_up = text.startswith((f"{documented.__name__}(", "A Pydantic model"))
    return "" if made_up else text.partition("\n\n")[0].replace("\n", " ")
