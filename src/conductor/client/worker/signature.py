"""One reading of a worker function: how a task's input becomes its arguments, and the schemas that say so."""

from __future__ import annotations

import inspect
import logging
import types
import typing
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from conductor.client.http.models.task import Task
from conductor.client.worker.conversion import InputError, NoSchemaError, read_annotation
from conductor.client.worker.conversion.annotations import wraps_result, write_output_schema
from conductor.client.worker.conversion.classes import read_docstring
from conductor.client.worker.conversion.containers import (
    ObjectField,
    find_description,
    make_readers,
    read_fields,
    write_object_schema,
)
from conductor.client.worker.conversion.converter import Converter, RawConverter, Schema, SchemaWriter, format_key
from conductor.client.worker.conversion.type_hints import Unresolved, resolve_hints
from conductor.client.worker.dependencies import find_dependencies
from conductor.client.worker.parameters import list_open_parameters, unwrap_function

__all__ = ["InputError", "Signature", "missing_inputs_of", "read_signature"]

logger = logging.getLogger(__name__)

_DRAFT = "http://json-schema.org/draft-07/schema#"
_MISSING = "missing input: "
_WAYS_OUT = "Give the parameter a default, or refuse such tasks with strict_schema=True"
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
        self._code = unwrap_function(function)
        self._hints = resolve_hints(self._code)
        #: False if a name in the annotations could not be found.
        self.is_complete = not any(isinstance(hint, Unresolved) for hint in self._hints.values())
        parameters = list_open_parameters(function)
        #: The parameters that are no input: who provides them, by name.
        self.injected = find_dependencies(parameters, self._hints, self._code.__name__)
        declared = [p for p in parameters if p.name not in self.injected]
        named = [p for p in declared if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        #: The parameter that receives the task itself, if there is one.
        self.task_parameter = self._name_of_task_parameter(named)
        #: Reads the input that no parameter names; None if there is no `**kwargs`.
        self.rest = next((self._node(p) for p in declared if p.kind is p.VAR_KEYWORD), None)
        self._positional = [p for p in named if p.kind is p.POSITIONAL_ONLY]
        self._fields = [self._field(p) for p in named if p.name != self.task_parameter]
        self._names = frozenset(p.name for p in named)
        self._required = [field for field in self._fields if field.required]
        self._warned_of: set[tuple[str, str]] = set()
        self._strict = make_readers(self._fields, strict=True)
        self._lenient = [reader._replace(required=False) for reader in make_readers(self._fields, strict=False)]

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
        required = not has_default and (not node.nullable or isinstance(node, RawConverter))
        return ObjectField(name, name, node, required, has_default, find_description(self._hints.get(name)))

    def _node(self, parameter: inspect.Parameter) -> Converter:
        return read_annotation(self._hints[parameter.name]) if parameter.name in self._hints else RawConverter()

    @property
    def fields(self) -> Sequence[ObjectField]:
        """The parameters that the task's input fills."""
        return self._fields

    @property
    def wraps_result(self) -> bool | None:
        """Whether what is returned travels as `{"result": value}`; None if the annotation does not say."""
        return wraps_result(self._hints["return"]) if "return" in self._hints else None

    def bind(self, task: Task, *, strict: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for a call with this task. Raises InputError for input that does not fit."""
        given = task.input_data
        if strict:
            self._reject_unknown(given)
        kwargs = read_fields(given, self._strict if strict else self._lenient)
        if self.rest is not None:
            kwargs |= self._rest(given, self.rest.read_strict if strict else self.rest.read_lenient)
        if self.task_parameter is not None:
            kwargs[self.task_parameter] = task
        if not self._positional:
            return (), kwargs
        return tuple(kwargs.pop(p.name, p.default) for p in self._positional), kwargs

    def call(self, function: Callable[..., Any], task: Task, *, strict: bool = False) -> Any:
        """Call the function with this task; a coroutine function's coroutine is returned."""
        args, kwargs = self.bind(task, strict=strict)
        missing = [] if strict else self._missing(task.input_data)
        if not missing:
            return function(*args, **kwargs)
        self._warn_of(missing, task.task_def_name)
        try:
            value = function(*args, **kwargs)
        except (TypeError, AttributeError) as error:
            _explain(error, missing)
            raise
        return _awaited(value, missing) if inspect.isawaitable(value) else value

    def _missing(self, given: dict[str, Any]) -> list[str]:
        """The required parameters that the input has no value for. A parameter without annotation takes null, too."""
        return [
            field.argument
            for field in self._required
            if given.get(field.wire_name) is None
            and not (isinstance(field.converter, RawConverter) and field.wire_name in given)
        ]

    def _warn_of(self, missing: Sequence[str], worker_name: str) -> None:
        for name in missing:
            if (worker_name, name) not in self._warned_of:
                self._warned_of.add((worker_name, name))
                logger.warning(
                    "worker '%s': a task came without '%s', which is now None. %s", worker_name, name, _WAYS_OUT
                )

    @property
    def faults(self) -> Iterator[str]:
        """What is wrong with the function, for people: annotations whose names could not be found."""
        for name, hint in self._hints.items():
            if isinstance(hint, Unresolved) and name != self.task_parameter:
                function = self._code.__name__
                where = f"what {function} returns" if name == "return" else f"parameter '{name}' of {function}"
                yield f"the annotation {hint.text} of {where} cannot be resolved and is ignored"

    def caller(self, function: Callable[..., Any], *, strict: bool = False) -> Callable[[Task], Any]:
        """Calls the function with the arguments that a task gives it."""
        exact = [(field.wire_name, field.argument, field.converter.exact) for field in self._fields]
        if strict or self.rest or self.task_parameter or self._positional or any(kind is None for *_, kind in exact):
            return lambda task: self.call(function, task, strict=strict)

        def call(task: Task) -> Any:
            # What is there, and of the very type that is asked for, needs no reading; as almost always.
            given, kwargs = task.input_data, {}
            for wire_name, argument, kind in exact:
                value = given.get(wire_name)
                if type(value) is not kind:
                    return self.call(function, task)
                kwargs[argument] = value
            return function(**kwargs)

        return call

    def _reject_unknown(self, given: dict[str, Any]) -> None:
        """The function has a place for every value: in a parameter, in `**kwargs`, or in the task."""
        if self.rest is not None or self.task_parameter is not None or given.keys() <= self._names:
            return
        unknown = next(name for name in given if name not in self._names)
        raise InputError(format_key(unknown), f"is not a parameter of {self._code.__name__}")

    def _rest(self, given: dict[str, Any], read: Callable[[Any], Any]) -> dict[str, Any]:
        rest = {}
        for name, value in given.items():
            if name not in self._names and name not in self.injected:
                try:
                    rest[name] = read(value)
                except InputError as error:
                    raise error.add_parent(format_key(name)) from None
        return rest

    def input_schema(self, strict: bool = False) -> Schema | None:
        """What the input may be, as JSON Schema draft-07; None if the annotations do not say it all."""
        if self.task_parameter is not None and not self._fields:
            return None
        return self._schema(self._write_input, strict)

    def _write_input(self, writer: SchemaWriter) -> Schema:
        additional: bool | Schema = not writer.strict or self.task_parameter is not None
        if self.rest is not None:
            additional = True if isinstance(self.rest, RawConverter) else writer.write(self.rest)
        return write_object_schema(self._fields, writer, additional=additional, description=read_docstring(self._code))

    def output_schema(self, strict: bool = False) -> Schema | None:
        """What the output will be, as JSON Schema draft-07; None if the return annotation does not say."""
        if "return" not in self._hints:
            return None
        return self._schema(lambda writer: write_output_schema(self._hints["return"], writer), strict)

    def _schema(self, write: Callable[[SchemaWriter], Schema], strict: bool) -> Schema | None:
        writer = SchemaWriter(strict)
        try:
            schema = write(writer)
        except NoSchemaError:
            return None
        if writer.omitted:
            what = ", ".join(dict.fromkeys(writer.omitted))
            logger.warning("the schema of %s leaves out what JSON Schema cannot express: %s", self._code.__name__, what)
        definitions = {"definitions": writer.definitions} if writer.definitions else {}
        return {"$schema": _DRAFT, **schema, **definitions}


def missing_inputs_of(error: BaseException) -> list[str]:
    """What `Signature.call` noted about inputs that were missing when this error came."""
    return [note for note in getattr(error, "__notes__", ()) if note.startswith(_MISSING)]


def _explain(error: Exception, missing: Sequence[str]) -> None:
    names = " and ".join(f"'{name}'" for name in missing)
    error.add_note(f"{_MISSING}{names} {'was' if len(missing) == 1 else 'were'} not given and became None. {_WAYS_OUT}")


async def _awaited(value: Awaitable[Any], missing: Sequence[str]) -> Any:
    try:
        return await value
    except (TypeError, AttributeError) as error:
        _explain(error, missing)
        raise


def _is_task(hint: Any) -> bool:
    if isinstance(hint, Unresolved):
        return hint.text.strip("'\"").rpartition(".")[2] == "Task"
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    kinds = [m for m in members if m is not types.NoneType]
    return len(kinds) == 1 and kinds[0] is Task
