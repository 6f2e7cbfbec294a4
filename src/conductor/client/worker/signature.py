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
from conductor.client.worker.conversion.objects import ObjectField, object_schema
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


class Parameter(typing.NamedTuple):
    """One parameter and how it is filled."""

    name: str
    node: Node
    takes_task: bool
    positional: bool
    default: Any  # inspect.Parameter.empty if there is none
    description: str | None

    @property
    def has_default(self) -> bool:
        """Whether it may be left out of the call."""
        return self.default is not inspect.Parameter.empty

    @property
    def required(self) -> bool:
        """Whether strict input must name it."""
        return not self.has_default and not (self.node.nullable and not isinstance(self.node, RawNode))


class Signature:
    """What a worker function takes and returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._code = _function_behind(function)
        self._hints = hints_of(self._code)
        #: False if a name in the annotations could not be found.
        self.is_complete = not any(isinstance(hint, Unresolved) for hint in self._hints.values())
        declared = _open_parameters(function)
        named = [p for p in declared if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        task_name = self._name_of_task_parameter(named)
        self.parameters = [self._parameter(p, p.name == task_name) for p in named]
        #: Reads the input that no parameter names; None if there is no `**kwargs`.
        self.rest = next((self._node(p) for p in declared if p.kind is p.VAR_KEYWORD), None)
        self._known = frozenset(p.name for p in self.parameters if not p.takes_task)
        self._takes_task = task_name is not None

    def _name_of_task_parameter(self, named: Sequence[inspect.Parameter]) -> str | None:
        for parameter in named:
            if _is_task(self._hints.get(parameter.name)):
                return parameter.name
        if len(named) != 1 or named[0].name in self._hints or named[0].default is not inspect.Parameter.empty:
            return None
        return named[0].name

    def _parameter(self, parameter: inspect.Parameter, takes_task: bool) -> Parameter:
        positional = parameter.kind is parameter.POSITIONAL_ONLY
        description = description_of(self._hints.get(parameter.name))
        node = RawNode() if takes_task else self._node(parameter)
        return Parameter(parameter.name, node, takes_task, positional, parameter.default, description)

    def _node(self, parameter: inspect.Parameter) -> Node:
        return read_annotation(self._hints[parameter.name]) if parameter.name in self._hints else RawNode()

    def bind(self, task: Task, *, strict: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for a call with this task. Raises InputError for input that does not fit."""
        given = task.input_data
        if strict and self.rest is None and not self._takes_task:
            self._refuse_unknown(given)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter in self.parameters:
            value = task if parameter.takes_task else _value(parameter, given, strict)
            if parameter.positional:
                args.append(parameter.default if value is _LEFT_OUT else value)
            elif value is not _LEFT_OUT:
                kwargs[parameter.name] = value
        if self.rest is not None:
            kwargs |= self._rest(given, strict)
        return tuple(args), kwargs

    def _refuse_unknown(self, given: dict[str, Any]) -> None:
        for name in given:
            if name not in self._known:
                raise InputError(member(name), f"is not a parameter of {self._code.__name__}")

    def _rest(self, given: dict[str, Any], strict: bool) -> dict[str, Any]:
        taken = {parameter.name for parameter in self.parameters}
        rest = {}
        for name, value in given.items():
            if name not in taken and self.rest is not None:
                rest[name] = _read(self.rest, name, value, strict)
        return rest

    def input_schema(self, strict: bool = False) -> Schema | None:
        """What the input may be, as JSON Schema draft-07; None if the annotations do not say it all."""
        named = [p for p in self.parameters if not p.takes_task]
        if self._takes_task and not named:
            return None
        fields = [ObjectField(p.name, p.name, p.node, p.required, p.has_default, p.description) for p in named]
        return self._schema(lambda writer: self._write_input(fields, writer), strict)

    def _write_input(self, fields: Sequence[ObjectField], writer: SchemaWriter) -> Schema:
        additional: bool | Schema = not writer.strict or self._takes_task
        if self.rest is not None:
            additional = True if isinstance(self.rest, RawNode) else writer.write(self.rest)
        return object_schema(fields, writer, additional=additional, description=docstring(self._code))

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


_LEFT_OUT: Any = object()


def _value(parameter: Parameter, given: dict[str, Any], strict: bool) -> Any:
    value = given.get(parameter.name)
    if strict:
        if parameter.name in given:
            return _read(parameter.node, parameter.name, value, strict)
        if parameter.required:
            raise InputError(parameter.name, f"is missing (expected {parameter.node.name})")
    elif value is not None or (parameter.node.nullable and parameter.name in given):
        # Otherwise it is missing, or null where null means nothing: what an unresolved ${expression} leaves behind.
        return _read(parameter.node, parameter.name, value, strict)
    return _LEFT_OUT if parameter.has_default else None


def _read(node: Node, name: str, value: Any, strict: bool) -> Any:
    try:
        return node.strict(value) if strict else node.lenient(value)
    except InputError as error:
        raise error.inside(member(name)) from None


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
