"""What functions and classes declare: annotations, with names in strings looked up, and the fields of a class."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from conductor.client.worker.conversion.constraints import description_of
from conductor.client.worker.conversion.node import Node
from conductor.client.worker.conversion.objects import ObjectField
from conductor.client.worker.parameters import parameters_of


class Unresolved:
    """An annotation whose names could not be found, for example one imported for type checkers only."""

    def __init__(self, text: str) -> None:
        self.text = text


def hints_of(owner: Any, annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of a function or class, each resolved or `Unresolved`; one bad name does not spoil the others."""
    if isinstance(owner, type) and annotations is None:
        merged: dict[str, Any] = {}
        for base in reversed(owner.__mro__):
            merged |= hints_of(base, _annotations_of(base))
        return merged
    found = _annotations_of(owner) if annotations is None else annotations
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    namespace = getattr(owner, "__globals__", None) or getattr(module, "__dict__", {})
    scope = _Scope(owner, namespace)
    return {name: _resolved(annotation, namespace, scope) for name, annotation in found.items()}


def _annotations_of(owner: Any) -> Mapping[str, Any]:
    """As they were written. From Python 3.14 on they are evaluated here, and a name that is not there would raise."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(owner, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(owner)


def _resolved(annotation: Any, namespace: dict[str, Any], scope: _Scope) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, namespace, scope, include_extras=True)["it"]
    except Exception:  # the text of an annotation may be any expression, and fail in any way
        text = annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation
        return Unresolved(text if isinstance(text, str) else repr(text))


class _Scope(Mapping[str, Any]):
    """Names that are visible where the owner was defined and are not in its module: closures and enclosing functions.

    A function's local classes are not reachable from the function itself once it has been compiled, but while the
    enclosing function is still running (as it is when a decorator reads the signature) its frame is on the stack.
    """

    def __init__(self, owner: Any, namespace: Mapping[str, Any]) -> None:
        self._owner = owner
        self._namespace = namespace

    def __getitem__(self, name: str) -> Any:
        for names in self._places():
            if name in names:
                return names[name]
        raise KeyError(name)

    def _places(self) -> Iterator[Mapping[str, Any]]:
        if isinstance(self._owner, type):
            yield {self._owner.__name__: self._owner}
        if isinstance(self._owner, types.FunctionType):
            cells = zip(self._owner.__code__.co_freevars, self._owner.__closure__ or (), strict=False)
            yield {name: cell.cell_contents for name, cell in cells if _filled(cell)}
        enclosing, _, _ = getattr(self._owner, "__qualname__", "").rpartition(".<locals>.")
        frame = inspect.currentframe() if enclosing else None
        while frame is not None:
            if frame.f_globals is self._namespace and enclosing.startswith(frame.f_code.co_qualname):
                yield frame.f_locals
            frame = frame.f_back

    def __iter__(self) -> Iterator[str]:
        """All of them: from Python 3.14 on, who looks names up makes a dictionary of this first."""
        return iter({name for names in self._places() for name in names})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # raises while the variable has no value yet
    except ValueError:
        return False
    return True


#: Turns the annotation of a field into its node.
_Read = Callable[[Any], Node]


def fields_of_class(cls: type) -> Callable[[_Read], list[ObjectField]] | None:
    """What reads the fields that make an instance, or None if the class is not one that is made of fields."""
    for is_one, fields in _KINDS:
        if is_one(cls):
            return lambda read: list(fields(cls, read))
    return None


def is_named_tuple(cls: type) -> bool:
    """Whether the class is a named tuple, typed or not."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _constructor_fields(cls: type, read: _Read) -> Iterator[ObjectField]:
    """Dataclass, attrs, named tuple: what the constructor takes, under the annotation of the field of that name."""
    hints = hints_of(cls)
    private = {a.alias: a.name for a in getattr(cls, "__attrs_attrs__", ())}
    metadata = {f.name: f.metadata for f in getattr(cls, "__dataclass_fields__", {}).values()}
    for name, parameter in parameters_of(cls).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = hints.get(private.get(name, name), Any)
        description = metadata.get(name, {}).get("description")
        yield _field(name, name, annotation, read, parameter.default is not parameter.empty, description=description)


def _struct_fields(cls: type[msgspec.Struct], read: _Read) -> Iterator[ObjectField]:
    hints = hints_of(cls)
    for field in msgspec.structs.fields(cls):
        yield _field(field.encode_name, field.name, hints[field.name], read, not field.required)


def _typed_dict_fields(cls: Any, read: _Read) -> Iterator[ObjectField]:
    required = cls.__required_keys__
    for name, annotation in hints_of(cls).items():
        # Inside a string Required and NotRequired were not seen when the class was made.
        marks: Sequence[Any] = [typing.get_origin(annotation)]
        needed = typing.Required in marks or (name in required and typing.NotRequired not in marks)
        yield _field(name, name, annotation, read, not needed, always_required=True)


def _pydantic_fields(cls: Any, read: _Read) -> Iterator[ObjectField]:
    for name, field in cls.__pydantic_fields__.items():
        alias = field.validation_alias or field.alias or name
        annotation = field.annotation
        if field.metadata:
            annotation = typing.Annotated[annotation, *field.metadata]
        yield _field(alias, alias, annotation, read, not field.is_required(), True, field.description)


_KINDS: list[tuple[Callable[[type], bool], Callable[[Any, _Read], Iterator[ObjectField]]]] = [
    (lambda cls: hasattr(cls, "__pydantic_fields__"), _pydantic_fields),
    (typing.is_typeddict, _typed_dict_fields),
    (lambda cls: issubclass(cls, msgspec.Struct), _struct_fields),
    (dataclasses.is_dataclass, _constructor_fields),
    (lambda cls: hasattr(cls, "__attrs_attrs__"), _constructor_fields),
    (is_named_tuple, _constructor_fields),
]


def _field(
    wire_name: str,
    argument: str,
    annotation: Any,
    read: _Read,
    has_default: bool,
    always_required: bool = False,
    description: str | None = None,
) -> ObjectField:
    """A field as its class declares it. `always_required`: it must be given even where null is allowed."""
    node = read(annotation)
    required = not has_default and (always_required or not node.nullable)
    return ObjectField(wire_name, argument, node, required, has_default, description or description_of(annotation))
