"""Names for decoded JSON in annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

#: A decoded JSON value: None, a bool, a number, a text, a list or an object.
Json: TypeAlias = Any
#: A decoded JSON object.
JsonObject: TypeAlias = dict[str, Json]
