"""What annotations mean in JSON: one reading gives the converter and the schema.

`node` says what a reading promises, `annotation` finds the reading of a type, `scalars`, `containers` and `objects` are
the readings there are, `fields` what classes are made of, `constraints` what `Annotated` adds, `hints` how names in
annotations are found.
"""

from conductor.client.worker.conversion.annotation import read_annotation
from conductor.client.worker.conversion.node import InputError, NoSchemaError

__all__ = ["InputError", "NoSchemaError", "read_annotation"]
