"""What a JSON schema means, and how much work it can make: known before it is ever used.

A schema of two kilobytes can ask for the same check a million times over: by chains of references that double, or by
recursion that multiplies. So each schema is walked once, by the places of an input that its parts apply to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urldefrag, urljoin

import msgspec

#: So is one that is nested deeper than this.
MAX_SCHEMA_DEPTH = 200
_TOO_DEEP = f"it is nested more than {MAX_SCHEMA_DEPTH} levels deep"
#: And one that leads, by $ref, allOf and the like, through more schemas than this for one and the same value.
MAX_CHAIN = 100
#: How often one value may be checked. Chains that double, and recursion that multiplies, go beyond every number.
MAX_CHECKS = 1000
#: How much of a schema is looked at to find that out.
MAX_STEPS = 50_000
#: what it costs with the others.
MAX_TRIED_LENGTH = 10_000
MAX_TRIES = 1000
_PER_TRIED_LETTER = 10
_PER_LETTER = 0.05
#: What it costs to compare or divide a number with a fraction.
_PER_FRACTION = 30
#: Keywords whose value is a schema, or a list of them, for the very same value.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
#: Keywords whose value has names for keys and schemas for values.
_MAPS = ("properties", "patternProperties", "definitions", "$defs", "dependencies")
#: Keywords whose value is data: what looks like a schema in there is none.
_DATA = ("enum", "const", "required", "default", "examples")
#: Keywords that decide nothing, or are dealt with here.
_LEFT_OUT = ("$id", "$schema", "$comment", "nullable", "default", "examples", "contentEncoding", "contentMediaType")
#: Ends of a pattern that mean what `$` alone means in a JSON schema. Python needs the longer ones.
_ENDS = (r"$(?!\n)", r"(?!\n)$")
#: Where the schemas true and false stand for those that refer to one of them.
_TRUE_AND_FALSE = "true and false"


#: Of what a message says, this much of the beginning and of the end.
MAX_SAID = 300


class SchemaRefused(Exception):
    """A schema that cannot be used; the message says why."""


@dataclass(slots=True)
class _Found:
    """A schema inside a schema: where it is in the plain one, and what its references are relative to."""

    pointer: str
    base: str


class PlainSchema:
    """A schema in plain words: every $ref is a pointer from the root, no $id, no `nullable`.

    `nullable: true`, as the schemas of workers use it, lets null pass whatever else the schema asks.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._found: dict[int, _Found] = {}
        self._resources: dict[str, dict[str, Any]] = {"": schema}
        self._anchors: dict[str, dict[str, Any]] = {}
        #: By the identity of the schema as it was given, and of a plain schema with a $ref what it refers to.
        self._built: dict[int, dict[str, Any]] = {}
        self._refers: dict[int, int | bool] = {}
        #: Those whose pattern is tried, by identity.
        self.tried: set[int] = set()
        self._constants: dict[bool, dict[str, Any]] = {True: {}, False: {"not": {}}}
        self._index(schema)
        self.root: dict[str, Any] = self._build(schema, named=False)
        if any(isinstance(target, bool) for target in self._refers.values()):
            constants = self._constants
            self.root[_TRUE_AND_FALSE] = {"true": constants[True], "false": constants[False]}

    def nodes(self) -> Iterable[dict[str, Any]]:
        """Every schema in it."""
        return self._built.values()

    def target(self, node: dict[str, Any]) -> dict[str, Any] | None:
        """What its $ref refers to, if it has one."""
        target = self._refers.get(id(node))
        if target is None:
            return None
        return self._constants[target] if isinstance(target, bool) else self._built[target]

    def limit_tries(self, is_linear: Callable[[str], bool]) -> None:
        """Let no pattern that has to be tried see a long text."""
        for node in list(self._built.values()):
            for name in _names(node.get("patternProperties")):
                if not is_linear(name):  # a name whose pattern is given up would count as one that does not match
                    raise SchemaRefused(f"'{cut(name)}' of patternProperties is no pattern, or looks ahead or back")
            text = node.get("pattern")
            if isinstance(text, str) and isinstance(node.get("allOf", []), list) and not is_linear(text):
                tried = {"pattern": node.pop("pattern")}
                self.tried.add(id(tried))
                short = {"maxLength": MAX_TRIED_LENGTH}
                node["allOf"] = [*node.get("allOf", ()), {"if": short, "then": tried, "else": short.copy()}]

    def _index(self, schema: dict[str, Any]) -> None:
        pending: list[tuple[Any, bool, str, str, int]] = [(schema, False, "", "", 0)]
        while pending:
            at, named, pointer, base, depth = pending.pop()
            if depth > MAX_SCHEMA_DEPTH:
                raise SchemaRefused(_TOO_DEEP)
            if isinstance(at, list):
                pending += [(item, False, f"{pointer}/{index}", base, depth + 1) for index, item in enumerate(at)]
            elif isinstance(at, dict):
                if not named:
                    base = self._based(at, base)
                    self._found[id(at)] = _Found(pointer, base)
                    pointer += "/else" if at.get("nullable") is True else ""
                pending += [
                    (item, not named and key in _MAPS, f"{pointer}/{_escaped(key)}", base, depth + 1)
                    for key, item in at.items()
                    if isinstance(item, dict | list) and (named or key not in _DATA)
                ]

    def _based(self, schema: dict[str, Any], base: str) -> str:
        name = schema.get("$id")
        if not isinstance(name, str) or "$ref" in schema:
            return base
        try:
            url, fragment = urldefrag(urljoin(base, name))
        except ValueError as error:
            raise SchemaRefused(f"'{cut(name)}' is not an $id: {error}") from error
        if fragment:
            self._anchors[f"{url}#{fragment}"] = schema
        else:
            self._resources[url] = schema
        return url

    def _resolved(self, ref: str, base: str) -> dict[str, Any] | bool:
        try:
            url, fragment = urldefrag(urljoin(base, ref))
        except ValueError as error:
            raise SchemaRefused(f"'{cut(ref)}' is not a $ref: {error}") from error
        at: Any = self._resources.get(url)
        if not fragment.startswith("/"):
            at = self._anchors.get(f"{url}#{fragment}") if fragment else at
        else:
            for part in unquote(fragment)[1:].split("/"):
                at = _member(at, part.replace("~1", "/").replace("~0", "~"))
        if isinstance(at, bool) or (isinstance(at, dict) and id(at) in self._found):
            return at
        raise SchemaRefused(f"it refers to '{cut(ref)}', which is not part of it; nothing is fetched for a schema")

    def _build(self, at: Any, *, named: bool) -> Any:
        if isinstance(at, list):
            return [self._build(item, named=False) for item in at]
        if not isinstance(at, dict):
            return at
        if named:
            return {key: self._build(item, named=False) for key, item in at.items()}
        plain = {key: self._keyword(key, item) for key, item in at.items() if key not in _LEFT_OUT}
        ref = at.get("$ref")
        if isinstance(ref, str):
            plain["$ref"] = self._refer(plain, ref, self._found[id(at)].base)
        if at.get("nullable") is True:
            self._built[id(plain)] = plain
            plain = {"if": {"type": "null"}, "else": plain}
        self._built[id(at)] = plain
        return plain

    def _keyword(self, key: str, value: Any) -> Any:
        if key == "pattern" and isinstance(value, str):
            return next((f"{value.removesuffix(end)}$" for end in _ENDS if value.endswith(end)), value)
        return value if key in _DATA else self._build(value, named=key in _MAPS)

    def _refer(self, plain: dict[str, Any], ref: str, base: str) -> str:
        target = self._resolved(ref, base)
        if isinstance(target, bool):
            self._refers[id(plain)] = target
            return f"#/{_escaped(_TRUE_AND_FALSE)}/{'true' if target else 'false'}"
        self._refers[id(plain)] = id(target)
        return f"#{self._found[id(target)].pointer}"


def _names(value: Any) -> Iterable[str]:
    return value if isinstance(value, dict) else ()


def _member(at: Any, name: str) -> Any:
    if isinstance(at, dict):
        return at.get(name)
    if isinstance(at, list) and name.isascii() and name.isdecimal() and len(name) < 10:
        return at[int(name)] if int(name) < len(at) else None
    return None


def _escaped(name: str) -> str:
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="~", errors="surrogatepass")


# -- how much work a schema makes ----------------------------------------------------------------------------------


@dataclass
class WorkBound:
    """How often a schema checks one value, at most: it is walked as an input would be, one place after the other.

    At a place, some schemas apply, each so many times. What they refer to applies there as well; what they say about
    properties and items applies one place below. The same schemas the same number of times are looked at only once, so
    a recursive schema comes to an end, unless each level of it checks more often than the one above.
    """

    plain: PlainSchema
    checks: int = 1
    chain: int = 1
    tries: int = 0
    _steps: int = 0
    #: Schemas by identity, and for each: all that apply with it, itself included, and how long the chain to them is.
    _known: dict[int, dict[str, Any]] = field(default_factory=dict)
    _with: dict[int, tuple[Counter[int], int]] = field(default_factory=dict)
    _weights: dict[int, int] = field(default_factory=dict)

    def walk(self) -> None:
        """Find out, or raise SchemaRefused."""
        pending = [Counter({self._key(self.plain.root): 1})]
        seen: set[frozenset[tuple[int, int]]] = set()
        while pending:
            place = pending.pop()
            state = frozenset(place.items())
            if state in seen or not state:
                continue
            seen.add(state)
            applied: Counter[int] = Counter()
            for key, times in place.items():
                for inner, count in self._together(key, 0)[0].items():
                    self._step()
                    applied[inner] += times * count
            if applied.total() > MAX_CHECKS:
                raise SchemaRefused(f"it checks one value more than {MAX_CHECKS} times")
            self.checks = max(self.checks, sum(times * self._weight(key) for key, times in applied.items()))
            self.tries = max(self.tries, sum(times for key, times in applied.items() if key in self.plain.tried))
            nodes = [(self._known[key], times) for key, times in applied.items()]
            pending += self._properties(nodes)
            pending += self._items(nodes)

    def _key(self, node: dict[str, Any]) -> int:
        self._known[id(node)] = node
        return id(node)

    def _weight(self, key: int) -> int:
        if key not in self._weights:
            self._weights[key] = _weight(self._known[key])
        return self._weights[key]

    def _step(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise SchemaRefused(f"how much work it makes is not known after {MAX_STEPS} steps; simplify it")

    def _together(self, key: int, depth: int) -> tuple[Counter[int], int]:
        """All schemas that apply to a value when this one does."""
        if found := self._with.get(key):
            return found
        if depth > MAX_CHAIN:
            raise SchemaRefused(f"it refers to itself, or from one schema to the next more than {MAX_CHAIN} times")
        all_of_them, longest = Counter({key: 1}), 0
        for child in self._in_place(self._known[key]):
            with_child, length = self._together(self._key(child), depth + 1)
            longest = max(longest, length)
            for inner, times in with_child.items():
                self._step()
                all_of_them[inner] += times
        if all_of_them.total() > MAX_CHECKS:
            raise SchemaRefused(f"it checks one value more than {MAX_CHECKS} times")
        if longest >= MAX_CHAIN:
            raise SchemaRefused(f"it leads from one schema to the next more than {MAX_CHAIN} times")
        self.chain = max(self.chain, longest + 1)
        self._with[key] = all_of_them, longest + 1
        return self._with[key]

    def _in_place(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        target = self.plain.target(node)
        if target is not None:
            yield target  # what stands beside a $ref does not count
            return
        for keyword in _IN_PLACE:
            yield from _schemas(node.get(keyword))
        dependencies = node.get("dependencies")
        if isinstance(dependencies, dict):
            yield from (schema for schema in dependencies.values() if isinstance(schema, dict))

    def _properties(self, nodes: list[tuple[dict[str, Any], int]]) -> Iterator[Counter[int]]:
        names: set[str] = set()
        any_name, the_name = Counter[int](), Counter[int]()
        about = [(node, times) for node, times in nodes if "$ref" not in node]
        about = [(node, times) for node, times in about if any(keyword in node for keyword in _ABOUT_PROPERTIES)]
        for node, times in about:
            names |= node.get("properties", {}).keys()
            self._add(the_name, node.get("propertyNames"), times)
            # Which names a pattern matches is not looked at: all of them.
            for schema in node.get("patternProperties", {}).values():
                self._add(any_name, schema, times)
        yield the_name
        others = any_name.copy()
        for node, times in about:
            self._add(others, node.get("additionalProperties"), times)
        yield others
        for name in names:
            self._step(len(any_name))
            place = any_name.copy()
            for node, times in about:
                own = node.get("properties", {})
                self._add(place, own[name] if name in own else node.get("additionalProperties"), times)
            yield place

    def _items(self, nodes: list[tuple[dict[str, Any], int]]) -> Iterator[Counter[int]]:
        about = [(node, times) for node, times in nodes if "$ref" not in node]
        about = [(node, times) for node, times in about if "items" in node or "contains" in node]
        longest = max((len(node["items"]) for node, _ in about if isinstance(node.get("items"), list)), default=0)
        for index in range(longest + 1 if about else 0):
            place = Counter[int]()
            for node, times in about:
                items = node.get("items")
                if isinstance(items, list):
                    items = items[index] if index < len(items) else node.get("additionalItems")
                self._add(place, items, times)
                self._add(place, node.get("contains"), times + 1)  # it is dearer than the others
            yield place

    def _add(self, place: Counter[int], schema: Any, times: int) -> None:
        self._step()
        if isinstance(schema, dict):
            place[self._key(schema)] += times


_ABOUT_PROPERTIES = ("properties", "patternProperties", "additionalProperties", "propertyNames")


def _schemas(value: Any) -> Iterator[dict[str, Any]]:
    return (schema for schema in (value if isinstance(value, list) else [value]) if isinstance(schema, dict))


def _weight(node: dict[str, Any]) -> int:
    """What one check costs, in steps of a tenth of a microsecond or so: long lists make it slow, and fractions."""
    allowed = [*node.get("enum", ()), *([node["const"]] if "const" in node else ())]
    names = len(node.get("properties", ())) // 4 + len(node.get("required", ())) // 2
    return 1 + round(sum(map(_weight_of, allowed))) + names + (_PER_FRACTION if "multipleOf" in node else 0)


def _weight_of(allowed: Any) -> float:
    """What it costs to compare with this value."""
    if isinstance(allowed, dict | list):
        return 5 + 2 * len(msgspec.json.encode(allowed))
    return _PER_FRACTION if isinstance(allowed, float) else 0.1


def cut(text: str) -> str:
    """A text from a schema inside a message, without its middle when it is long."""
    return text if len(text) <= 2 * MAX_SAID else f"{text[:MAX_SAID]} ... {text[-MAX_SAID:]}"
