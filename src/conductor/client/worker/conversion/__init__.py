"""What annotations mean in JSON: one reading gives the converter and the schema.

In reading order:

- `node`: what one reading of a type promises.
- `annotation`: finds the reading of a type; start here.
- `scalars`: text, numbers, dates and the like.
- `containers`: optional values, unions, arrays, tuples and tables.
- `objects`: types made of named fields.
- `constraints`: the bounds and descriptions that `Annotated` adds.
- `declared`: the annotations of a function, and the fields that a class declares.
- `libraries`: what pydantic models and msgspec structs say beyond their fields.
- `returned`: the schema of what a function returns.
"""

from conductor.client.worker.conversion.annotation import read_annotation
from conductor.client.worker.conversion.node import InputError, NoSchemaError

__all__ = ["InputError", "NoSchemaError", "read_annotation"]
