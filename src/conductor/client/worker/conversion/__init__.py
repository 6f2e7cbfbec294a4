"""Converters: how JSON values become values of annotated types, and the JSON schemas of these types.

The modules in reading order:

- `converter`: the base class of converters, errors and the writer of schemas.
- `annotations`: finds the converter of an annotation. Start here.
- `scalars`: text, numbers, dates and other single values.
- `containers`: optional values, unions, arrays, tuples, dicts, objects, and bounds from `Annotated`.
- `classes`: the fields of classes, pydantic models and msgspec structs.
- `type_hints`: the annotations of functions and classes, with names resolved.
"""

from conductor.client.worker.conversion.annotations import read_annotation
from conductor.client.worker.conversion.converter import InputError, NoSchemaError

__all__ = ["InputError", "NoSchemaError", "read_annotation"]
