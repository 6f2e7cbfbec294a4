"""What a value will be, as far as annotations say it: a JSON Schema that can be walked and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from conductor.client.workflow.authoring_errors import UnknownOutput, suggest_name

#: The parts of a path: names between dots, and numbers in brackets.
_PART = re.compile(r"[^.\[\]]+|\[\d+\]|\['[^']*'\]")
_ANY: dict[str, Any] = {}


@dataclass(frozen=True)
class ValueType:
    """A schema, and the definitions that it refers to."""

    schema: Mapping[str, Any]
    definitions: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Mapping[str, Any] | None) -> ValueType | None:
        """The value_type that a whole schema describes."""
        return None if schema is None else cls(schema, schema.get("definitions", {}))

    def at(self, path: str, owner: str) -> ValueType:
        """The value_type of a part, as `items[0].price`. A field that cannot be there is an error."""
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

    def _either(self, schemas: list[Mapping[str, Any]]) -> ValueType:
        return ValueType(schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else _ANY, self.definitions)

    def _alternatives(self) -> Iterator[Mapping[str, Any]]:
        yield from self._expanded(self.schema)

    def _expanded(self, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            yield from self._expanded(self.definitions.get(name, _ANY))
            return
        inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
        if not inner:
            yield schema
        for one in inner:
            yield from self._expanded(one)

    def types(self) -> set[str] | None:
        """The JSON types that the value may have; None if that is not known."""
        types: set[str] = set()
        for schema in self._alternatives():
            named = schema.get("type")
            if named is None:
                return None
            types |= {named} if isinstance(named, str) else set(named)
        return types

    def fits(self, wanted: ValueType) -> bool:
        """Whether a value of this value_type may be one of the other, as far as the JSON types tell."""
        mine, theirs = self.types(), wanted.types()
        if not mine or not theirs:
            return True
        if "integer" in mine:
            mine = mine | {"number"}
        return bool((mine - {"null"}) & theirs) or mine <= {"null"}

    def __str__(self) -> str:
        return " or ".join(sorted((self.types() or {"any value"}) - {"null"})) or "null"


def _field(schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The schema of a field; None if there is no such field. What has no named fields may have any."""
    named = schema.get("type")
    if named is not None and "object" not in ([named] if isinstance(named, str) else named):
        return None
    properties = schema.get("properties")
    if properties:
        return properties.get(name)  # type: ignore[no-any-return]
    others = schema.get("additionalProperties")
    return others if isinstance(others, Mapping) else _ANY
