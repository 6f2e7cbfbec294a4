"""A JSON schema in a plain form: references inside the schema only, no `$id`, no `nullable`.

The plain form has the same meaning as the original. Because its references stay inside the schema, the validator
fetches nothing from other places, and `schema_cost` can follow every reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote, urldefrag, urljoin

from conductor.protocol.json_types import Json, JsonObject

#: A schema that is nested deeper than this is rejected.
MAX_SCHEMA_DEPTH = 200
TOO_DEEP = f"it is nested more than {MAX_SCHEMA_DEPTH} levels deep"
#: A pattern with look-ahead or look-behind needs a regex engine that backtracks, which can be slow. So the engine does
#: not run on texts that are longer than this; they count as not matching.
MAX_BACKTRACKED_CHARS = 10_000
#: Messages show this many characters of the beginning and of the end of a text from a schema.
MAX_SHOWN_CHARS = 300
#: Keywords whose value has names as keys and schemas as values.
_SCHEMA_MAPS = ("properties", "patternProperties", "definitions", "$defs", "dependencies")
#: Keywords whose value is data and not a schema, even if it looks like one.
_DATA = ("enum", "const", "required", "default", "examples")
#: Keywords that the plain form leaves out: they validate nothing, or the plain form replaces them.
_OMITTED = ("$id", "$schema", "$comment", "nullable", "default", "examples", "contentEncoding", "contentMediaType")
#: Pattern ends that mean the same as `$` in JSON schema. Patterns written for Python use them, because there `$` also
#: matches before a final line break.
_PATTERN_ENDS = (r"$(?!\n)", r"(?!\n)$")
#: The key under which the root contains the schemas true and false. References to true or false point there.
_CONSTANTS = "true and false"


class SchemaRejected(Exception):
    """A schema that cannot be used; the message says why."""


class _SchemaPlace(NamedTuple):
    """The place of a schema in the plain root, and the URL that its references are relative to."""

    pointer: str
    base: str


class PlainSchema:
    """Converts a schema to the plain form that the module describes. `root` is the converted schema.

    A schema with `nullable: true` accepts null even if its other keywords do not. Workers generate such schemas.

    Raises:
        SchemaRejected: The schema is nested too deeply, or a reference leads nowhere or outside the schema.
    """

    def __init__(self, schema: JsonObject) -> None:
        #: Two maps from the `id()` of a given schema: to its place, and to its plain form.
        self._places: dict[int, _SchemaPlace] = {}
        self._plain: dict[int, JsonObject] = {}
        #: The given schemas with a URL of their own (`$id`), by URL, and those with an anchor, by URL with fragment.
        self._resources: dict[str, JsonObject] = {"": schema}
        self._anchors: dict[str, JsonObject] = {}
        #: The targets of references: `id()` of a plain schema with a $ref → `id()` of the given schema that it refers
        #: to, or the bool if it refers to the schema true or false.
        self._targets: dict[int, int | bool] = {}
        self._constants: dict[bool, JsonObject] = {True: {}, False: {"not": {}}}
        #: `id()` of each plain schema whose pattern needs backtracking.
        self.backtracking: set[int] = set()
        self._find_places(schema)
        self.root: JsonObject = self._convert(schema, is_map=False)
        if any(isinstance(target, bool) for target in self._targets.values()):
            self.root[_CONSTANTS] = {"true": self._constants[True], "false": self._constants[False]}

    def nodes(self) -> Iterable[JsonObject]:
        """Return every plain schema in the root."""
        return self._plain.values()

    def target(self, node: JsonObject) -> JsonObject | None:
        """Return the schema that the $ref of a plain schema refers to, or None if it has no $ref."""
        target = self._targets.get(id(node))
        if target is None:
            return None
        return self._constants[target] if isinstance(target, bool) else self._plain[target]

    def limit_backtracking(self, is_linear: Callable[[str], bool]) -> None:
        """Restrict the patterns that backtrack to texts of at most `MAX_BACKTRACKED_CHARS`."""
        for node in list(self._plain.values()):
            names = node.get("patternProperties")
            for name in names if isinstance(names, dict) else ():
                # The engine that backtracks aborts a match that takes too many attempts. The property would then count
                # as not matching, so its value would not be checked.
                if not is_linear(name):
                    raise SchemaRejected(
                        f"'{cut(name)}' of patternProperties is not a valid pattern, or has look-ahead or look-behind"
                    )
            pattern = node.get("pattern")
            if isinstance(pattern, str) and isinstance(node.get("allOf", []), list) and not is_linear(pattern):
                backtracking = {"pattern": node.pop("pattern")}
                self.backtracking.add(id(backtracking))
                short = {"maxLength": MAX_BACKTRACKED_CHARS}
                node["allOf"] = [*node.get("allOf", ()), {"if": short, "then": backtracking, "else": short.copy()}]

    def _find_places(self, schema: JsonObject) -> None:
        pending: list[tuple[Json, bool, str, str, int]] = [(schema, False, "", "", 0)]
        while pending:
            value, is_map, pointer, base, depth = pending.pop()
            if depth > MAX_SCHEMA_DEPTH:
                raise SchemaRejected(TOO_DEEP)
            if isinstance(value, list):
                pending += [(item, False, f"{pointer}/{index}", base, depth + 1) for index, item in enumerate(value)]
            elif isinstance(value, dict):
                if not is_map:
                    base = self._register_id(value, base)
                    self._places[id(value)] = _SchemaPlace(pointer, base)
                    pointer += "/else" if value.get("nullable") is True else ""  # `_convert` moves the schema there
                pending += [
                    (item, not is_map and key in _SCHEMA_MAPS, f"{pointer}/{_escape(key)}", base, depth + 1)
                    for key, item in value.items()
                    if isinstance(item, dict | list) and (is_map or key not in _DATA)
                ]

    def _register_id(self, schema: JsonObject, base: str) -> str:
        """Register the $id of a schema. Return the URL that references inside the schema are relative to."""
        name = schema.get("$id")
        if not isinstance(name, str) or "$ref" in schema:
            return base
        url, fragment = _join_url(base, name, "$id")
        if fragment:
            self._anchors[f"{url}#{fragment}"] = schema
        else:
            self._resources[url] = schema
        return url

    def _convert(self, value: Json, *, is_map: bool) -> Json:
        if isinstance(value, list):
            return [self._convert(item, is_map=False) for item in value]
        if not isinstance(value, dict):
            return value
        if is_map:
            return {key: self._convert(item, is_map=False) for key, item in value.items()}
        plain = {key: self._convert_keyword(key, item) for key, item in value.items() if key not in _OMITTED}
        ref = value.get("$ref")
        if isinstance(ref, str):
            plain["$ref"] = self._convert_ref(plain, ref, self._places[id(value)].base)
        if value.get("nullable") is True:
            self._plain[id(plain)] = plain
            plain = {"if": {"type": "null"}, "else": plain}
        self._plain[id(value)] = plain
        return plain

    def _convert_keyword(self, key: str, value: Json) -> Json:
        if key == "pattern" and isinstance(value, str):
            return next((f"{value.removesuffix(end)}$" for end in _PATTERN_ENDS if value.endswith(end)), value)
        return value if key in _DATA else self._convert(value, is_map=key in _SCHEMA_MAPS)

    def _convert_ref(self, plain: JsonObject, ref: str, base: str) -> str:
        """Return a reference as a pointer from the root, and note its target."""
        target = self._resolve(ref, base)
        if isinstance(target, bool):
            self._targets[id(plain)] = target
            return f"#/{_escape(_CONSTANTS)}/{'true' if target else 'false'}"
        self._targets[id(plain)] = id(target)
        return f"#{self._places[id(target)].pointer}"

    def _resolve(self, ref: str, base: str) -> JsonObject | bool:
        url, fragment = _join_url(base, ref, "$ref")
        target: Json = self._resources.get(url)
        if fragment.startswith("/"):
            for part in unquote(fragment)[1:].split("/"):
                target = _member(target, part.replace("~1", "/").replace("~0", "~"))
        elif fragment:
            target = self._anchors.get(f"{url}#{fragment}")
        if isinstance(target, bool) or (isinstance(target, dict) and id(target) in self._places):
            return target
        raise SchemaRejected(f"it refers to '{cut(ref)}', which is not in the schema; other schemas are not fetched")


def _join_url(base: str, url: str, keyword: str) -> tuple[str, str]:
    try:
        joined, fragment = urldefrag(urljoin(base, url))
    except ValueError as error:
        raise SchemaRejected(f"it refers to '{cut(url)}', which is not a valid {keyword}: {error}") from error
    return joined, fragment


def _member(value: Json, name: str) -> Json:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list) and name.isascii() and name.isdecimal() and len(name) < 10:
        return value[int(name)] if int(name) < len(value) else None
    return None


def _escape(name: str) -> str:
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="~", errors="surrogatepass")


def cut(text: str) -> str:
    """Return a text for a message, without the middle if the text is long."""
    return text if len(text) <= 2 * MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]} ... {text[-MAX_SHOWN_CHARS:]}"
