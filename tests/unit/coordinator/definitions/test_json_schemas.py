"""JSON schemas: their meaning, and that no schema can stop the server."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

from conductor.coordinator.definitions import json_schemas, schema_cost
from conductor.coordinator.definitions.json_schemas import (
    find_schema_problem,
    find_task_input_problem,
    find_workflow_input_problem,
)
from conductor.coordinator.definitions.task_defs import TaskDef


class NoSchemas:
    """A store in which nothing is registered."""

    def value(self, *args: Any) -> None:
        return None


def problem(data: Any, given: Any) -> str | None:
    task_def = TaskDef(name="t", enforce_schema=True, input_schema={"name": "s", "type": "JSON", "data": data})
    return find_task_input_problem(NoSchemas(), task_def, given)  # type: ignore[arg-type]


def refused(data: Any) -> str | None:
    return find_schema_problem({"name": "s", "data": data})


def under(schema: Any, **more: Any) -> dict[str, Any]:
    """A schema for the property `a`."""
    return {"type": "object", "properties": {"a": schema}, **more}


def chain(links: int, keyword: str = "allOf") -> dict[str, Any]:
    """Each link refers to the next one twice: 2 to the power of links checks."""
    definitions: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/definitions/d{n + 1}"}, {"$ref": f"#/definitions/d{n + 1}"}]}
        for n in range(links)
    }
    return {"$ref": "#/definitions/d0", "definitions": {**definitions, f"d{links}": {"type": "object"}}}


class TestMeaning:
    def test_the_path_of_the_wrong_value_is_named(self) -> None:
        data = under({"type": "array", "items": {"type": "string"}})
        assert problem(data, {"a": ["x", 3]}) == ('input of t rejected by its schema: a.1: 3 is not of type "string"')
        assert problem(data, {"a": ["x", "y"]}) is None

    @pytest.mark.parametrize(
        ("schema", "wrong"),
        [
            ({"type": "integer"}, "x"),
            ({"enum": [1, 2]}, 3),
            ({"const": 5}, 6),
            ({"$ref": "#/definitions/n"}, "x"),
            ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 2),
            ({"not": {"type": ["null", "string"]}}, "x"),
            ({"if": {"type": "null"}, "then": False, "else": {"type": "string"}}, 1),
        ],
    )
    def test_null_passes_where_a_schema_says_nullable_whatever_else_it_asks(self, schema: Any, wrong: Any) -> None:
        definitions = {"n": {"type": "integer"}}
        assert problem(under({**schema, "nullable": True}, definitions=definitions), {"a": None}) is None
        assert problem(under({**schema, "nullable": True}, definitions=definitions), {"a": wrong}) is not None

    def test_a_property_may_be_called_nullable(self) -> None:
        data = {"properties": {"nullable": True, "a": {"type": "integer"}}}
        assert problem(data, {"nullable": 1, "a": None}) is not None

    def test_a_nullable_schema_is_found_by_those_that_refer_to_it_and_into_it(self) -> None:
        node = {"nullable": True, "allOf": [{"type": "integer"}], "properties": {"x": {"type": "string"}}}
        definitions = {"node": node, "in": {"$ref": "#/definitions/node/properties/x"}}
        data = {
            "properties": {"a": {"$ref": "#/definitions/node"}, "b": {"$ref": "#/definitions/node/allOf/0"}},
            "additionalProperties": {"$ref": "#/definitions/in"},
            "definitions": definitions,
        }
        assert problem(data, {"a": None, "b": 1, "c": "x"}) is None
        assert "a:" in str(problem(data, {"a": "x"}))
        assert "b:" in str(problem(data, {"b": None}))
        assert "c:" in str(problem(data, {"c": 1}))

    @pytest.mark.parametrize(
        ("ref", "more"),
        [
            ("#/definitions/a~1b%25c~0", {"definitions": {"a/b%c~": {"type": "string"}}}),
            ("#/$defs/x", {"$defs": {"x": {"type": "string"}}}),
            ("#/anything/else/0", {"anything": {"else": [{"type": "string"}]}}),
            ("#named", {"definitions": {"x": {"$id": "#named", "type": "string"}}}),
            ("other", {"$id": "http://example.com/root", "definitions": {"x": {"$id": "other", "type": "string"}}}),
            (
                "http://example.com/other#/definitions/y",
                {
                    "$id": "http://example.com/root",
                    "definitions": {"x": {"$id": "other", "definitions": {"y": {"type": "string"}}}},
                },
            ),
            (
                "#/definitions/x",
                {"definitions": {"x": {"$id": "q", "$ref": "#/definitions/y"}, "y": {"type": "string"}}},
            ),
        ],
    )
    def test_references_within_a_schema(self, ref: str, more: dict[str, Any]) -> None:
        assert problem(under({"$ref": ref}, **more), {"a": "x"}) is None
        assert "a: 1 is not of type" in str(problem(under({"$ref": ref}, **more), {"a": 1}))

    def test_a_reference_to_true_or_false(self) -> None:
        data = {
            "properties": {"a": {"$ref": "#/definitions/yes"}, "b": {"$ref": "#/definitions/no"}},
            "definitions": {"yes": True, "no": False},
        }
        assert problem(data, {"a": 1}) is None
        assert "b:" in str(problem(data, {"b": 1}))

    def test_values_of_an_enum_are_no_schemas(self) -> None:
        data = under({"enum": [{"$ref": "#/nowhere", "nullable": True}]})
        assert problem(data, {"a": {"$ref": "#/nowhere", "nullable": True}}) is None
        assert problem(data, {"a": None}) is not None

    def test_recursive_schemas_are_checked(self) -> None:
        data = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
        assert problem(data, {"next": {"next": {}}}) is None
        assert "next.next" in str(problem(data, {"next": {"next": {"other": 1}}}))

    def test_formats_and_encodings_are_notes_to_people(self) -> None:
        assert problem(under({"format": "date", "contentEncoding": "base64"}), {"a": "?"}) is None

    @pytest.mark.parametrize(
        ("pattern", "good", "bad"),
        [
            (r"^[0-9]+$(?!\n)", "12", "12\n"),
            (r"^(?=.*\d)(?=.*[a-z]).{8,}$", "abcdefg1", "abcdefgh"),
            (r"^(\d{1,3}\.){3}\d{1,3}$", "127.0.0.1", "127.0.0"),
            (r"^[^@]+@[^@]+\.[^@]+$", "a@b.c", "a@b"),
            (r"^\w{1,64}$", "under_score", "two words"),
            (r"^[a-z0-9]+(-[a-z0-9]+)*$", "a-b", "a--b"),
        ],
    )
    def test_patterns_that_people_use(self, pattern: str, good: str, bad: str) -> None:
        assert problem(under({"pattern": pattern}), {"a": good}) is None
        assert "does not match" in str(problem(under({"pattern": pattern}), {"a": bad}))


class TestWhatCannotBeUsed:
    @pytest.mark.parametrize(
        ("schema", "said"),
        [
            (
                {"$ref": "http://127.0.0.1:9/s.json"},
                "refers to 'http://127.0.0.1:9/s.json', which is not in the schema",
            ),
            ({"$ref": "file:///etc/passwd"}, "refers to 'file:///etc/passwd'"),
            ({"$ref": "#/definitions/none"}, "refers to '#/definitions/none'"),
            ({"$ref": "http://[/"}, "refers to 'http://[/'"),
            ({"$ref": 5}, '5 is not of type "string"'),
            ({"$ref": "#/properties/a"}, "refers to itself"),
            ({"allOf": [{"$ref": "#/properties/a"}]}, "refers to itself"),
            ({"pattern": "("}, 'pattern: "(" is not a "regex"'),
            ({"pattern": "((a{1000}){1000}){1000}"}, 'is not a "regex"'),
            ({"patternProperties": {"^(?=a)(a+)+$": {}}}, "has look-ahead or look-behind"),
            ({"type": "strin"}, "is not a JSON schema: properties.a.type"),
            ({"properties": 5}, "is not a JSON schema"),
        ],
    )
    def test_an_unusable_schema_says_why(self, schema: Any, said: str) -> None:
        assert said in str(refused(under(schema)))
        assert "the input schema of t cannot be used: " in str(problem(under(schema), {"a": 1}))

    def test_a_schema_of_another_kind_or_without_a_form(self) -> None:
        assert "its type is AVRO" in str(find_schema_problem({"name": "s", "type": "AVRO", "data": {"type": "record"}}))
        assert "not a JSON object" in str(find_schema_problem({"name": "s", "data": "text"}))
        assert "JSON object" in str(find_schema_problem("text"))
        assert "version" in str(find_schema_problem({"name": "s", "version": 2**70}))
        assert find_schema_problem({"name": "s"}) is None
        assert find_schema_problem(None) is None


class TestEndlessWork:
    """A schema that asks for too much work is refused, when it is registered and when it runs."""

    @pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
    def test_a_chain_of_references_that_doubles_with_each_link(self, keyword: str) -> None:
        assert refused(chain(7, keyword)) is None
        said = "it checks one value more than 1000 times"
        assert refused(chain(40, keyword)) == said
        assert problem(chain(40, keyword), {}) == f"the input schema of t cannot be used: {said}"
        assert problem(chain(5, keyword), []) is not None

    @pytest.mark.parametrize(
        "data",
        [
            {"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]},
            {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}},
            {"anyOf": [{"items": {"$ref": "#"}}, {"contains": {"$ref": "#"}}]},
            {"items": {"$ref": "#"}, "contains": {"$ref": "#"}},
            {"dependencies": {"a": {"items": {"$ref": "#"}}, "b": {"items": {"$ref": "#"}}}},
            {"if": {"items": [{"$ref": "#"}]}, "then": {"items": [{"$ref": "#"}]}},
            {"additionalProperties": {"$ref": "#"}, "not": {"additionalProperties": {"$ref": "#"}}},
        ],
    )
    def test_recursion_that_checks_more_often_on_every_level(self, data: Any) -> None:
        assert refused(data) == "it checks one value more than 1000 times"

    def test_a_long_way_from_schema_to_schema(self) -> None:
        definitions: dict[str, Any] = {f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(5000)}
        data = {"$ref": "#/definitions/d0", "definitions": {**definitions, "d5000": {}}}
        assert "more than 100 schemas" in str(refused(data))

    def test_a_schema_without_a_bound_on_its_work_is_refused(self) -> None:
        names: Any = {f"p{n}": {} for n in range(1000)}
        patterns: Any = {f"^{n}": {} for n in range(200)}
        assert "simplify the schema" in str(refused({"properties": names, "patternProperties": patterns}))
        assert refused({"properties": {f"p{n}": {"type": "string"} for n in range(5000)}}) is None
        assert "larger than" in str(refused({"enum": ["x" * 1000] * 300}))

    @pytest.mark.parametrize(
        ("schema", "item", "count"),
        [
            ({"contains": {"enum": [{"a": n} for n in range(12_000)]}}, {"a": -1}, 5000),
            ({"contains": {"enum": [n + 0.5 for n in range(12_000)]}}, -0.5, 5000),
            ({"contains": {"const": [0] * 10_000}}, [1] * 10, 5000),
            ({"items": {"multipleOf": 1e-300}}, 1e300, 50_000),
            ({"items": {"minimum": 0.5}}, 10**4000, 100_000),
        ],
    )
    def test_an_input_that_is_too_much_for_its_schema(self, schema: Any, item: Any, count: int) -> None:
        assert f"would take more than {schema_cost.MAX_WORK} steps" in str(
            problem(under(schema), {"a": [item] * count})
        )
        assert "steps" not in str(problem(under(schema), {"a": [item]}))

    def test_patterns_that_look_ahead_are_tried_up_to_a_limit(self) -> None:
        data = {"additionalProperties": {"pattern": "^(?=a)(a+)+(?!b)c$"}}
        assert "longer than 10000 characters" in str(problem(data, {"a": "a" * 1_000_000}))
        assert "backtracking" in str(problem(data, {"a": "a" * 3000}))
        assert "would take more than" in str(problem(data, {str(n): "a" * 9000 for n in range(300)}))

    def test_a_pattern_that_looks_ahead_does_not_limit_the_texts_beside_it(self) -> None:
        data = {"properties": {"day": {"pattern": r"^(?!0000)[0-9]{4}$"}, "text": {"type": "string"}}}
        assert problem(data, {"day": "2025", "text": "x" * 5_000_000}) is None
        assert problem(data, {"day": "2025", "texts": ["x" * 20] * 10_000}) is None
        assert "day: " in str(problem(data, {"day": "0000"}))

    @pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^a*a*a*a*b$", r"^(\w+\s?)*$", "^(.*)*$"])
    def test_patterns_that_double_elsewhere_are_checked_in_one_go(self, pattern: str) -> None:
        assert "does not match" in str(problem(under({"pattern": pattern}), {"a": "a" * 5000 + "!\n"}))
        names: Any = {"patternProperties": {pattern: False}}
        assert problem(names, {"a" * 5000 + "!\n": 1}) is None

    def test_large_inputs_that_are_fine(self) -> None:
        assert problem(under({"uniqueItems": True}), {"a": [{"n": n} for n in range(20_000)]}) is None
        assert problem(under({"items": {"enum": list(range(2000))}}), {"a": [1999] * 1000}) is None
        assert problem(under({"type": "string"}), {"a": "x" * 9_000_000}) is None

    def test_alternatives_of_a_large_input_are_not_all_explained(self) -> None:
        data = under({"anyOf": [{"type": "string"}, {"items": {"type": "string"}}]})
        assert "too large to say where" in str(problem(data, {"a": [1] * 200_000}))
        assert "a: " in str(problem(data, {"a": [1] * 20}))

    def test_messages_of_schemas_are_cut(self) -> None:
        assert len(str(problem(under({"type": "integer"}), {"a": "x" * 100_000}))) < 1000

    def test_deep_nesting_is_an_error_and_never_the_end_of_the_process(self) -> None:
        program = """
            import sys
            sys.path[:0] = [{here!r}]
            from tests.unit.coordinator.definitions.test_json_schemas import problem

            def nested(levels, wrap, inner):
                for _ in range(levels):
                    inner = wrap(inner)
                return inner

            value = nested(1000, lambda inner: {{"a": inner}}, {{}})
            step = {{"properties": {{"a": {{"$ref": "#"}}}}}}
            print(problem(step, value))
            print(problem(nested(1000, lambda inner: {{"properties": {{"a": inner}}}}, {{}}), value))
            print(problem(nested(1000, lambda inner: {{"allOf": [inner]}}, {{}}), {{}}))
            print(problem({{"enum": [value]}}, value))
            for keyword in ("allOf", "anyOf", "oneOf", "not", "if"):
                chain = nested(29, lambda inner: {{keyword: [inner] if keyword.endswith("Of") else inner}}, step)
                print(problem(chain, nested(95, lambda inner: {{"a": inner}}, {{}})))
            print("still here")
        """
        program = textwrap.dedent(program.format(here=str(__import__("pathlib").Path(__file__).parents[4])))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
        lines = done.stdout.splitlines()
        assert (done.returncode, lines[-1]) == (0, "still here"), done.stderr[-2000:]
        assert "too deep to be checked" in lines[0]
        assert "nested more than 200 levels deep" in lines[1]
        assert "nested more than 200 levels deep" in lines[2]
        assert lines[3] != "None"


def test_compiled_schemas_are_kept_up_to_a_number_and_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = json_schemas._SchemaCache()
    monkeypatch.setattr(json_schemas, "_CACHE", kept)
    for n in range(json_schemas.MAX_CACHED + 10):
        refused({"const": n})
    assert len(kept._by_body) == json_schemas.MAX_CACHED
    for n in range(60):
        refused({"const": n, "description": "x" * 200_000})
    assert kept._bytes <= json_schemas.MAX_CACHED_BYTES
    assert kept._bytes == sum(map(len, kept._by_body))


class TestWorkflows:
    """A workflow's inputSchema is enforced unless its definition says enforceSchema: false."""

    DATA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    FLOW = {"name": "w", "inputSchema": {"name": "s", "version": 1, "type": "JSON", "data": DATA}}

    def test_an_input_that_does_not_match_is_a_problem(self) -> None:
        def found(given: Any, **more: Any) -> str | None:
            return find_workflow_input_problem(NoSchemas(), {**self.FLOW, **more}, given)  # type: ignore[arg-type]

        assert found({"n": "many"}) == 'input of w rejected by its schema: n: "many" is not of type "integer"'
        assert found({"n": "many"}, enforceSchema=True) is not None
        assert found({"n": 1}) is None
        assert found({"n": "many"}, enforceSchema=False) is None
        assert found({"n": "many"}, inputSchema=None) is None
