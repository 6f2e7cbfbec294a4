"""The schema of what a worker returns, in the shape in which it becomes the task's output."""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import Any

from conductor.client.context.task_context import TaskInProgress
from conductor.client.http.models.task_result import TaskResult
from conductor.client.worker.conversion.annotation import read_annotation
from conductor.client.worker.conversion.containers import DictNode
from conductor.client.worker.conversion.libraries import PydanticNode
from conductor.client.worker.conversion.node import AnyNode, Node, NoSchemaError, Schema, SchemaWriter
from conductor.client.worker.conversion.objects import EitherFormNode, ObjectNode


def write_returned(annotation: Any, writer: SchemaWriter) -> Schema:
    """The schema of the output that a function with this return annotation gives."""
    members = _members(annotation)
    shapes = [_output(member, writer) for member in members if member is not types.NoneType]
    if not shapes:
        raise NoSchemaError("nothing is returned")
    if types.NoneType in members:
        shapes.append(_wrapped({"type": "null"}, writer))
    return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def wraps_result(annotation: Any) -> bool | None:
    """Whether a function with this return annotation gives `{"result": value}`; None if that is not clear."""
    try:
        nodes = [read_annotation(member) for member in _members(annotation) if member is not types.NoneType]
    except NoSchemaError:
        return None
    kinds = {_is_output_itself(node.table if isinstance(node, EitherFormNode) else node) for node in nodes}
    if any(isinstance(node, AnyNode) for node in nodes) or len(kinds) > 1:
        return None
    return not kinds or not kinds.pop()


def _members(annotation: Any) -> list[Any]:
    """What may be returned, without the word that there is no result yet."""
    origin = typing.get_origin(annotation)
    if origin in (collections.abc.Awaitable, collections.abc.Coroutine):
        return _members(typing.get_args(annotation)[-1])
    if origin is typing.Union or origin is types.UnionType:
        return [m for member in typing.get_args(annotation) for m in _members(member)]
    if annotation is TaskResult:
        raise NoSchemaError("TaskResult")
    if annotation is TaskInProgress:
        return []
    return [types.NoneType if annotation is None else annotation]


def _output(annotation: Any, writer: SchemaWriter) -> Schema:
    node = read_annotation(annotation)
    if isinstance(node, EitherFormNode):
        node = node.table
    schema = writer.write(node)
    if not schema:
        raise NoSchemaError("anything may be returned")
    return schema if _is_output_itself(node) else _wrapped(schema, writer)


def _wrapped(schema: Schema, writer: SchemaWriter) -> Schema:
    """The schema of `{"result": value}`, which is what a value that is no object becomes."""
    return {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
        "additionalProperties": not writer.strict,
    }


def _is_output_itself(node: Node) -> bool:
    return isinstance(node, (DictNode, ObjectNode, PydanticNode))
