"""One reading of a worker function: how a task's input becomes its arguments, and the schemas that say so."""

from __future__ import annotations

import functools
import inspect
import types
import typing
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conductor.client.http.models.task import Task
from conductor.client.worker.conversion import InputError, NoSchemaError, read_annotation
from conductor.client.worker.conversion.annotation import docstring
from conductor.client.worker.conversion.constraints import description_of
from conductor.client.worker.conversion.hints import Unresolved, hints_of
from conductor.client.worker.conversion.node import Node, RawNode, Schema, SchemaWriter, member
from conductor.client.worker.conversion.objects import (
    ObjectField,
    lenient_readers,
    object_schema,
    read_fields,
    strict_readers,
)
from conductor.client.worker.conversion.returned import write_returned

__all__ = ["InputError", "Signature", "read_signature"]

_DRAFT = "http://json-schema.org/draft-07/schema#"
_cache: weakref.WeakKeyDictionary[Any, Signature] = weakref.WeakKeyDictionary()


def read_signature(function: Callable[..., Any]) -> Signature:
    """The reading of a function, made once.

    Wrappers made with `functools.wraps`, partials, bound methods and callable objects are seen through.
    """
    try:
        known = _cache.get(function)
    except TypeError:  # an object that cannot be a key
        return Signature(function)
    if known is None:
        known = Signature(function)
        if known.is_complete:  # a name that is not there yet may be there at the next reading
            _cache[function] = known
    return known


class Signature:
    """What a worker function takes and returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._code = _function_behind(function)
        self._hints = hints_of(self._code)
        #: False if a name in the annotations could not be found.
        self.is_complete = not any(isinstance(hint, Unresolved) for hint in self._hints.values())
        declared = _open_parameters(function)
        named = [p for p in declared if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        #: The parameter that receives the task itself, if there is one.
        self.task_parameter = self._name_of_task_parameter(named)
        #: Reads the input that no parameter names; None if there is no `**kwargs`.
        self.rest = next((self._node(p) for p in declared if p.kind is p.VAR_KEYWORD), None)
        self._positional = [p for p in named if p.kind is p.POSITIONAL_ONLY]
        self._fields = [self._field(p) for p in named if p.name != self.task_parameter]
        self._names = frozenset(p.name for p in named)
        self._strict = strict_readers(self._fields)
        self._lenient = [reader._replace(required=False) for reader in lenient_readers(self._fields)]

    def _name_of_task_parameter(self, named: Sequence[inspect.Parameter]) -> str | None:
        for parameter in named:
            if _is_task(self._hints.get(parameter.name)):
                return parameter.name
        if len(named) != 1 or named[0].name in self._hints or named[0].default is not inspect.Parameter.empty:
            return None
        return named[0].name

    def _field(self, parameter: inspect.Parameter) -> ObjectField:
        name, node = parameter.name, self._node(parameter)
        has_default = parameter.default is not parameter.empty
        required = not has_default and (not node.nullable or isinstance(node, RawNode))
        return ObjectField(name, name, node, required, has_default, description_of(self._hints.get(name)))

    def _node(self, parameter: inspect.Parameter) -> Node:
        return read_annotation(self._hints[parameter.name]) if parameter.name in self._hints else RawNode()

    def bind(self, task: Task, *, strict: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for a call with this task. Raises InputError for input that does not fit."""
        given = task.input_data
        if strict:
            self._refuse_unknown(given)
        kwargs = read_fields(given, self._strict if strict else self._lenient)
        if self.rest is not None:
            kwargs |= self._rest(given, self.rest.strict if strict else self.rest.lenient)
        if self.task_parameter is not None:
            kwargs[self.task_parameter] = task
        if not self._positional:
            return (), kwargs
        return tuple(kwargs.pop(p.name, p.default) for p in self._positional), kwargs

    def _refuse_unknown(self, given: dict[str, Any]) -> None:
        """The function has a place for every value: in a parameter, in `**kwargs`, or in the task."""
        if self.rest is not None or self.task_parameter is not None or given.keys() <= self._names:
            return
        unknown = next(name for name in given if name not in self._names)
        raise InputError(member(unknown), f"is not a parameter of {self._code.__name__}")

    def _rest(self, given: dict[str, Any], read: Callable[[Any], Any]) -> dict[str, Any]:
        rest = {}
        for name, value in given.items():
            if name not in self._names:
                try:
                    rest[name] = read(value)
                except InputError as error:
                    raise error.inside(member(name)) from None
        return rest

    def input_schema(self, strict: bool = False) -> Schema | None:
        """What the input may be, as JSON Schema draft-07; None if the annotations do not say it all."""
        if self.task_parameter is not None and not self._fields:
            return None
        return self._schema(self._write_input, strict)

    def _write_input(self, writer: SchemaWriter) -> Schema:
        additional: bool | Schema = not writer.strict or self.task_parameter is not None
        if self.rest is not None:
            additional = True if isinstance(self.rest, RawNode) else writer.write(self.rest)
        return object_schema(self._fields, writer, additional=additional, description=docstring(self._code))

    def output_schema(self, strict: bool = False) -> Schema | None:
        """What the output will be, as JSON Schema draft-07; None if the return annotation does not say."""
        if "return" not in self._hints:
            return None
        return self._schema(lambda writer: write_returned(self._hints["return"], writer), strict)

    def _schema(self, write: Callable[[SchemaWriter], Schema], strict: bool) -> Schema | None:
        writer = SchemaWriter(strict)
        try:
            schema = write(writer)
        except NoSchemaError:
            return None
        definitions = {"definitions": writer.definitions} if writer.definitions else {}
        return {"$schema": _DRAFT, **schema, **definitions}


def _function_behind(function: Callable[..., Any]) -> Any:
    """The function whose annotations count."""
    *_, innermost = _layers(function)
    if inspect.isroutine(innermost) or isinstance(innermost, type):
        return getattr(innermost, "__func__", innermost)
    *_, called = _layers(type(innermost).__call__)
    return called


def _layers(function: Any) -> Iterator[Any]:
    """The function, what it wraps, what that wraps, and so on."""
    while True:
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return


def _open_parameters(function: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    """The parameters that a call may still fill: not those that a partial has filled by name."""
    partials = [layer for layer in _layers(function) if isinstance(layer, functools.partial)]
    filled = {name for layer in partials for name in layer.keywords}
    return [p for name, p in inspect.signature(function).parameters.items() if name not in filled]


def _is_task(hint: Any) -> bool:
    if isinstance(hint, Unresolved):
        return hint.text.strip("'\"").rpartition(".")[2] == "Task"
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    kinds = [m for m in members if m is not types.NoneType]
    return len(kinds) == 1 and kinds[0] is Task
