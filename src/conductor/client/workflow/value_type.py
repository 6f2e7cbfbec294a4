"""The JSON type of a value, as far as annotations define it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from conductor.client.workflow.authoring_errors import UnknownOutput, suggest_name

#: A part of a path: a name between dots, or a number or name in brackets.
_PART = re.compile(r"[^.\[\]]+|\[\d+\]|\['[^']*'\]")
#: A JSON schema or a part of one.
JsonSchema = Mapping[str, Any]
_ANY: JsonSchema = {}


@dataclass(frozen=True)
class ValueType:
    """A JSON schema and the definitions that it refers to."""

    schema: JsonSchema
    definitions: JsonSchema = field(default_factory=dict)

    @classmethod
    def from_schema(cls, schema: JsonSchema | None) -> ValueType | None:
        """Return the type that a JSON schema describes; None without a schema."""
        return None if schema is None else cls(schema, schema.get("definitions", {}))

    def at(self, path: str, owner: str) -> ValueType:
        """Return the type of a part, such as `items[0].price`.

        Args:
            path: The path of the part.
            owner: The name of the value, for the error message.

        Raises:
            UnknownOutput: The value has no such part.
        """
        value_type = self
        for part in _PART.findall(path):
            value_type = value_type._part(part, owner)
        return value_type

    def _part(self, part: str, owner: str) -> ValueType:
        alternatives = list(self._alternatives())
        if part.startswith("["):
            items = [schema.get("items", _ANY) for schema in alternatives]
            return self._either([item for item in items if isinstance(item, Mapping)])
        found = [schema for schema in (_field(schema, part) for schema in alternatives) if schema is not None]
        if not found:
            names = {name for schema in alternatives for name in schema.get("properties", {})}
            raise UnknownOutput(f"{owner} has no {part!r}; {suggest_name(part, names)}")
        return self._either(found)

    def has_field(self, name: str) -> bool:
        """Return whether a field of this name is declared."""
        return any(name in schema.get("properties", {}) for schema in self._alternatives())

    def _either(self, schemas: list[JsonSchema]) -> ValueType:
        return ValueType(schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else _ANY, self.definitions)

    def _alternatives(self) -> Iterator[JsonSchema]:
        yield from self._expand(self.schema)

    def _expand(self, schema: JsonSchema) -> Iterator[JsonSchema]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            yield from self._expand(self.definitions.get(name, _ANY))
            return
        inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
        if not inner:
            yield schema
        for one in inner:
            yield from self._expand(one)

    def types(self) -> set[str] | None:
        """Return the JSON types that the value may have; None if they are not known."""
        types: set[str] = set()
        for schema in self._alternatives():
            named = schema.get("type")
            if named is None:
                return None
            types |= {named} if isinstance(named, str) else set(named)
        return types

    def fits(self, other: ValueType) -> bool:
        """Return whether a value of this type can fit the other type. True if one of the types is not known."""
        mine, theirs = self.types(), other.types()
        if not mine or not theirs:
            return True
        if "integer" in mine:
            mine = mine | {"number"}
        return bool((mine - {"null"}) & theirs) or mine <= {"null"}

    def __str__(self) -> str:
        return " or ".join(sorted((self.types() or {"any value"}) - {"null"})) or "null"


def _field(schema: JsonSchema, name: str) -> JsonSchema | None:
    """Return the schema of a field; None if there is no such field. Without declared fields, every name is a field."""
    named = schema.get("type")
    if named is not None and "object" not in ([named] if isinstance(named, str) else named):
        return None
    properties = schema.get("properties")
    if properties:
        return properties.get(name)  # type: ignore[no-any-return]
    others = schema.get("additionalProperties")
    return others if isinstance(others, Mapping) else _ANY
