"""The signature of a worker function: converts the input of a task to arguments, and writes the schemas."""

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
from conductor.client.worker.parameters import UserFunction, list_open_parameters, unwrap_function

__all__ = ["InputError", "Signature", "list_missing_inputs", "read_signature"]

logger = logging.getLogger(__name__)

_DRAFT = "http://json-schema.org/draft-07/schema#"
_MISSING = "missing input: "
_REMEDY = "or give the parameter a default; strict_schema=True rejects such tasks"
#: The number of names of the input that a message lists.
MAX_NAMES_LISTED = 10
_cache: weakref.WeakKeyDictionary[Any, Signature] = weakref.WeakKeyDictionary()


def read_signature(function: UserFunction) -> Signature:
    """Return the signature of a function, which is cached.

    The function may be behind wrappers of `functools.wraps`, partials, bound methods and callable objects.
    """
    try:
        known = _cache.get(function)
    except TypeError:  # a callable object that is not hashable
        return Signature(function)
    if known is None:
        known = Signature(function)
        if known.is_complete:  # undefined names in annotations may be defined before the next call
            _cache[function] = known
    return known


class Signature:
    """The parameters and the result of a worker function."""

    def __init__(self, function: UserFunction) -> None:
        self._code = unwrap_function(function)
        self._hints = resolve_hints(self._code)
        #: Whether all names in the annotations are defined.
        self.is_complete = not any(isinstance(hint, Unresolved) for hint in self._hints.values())
        parameters = list_open_parameters(function)
        #: The dependencies among the parameters, by name.
        self.injected = find_dependencies(parameters, self._hints, self._code.__name__)
        declared = [p for p in parameters if p.name not in self.injected]
        named = [p for p in declared if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        #: The parameter that receives the task.
        self.task_parameter = self._find_task_parameter(named)
        #: Converts the input for `**kwargs`; None without them.
        self.rest = next((self._find_converter(p) for p in declared if p.kind is p.VAR_KEYWORD), None)
        self._positional = [p for p in named if p.kind is p.POSITIONAL_ONLY]
        self._fields = [self._make_field(p) for p in named if p.name != self.task_parameter]
        self._names = frozenset(p.name for p in named)
        self._required = [field for field in self._fields if field.required]
        self._warned: set[tuple[str, str]] = set()
        self._strict = make_readers(self._fields, strict=True)
        self._lenient = [reader._replace(required=False) for reader in make_readers(self._fields, strict=False)]

    def _find_task_parameter(self, named: Sequence[inspect.Parameter]) -> str | None:
        for parameter in named:
            if _is_task(self._hints.get(parameter.name)):
                return parameter.name
        if len(named) != 1 or named[0].name in self._hints or named[0].default is not inspect.Parameter.empty:
            return None
        return named[0].name

    def _make_field(self, parameter: inspect.Parameter) -> ObjectField:
        name, converter = parameter.name, self._find_converter(parameter)
        has_default = parameter.default is not parameter.empty
        required = not has_default and (not converter.nullable or isinstance(converter, RawConverter))
        return ObjectField(name, name, converter, required, has_default, find_description(self._hints.get(name)))

    def _find_converter(self, parameter: inspect.Parameter) -> Converter:
        return read_annotation(self._hints[parameter.name]) if parameter.name in self._hints else RawConverter()

    @property
    def fields(self) -> Sequence[ObjectField]:
        """The parameters that the input of a task fills."""
        return self._fields

    @property
    def wraps_result(self) -> bool | None:
        """Whether the output is `{"result": value}`; None if the annotation does not say."""
        return wraps_result(self._hints["return"]) if "return" in self._hints else None

    def bind(self, task: Task, *, strict: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments for a call with this task.

        Raises:
            InputError: The input does not fit the parameters.
        """
        given = task.input_data
        if strict:
            self._reject_unknown(given)
        kwargs = read_fields(given, self._strict if strict else self._lenient)
        if self.rest is not None:
            kwargs |= self._read_rest(given, self.rest.read_strict if strict else self.rest.read_lenient)
        if self.task_parameter is not None:
            kwargs[self.task_parameter] = task
        if not self._positional:
            return (), kwargs
        return tuple(kwargs.pop(p.name, p.default) for p in self._positional), kwargs

    def call(self, function: UserFunction, task: Task, *, strict: bool = False) -> Any:
        """Call the function with this task. The call of a coroutine function returns its coroutine."""
        args, kwargs = self.bind(task, strict=strict)
        missing = [] if strict else self._find_missing(task.input_data)
        if not missing:
            return function(*args, **kwargs)
        self._warn_once(missing, task)
        try:
            value = function(*args, **kwargs)
        except (TypeError, AttributeError) as error:
            _add_note(error, missing, task)
            raise
        return _await_with_note(value, missing, task) if inspect.isawaitable(value) else value

    def _find_missing(self, given: dict[str, Any]) -> list[str]:
        """Return the required parameters without a value. For a parameter with an annotation, null is not a value."""
        return [
            field.argument
            for field in self._required
            if given.get(field.wire_name) is None
            and not (isinstance(field.converter, RawConverter) and field.wire_name in given)
        ]

    def _warn_once(self, missing: Sequence[str], task: Task) -> None:
        for name in missing:
            if (task.task_def_name, name) not in self._warned:
                self._warned.add((task.task_def_name, name))
                logger.warning(
                    "Task without a required input: worker='%s'; %s",
                    task.task_def_name,
                    _describe_missing([name], task),
                )

    @property
    def faults(self) -> Iterator[str]:
        """Messages about annotations with undefined names."""
        for name, hint in self._hints.items():
            if isinstance(hint, Unresolved) and name != self.task_parameter:
                function = self._code.__name__
                where = f"the result of {function}" if name == "return" else f"parameter '{name}' of {function}"
                yield f"the annotation {hint.text} of {where} cannot be resolved and is ignored"

    def caller(self, function: UserFunction, *, strict: bool = False) -> Callable[[Task], Any]:
        """Return a function that calls the worker function with the arguments from a task."""
        exact = [(field.wire_name, field.argument, field.converter.exact) for field in self._fields]
        if strict or self.rest or self.task_parameter or self._positional or any(kind is None for *_, kind in exact):
            return lambda task: self.call(function, task, strict=strict)

        def call(task: Task) -> Any:
            # The common case: all values are present and have exactly the annotated types.
            given, kwargs = task.input_data, {}
            for wire_name, argument, kind in exact:
                value = given.get(wire_name)
                if type(value) is not kind:
                    return self.call(function, task)
                kwargs[argument] = value
            return function(**kwargs)

        return call

    def _reject_unknown(self, given: dict[str, Any]) -> None:
        """Reject input keys that no parameter, no `**kwargs` and no task parameter receives."""
        if self.rest is not None or self.task_parameter is not None or given.keys() <= self._names:
            return
        unknown = next(name for name in given if name not in self._names)
        raise InputError(format_key(unknown), f"is not a parameter of {self._code.__name__}")

    def _read_rest(self, given: dict[str, Any], read: Callable[[Any], Any]) -> dict[str, Any]:
        rest = {}
        for name, value in given.items():
            if name not in self._names and name not in self.injected:
                try:
                    rest[name] = read(value)
                except InputError as error:
                    raise error.add_parent(format_key(name)) from None
        return rest

    def input_schema(self, strict: bool = False) -> Schema | None:
        """Return the JSON schema (draft-07) of the input; None if an annotation has no schema."""
        if self.task_parameter is not None and not self._fields:
            return None
        return self._write_schema(self._write_input, strict)

    def _write_input(self, writer: SchemaWriter) -> Schema:
        additional: bool | Schema = not writer.strict or self.task_parameter is not None
        if self.rest is not None:
            additional = True if isinstance(self.rest, RawConverter) else writer.write(self.rest)
        return write_object_schema(self._fields, writer, additional=additional, description=read_docstring(self._code))

    def output_schema(self, strict: bool = False) -> Schema | None:
        """Return the JSON schema (draft-07) of the output; None if the return annotation has no schema."""
        if "return" not in self._hints:
            return None
        return self._write_schema(lambda writer: write_output_schema(self._hints["return"], writer), strict)

    def _write_schema(self, write: Callable[[SchemaWriter], Schema], strict: bool) -> Schema | None:
        writer = SchemaWriter(strict)
        try:
            schema = write(writer)
        except NoSchemaError:
            return None
        if writer.omitted:
            omitted = ", ".join(dict.fromkeys(writer.omitted))
            logger.warning("Schema of %s omits rules that JSON Schema cannot express: %s", self._code.__name__, omitted)
        definitions = {"definitions": writer.definitions} if writer.definitions else {}
        return {"$schema": _DRAFT, **schema, **definitions}


def list_missing_inputs(error: BaseException) -> list[str]:
    """Return the notes about missing inputs that `Signature.call` has added to an error."""
    return [note for note in getattr(error, "__notes__", ()) if note.startswith(_MISSING)]


def _add_note(error: Exception, missing: Sequence[str], task: Task) -> None:
    error.add_note(_MISSING + _describe_missing(missing, task))


def _describe_missing(missing: Sequence[str], task: Task) -> str:
    """Return why parameters have no value: the input has no such name, or an expression of the step is null."""
    sentences = []
    absent = [name for name in missing if name not in task.input_data]
    if absent:
        names = " and ".join(f"'{name}'" for name in absent)
        given = ", ".join(f"'{name}'" for name in list(task.input_data)[:MAX_NAMES_LISTED]) or "nothing"
        verb = "was" if len(absent) == 1 else "were"
        sentences.append(f"{names} {verb} not given and became None; the input has {given}. Correct the name")
    step = task.workflow_task
    expressions = (step.input_parameters if step is not None else None) or {}
    for name in missing:
        if name not in absent:
            text = expressions.get(name)
            if isinstance(text, str) and "${" in text:
                remedy = "Set the secret" if "${workflow.secrets." in text else "Correct the expression"
                sentences.append(f"'{name}' became None, because {text} has no value. {remedy}")
            else:
                sentences.append(f"'{name}' is null in the input and became None. Pass a value")
    return ". ".join(sentences) + f", {_REMEDY}"


async def _await_with_note(value: Awaitable[Any], missing: Sequence[str], task: Task) -> Any:
    try:
        return await value
    except (TypeError, AttributeError) as error:
        _add_note(error, missing, task)
        raise


def _is_task(hint: Any) -> bool:
    if isinstance(hint, Unresolved):
        return hint.text.strip("'\"").rpartition(".")[2] == "Task"
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    kinds = [m for m in members if m is not types.NoneType]
    return len(kinds) == 1 and kinds[0] is Task
