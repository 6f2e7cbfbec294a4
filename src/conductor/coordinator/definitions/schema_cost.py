"""Computes how much work a JSON schema can cause, before it validates anything.

A schema of two kilobytes can request the same check a million times, by chains of references that double or by
recursion that multiplies. A validator that runs inside a transaction must not meet such a schema.

The analysis visits every place of an input: the root, its properties and items, their properties and items, and so on.
For each place it counts which schemas apply, and how often. Schemas that apply to the same value (`$ref`, `allOf`, ...)
are added to the place; schemas for properties and items belong to the places below. A place with the same schemas and
counts as an earlier place is not visited again. So the walk of a recursive schema ends, unless each level checks more
often than the level above; then the count exceeds `MAX_CHECKS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from conductor.coordinator.definitions.plain_schema import MAX_BACKTRACKED_CHARS, PlainSchema, SchemaRejected
from conductor.protocol.json_types import Json, JsonObject

#: The longest chain of schemas that may apply to one value, linked by $ref, allOf and similar keywords. A schema with a
#: longer chain is rejected.
MAX_CHAIN = 100
#: A schema is rejected if it checks one value more often than this.
MAX_CHECKS = 1000
#: A schema is rejected if its analysis takes more steps than this.
MAX_STEPS = 50_000
#: An input that is nested deeper than `MAX_INPUT_DEPTH` is rejected. The depth multiplied by the length of the longest
#: chain of schemas must not exceed `MAX_NESTED_CHECKS`, because the validator recurses over both.
MAX_INPUT_DEPTH = 200
MAX_NESTED_CHECKS = 3000
#: An input is rejected if its validation would take more checks than this, which is about half a second.
MAX_WORK = 2_500_000
#: The cost of a character, in ordinary checks: in any text, and in a text that a backtracking pattern reads.
_COST_PER_CHAR = 0.05
_COST_PER_BACKTRACKED_CHAR = 10
#: The cost of a comparison or `multipleOf` with a fraction, in ordinary checks.
_COST_PER_FRACTION = 30
#: Keywords whose value is a schema, or a list of schemas, for the same value.
_SAME_VALUE_KEYWORDS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_PROPERTY_KEYWORDS = ("properties", "patternProperties", "additionalProperties", "propertyNames")

#: How often each schema applies at a place of an input, by the identity of the schema.
_Counts = Counter[int]
#: The schemas that apply at a place, each with its count.
_Applied = list[tuple[JsonObject, int]]


class SchemaCost(NamedTuple):
    """The most work that a schema causes for one value of an input."""

    #: Checks, weighted by their cost.
    checks: int
    #: The length of the longest chain of schemas.
    chain: int
    #: Checks by a backtracking pattern.
    backtracking: int

    def measure(self, value: Json) -> float:
        """Return how many checks the validation of an input takes at most.

        Raises:
            SchemaRejected: The input is too large or too deep for the schema.
        """
        size = _measure_input(value, MAX_WORK / self.checks)
        if size.depth > MAX_INPUT_DEPTH or size.depth * self.chain > MAX_NESTED_CHECKS:
            raise SchemaRejected(f"the input is nested {size.depth} levels deep, which is too deep to be checked")
        work = (size.values + size.chars * _COST_PER_CHAR) * self.checks
        work += size.backtracked_chars * _COST_PER_BACKTRACKED_CHAR * self.backtracking
        if work > MAX_WORK:
            raise SchemaRejected(
                f"checking the input would take more than {MAX_WORK} steps "
                f"(up to {self.checks} for each of its values); send a smaller input, or simplify the schema"
            )
        return work


class _InputSize(NamedTuple):
    values: int
    chars: int
    #: Characters of the texts that a backtracking pattern would see.
    backtracked_chars: int
    depth: int


def _measure_input(root: Json, max_values: float) -> _InputSize:
    """Return the size of an input. Stop counting when the input has too many values or is too deep."""
    values, chars, backtracked_chars, depth = 0, 0, 0, 0
    level = [root]
    while level and values <= max_values and depth <= MAX_INPUT_DEPTH:
        depth += 1
        below: list[Json] = []
        for value in level:
            values += 1
            if isinstance(value, str):
                chars += len(value)
                backtracked_chars += len(value) if len(value) <= MAX_BACKTRACKED_CHARS else 0
            elif isinstance(value, dict):
                name_chars = sum(map(len, value))
                chars += name_chars
                backtracked_chars += name_chars
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int):
                values += value.bit_length() // 64  # a number with dozens of digits is slow
            elif isinstance(value, float) and not 1e-15 < abs(value) < 1e15:
                values += 20  # a float with many zeros is slow
        level = below
    return _InputSize(values, chars, backtracked_chars, depth)


def measure_schema(plain: PlainSchema) -> SchemaCost:
    """Return the cost of a schema. Raises SchemaRejected if it exceeds a limit."""
    return _Analysis(plain).run()


class _Analysis:
    """The analysis of one schema, described in the module docstring."""

    def __init__(self, plain: PlainSchema) -> None:
        self._plain = plain
        self._steps = 0
        self._longest_chain = 1
        #: Three maps from the identity of a schema: to the schema, to the cost of one check, and to the schemas that it
        #: applies to the same value (itself included), with the length of their longest chain.
        self._nodes: dict[int, JsonObject] = {}
        self._weights: dict[int, int] = {}
        self._together: dict[int, tuple[_Counts, int]] = {}

    def run(self) -> SchemaCost:
        checks, backtracking = 1, 0
        pending = [Counter({self._key(self._plain.root): 1})]
        seen: set[frozenset[tuple[int, int]]] = set()
        while pending:
            place = pending.pop()
            state = frozenset(place.items())
            if state in seen or not state:
                continue
            seen.add(state)
            counts = _Counts()
            for key, times in place.items():
                for inner, count in self._expand(key, 0)[0].items():
                    self._count_steps()
                    counts[inner] += times * count
            _check_count(counts)
            checks = max(checks, sum(times * self._weight(key) for key, times in counts.items()))
            backtracking = max(backtracking, sum(counts[key] for key in counts if key in self._plain.backtracking))
            # JSON schema ignores the keywords beside a $ref.
            applied = [(self._nodes[key], times) for key, times in counts.items() if "$ref" not in self._nodes[key]]
            pending += self._property_places(applied)
            pending += self._item_places(applied)
        return SchemaCost(checks, self._longest_chain, backtracking)

    def _key(self, node: JsonObject) -> int:
        self._nodes[id(node)] = node
        return id(node)

    def _weight(self, key: int) -> int:
        if key not in self._weights:
            self._weights[key] = _weigh_schema(self._nodes[key])
        return self._weights[key]

    def _count_steps(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise SchemaRejected(f"its cost cannot be computed in {MAX_STEPS} steps; simplify the schema")

    def _expand(self, key: int, depth: int) -> tuple[_Counts, int]:
        """Count the schemas that this schema applies to the same value, itself included.

        Returns:
            The counts by schema, and the length of the longest chain.
        """
        if known := self._together.get(key):
            return known
        if depth > MAX_CHAIN:
            raise SchemaRejected(
                f"it refers to itself, or applies a chain of more than {MAX_CHAIN} schemas to one value"
            )
        counts, longest = Counter({key: 1}), 0
        for child in self._same_value_schemas(self._nodes[key]):
            child_counts, length = self._expand(self._key(child), depth + 1)
            longest = max(longest, length)
            for inner, times in child_counts.items():
                self._count_steps()
                counts[inner] += times
        _check_count(counts)
        if longest >= MAX_CHAIN:
            raise SchemaRejected(f"it applies a chain of more than {MAX_CHAIN} schemas to one value")
        self._longest_chain = max(self._longest_chain, longest + 1)
        self._together[key] = counts, longest + 1
        return self._together[key]

    def _same_value_schemas(self, node: JsonObject) -> Iterator[JsonObject]:
        target = self._plain.target(node)
        if target is not None:
            yield target
            return
        for keyword in _SAME_VALUE_KEYWORDS:
            value = node.get(keyword)
            yield from (
                schema for schema in (value if isinstance(value, list) else [value]) if isinstance(schema, dict)
            )
        dependencies = node.get("dependencies")
        if isinstance(dependencies, dict):
            yield from (schema for schema in dependencies.values() if isinstance(schema, dict))

    def _property_places(self, applied: _Applied) -> Iterator[_Counts]:
        """Yield the places below an object.

        They are the property names, the properties that no schema names, and each property that a schema names.
        """
        applied = [(node, times) for node, times in applied if any(keyword in node for keyword in _PROPERTY_KEYWORDS)]
        names: set[str] = set()
        every_property, property_name = _Counts(), _Counts()
        for node, times in applied:
            names |= node.get("properties", {}).keys()
            self._add(property_name, node.get("propertyNames"), times)
            # The analysis assumes that a pattern matches every name.
            for schema in node.get("patternProperties", {}).values():
                self._add(every_property, schema, times)
        yield property_name
        unnamed = every_property.copy()
        for node, times in applied:
            self._add(unnamed, node.get("additionalProperties"), times)
        yield unnamed
        for name in names:
            self._count_steps(len(every_property))
            place = every_property.copy()
            for node, times in applied:
                own = node.get("properties", {})
                self._add(place, own[name] if name in own else node.get("additionalProperties"), times)
            yield place

    def _item_places(self, applied: _Applied) -> Iterator[_Counts]:
        """Return the places below a list: each index that a schema names, and all later items."""
        applied = [(node, times) for node, times in applied if "items" in node or "contains" in node]
        longest = max((len(node["items"]) for node, _ in applied if isinstance(node.get("items"), list)), default=0)
        for index in range(longest + 1 if applied else 0):
            place = _Counts()
            for node, times in applied:
                items = node.get("items")
                if isinstance(items, list):
                    items = items[index] if index < len(items) else node.get("additionalItems")
                self._add(place, items, times)
                self._add(place, node.get("contains"), times + 1)  # `contains` costs more than other keywords
            yield place

    def _add(self, place: _Counts, schema: Json, times: int) -> None:
        self._count_steps()
        if isinstance(schema, dict):
            place[self._key(schema)] += times


def _check_count(counts: _Counts) -> None:
    if counts.total() > MAX_CHECKS:
        raise SchemaRejected(f"it checks one value more than {MAX_CHECKS} times")


def _weigh_schema(node: JsonObject) -> int:
    """Return the cost of checking a value against the keywords of one schema, without the schemas inside it.

    The unit is about 0.1 microseconds. Long lists of constants or properties, and numbers with a fraction, are slow.
    """
    allowed = [*node.get("enum", ()), *([node["const"]] if "const" in node else ())]
    names = len(node.get("properties", ())) // 4 + len(node.get("required", ())) // 2
    return 1 + round(sum(map(_weigh_constant, allowed))) + names + (_COST_PER_FRACTION if "multipleOf" in node else 0)


def _weigh_constant(constant: Json) -> float:
    """Return the cost of comparing a value with a constant."""
    if isinstance(constant, dict | list):
        return 5 + 2 * len(msgspec.json.encode(constant))
    return _COST_PER_FRACTION if isinstance(constant, float) else 0.1
