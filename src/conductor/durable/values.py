"""Converts results and exceptions of steps to JSON for the record, and back for a replay."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from conductor.client.worker.conversion import InputError, read_annotation
from conductor.client.worker.conversion.converter import Converter, RawConverter
from conductor.client.worker.conversion.type_hints import Unresolved, resolve_hints
from conductor.client.worker.output import encode_value
from conductor.client.worker.parameters import unwrap_function
from conductor.common.text import escape_surrogates
from conductor.durable.errors import CallFailed, DurableError, StepFailed
from conductor.protocol.steps import Step, StepError, StepKind, raw_bytes

#: Limits of a recorded exception: a longer message is cut, and larger arguments or attributes are not stored.
MAX_MESSAGE_CHARS = 10_000
MAX_DETAIL_BYTES = 64 * 1024

#: The recorded type of the exception of a step that its program has cancelled.
_CANCELLED = f"{asyncio.CancelledError.__module__}:{asyncio.CancelledError.__qualname__}"

_decode = msgspec.json.decode


def encode_result(value: object, step: str) -> bytes:
    """Encode the result of a step like a task's output.

    Raises:
        OutputError: The result cannot be sent as JSON.
    """
    return encode_value(value, f"the result of step {step}")


def decode_result(encoded: bytes, function: Callable[..., Any], step: str) -> Any:
    """Convert the JSON of a result to the type of the return annotation of the step's function.

    Raises:
        DurableError: The result does not match the annotation.
    """
    value = _decode(encoded)
    converter = _find_converter(function)
    if converter is None:
        return value
    try:
        return converter.read_lenient(value)
    except InputError as error:
        annotation = converter.name
        raise DurableError(
            f"the result of step {step} cannot be converted from JSON to {annotation}: {error}; "
            "return a type that can be stored as JSON, or correct the return annotation"
        ) from None


def _find_converter(function: Callable[..., Any]) -> Converter | None:
    """Return the converter of the return annotation; None without one."""
    code = unwrap_function(function)
    try:
        if isinstance(code, type):
            return read_annotation(code)
        hint = resolve_hints(code).get("return")
    except Exception:  # annotations may be any expression and raise any error
        return None
    if hint is None or isinstance(hint, Unresolved):
        return None
    found = read_annotation(hint)
    return None if isinstance(found, RawConverter) else found


def encode_error(error: BaseException) -> StepError:
    """Describe an exception, so that `make_error` can create the same exception on a replay."""
    name = f"{type(error).__module__}:{type(error).__qualname__}"
    try:
        message = escape_surrogates(str(error))[:MAX_MESSAGE_CHARS]
    except Exception:
        message = "(its message cannot be read)"
    fields: dict[Any, Any] = vars(error)  # a name can be any object
    names = [name for name in fields if isinstance(name, str) and not name.startswith("__")]
    attributes = {name: _encode_detail(fields[name]) for name in names}
    # The file names of an OSError are not in its `args`. A subclass may override `__reduce__`.
    args = OSError.__reduce__(error)[1] if isinstance(error, OSError) else error.args
    return StepError(name, message, _encode_detail(list(args)), _join(attributes))


def _encode_detail(value: object) -> msgspec.Raw | msgspec.UnsetType:
    """Return the value as JSON. Return UNSET if the value is too large or cannot be JSON."""
    try:
        encoded = encode_value(value, "exception")
    except Exception:  # the code of the object may raise anything
        return msgspec.UNSET
    return msgspec.Raw(encoded) if len(encoded) <= MAX_DETAIL_BYTES else msgspec.UNSET


def _join(attributes: dict[str, msgspec.Raw | msgspec.UnsetType]) -> msgspec.Raw | msgspec.UnsetType:
    """Return encoded attributes as one JSON object, without those that are UNSET."""
    encoded = msgspec.json.encode({key: value for key, value in attributes.items() if value is not msgspec.UNSET})
    return msgspec.Raw(encoded) if len(encoded) <= MAX_DETAIL_BYTES else msgspec.UNSET


def make_error(step: Step) -> Exception:
    """Create the exception of a failed step: of the original class if the program has imported that class."""
    error = step.error or StepError("", "no reason given")
    if step.kind is StepKind.WORKFLOW:
        return CallFailed(step.workflow_name or step.name, step.workflow_id, error.message)
    found = _find_class(error.type)
    if found is not None and raw_bytes(error.args):
        made: Exception
        try:
            args = _decode(raw_bytes(error.args))
            if issubclass(found, UnicodeDecodeError):
                args[1] = base64.b64decode(args[1])
            # Do not call `__init__`, which may take other arguments than those in `args`.
            made = found.__new__(found, *args)
            if not isinstance(made, OSError):  # `__new__` of an OSError has already set its attributes
                # The `__init__` of the built-in class sets the message of a SyntaxError or a UnicodeError.
                builtin: Any = next(base for base in found.__mro__ if base.__module__ == "builtins")
                builtin.__init__(made, *args)
                made.args = tuple(args)
            if raw_bytes(error.attributes):
                vars(made).update(_decode(raw_bytes(error.attributes)))
            str(made)
        except Exception:  # the code of the class may raise anything
            made = StepFailed(step.key, error.type, error.message)
        return made
    return StepFailed(step.key, error.type, error.message)


def _find_class(name: str) -> type[Exception] | None:
    """Return an exception class of an imported module. Stored data must not make the worker import a module."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def is_cancelled(step: Step) -> bool:
    """Return whether the program had cancelled a step, for example because another branch of a TaskGroup had failed."""
    return step.error is not None and step.error.type == _CANCELLED
