"""JSON schemas that ask for endless work."""

from __future__ import annotations

from typing import Any

from .world import World, simple, wait


def _enforced(schema: Any) -> dict[str, Any]:
    return {"enforceSchema": True, "inputSchema": {"name": "s", "type": "JSON", "data": schema}}


def _chain(links: int, word: str = "allOf") -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(links)
    }
    return {"$defs": {**definitions, f"d{links}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def a_chain_of_references(world: World) -> None:
    for word in ("allOf", "anyOf", "oneOf"):
        task_def = {"name": "work", **_enforced(_chain(40, word))}
        world.ask("POST", "/api/metadata/taskdefs", [task_def])  # accepted with a warning: tasks fail when it is used
        world.refused("POST", "/api/schema", {"name": "s", "version": 1, "type": "JSON", "data": _chain(40, word)})


def a_chain_of_references_behind_a_wait(world: World) -> None:
    definition = {"name": "hostile", "tasks": [wait("1s"), simple(taskDefinition=_enforced(_chain(40)))]}
    world.ask("POST", "/api/metadata/workflow", definition)  # accepted with a warning: the task fails when it is used
    world.ask("POST", "/api/workflow", {"name": "hostile", "workflowDef": definition})


def references_in_circles(world: World) -> None:
    for data in (
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
        {"$dynamicRef": "#a", "$dynamicAnchor": "a"},
        {"$ref": "http://127.0.0.1:1/elsewhere"},
        {"$ref": "file:///etc/passwd"},
    ):
        world.ask("POST", "/api/schema", {"name": "s", "version": 1, "type": "JSON", "data": data})
        if world.ask("POST", "/api/metadata/taskdefs", [{"name": "work", **_enforced(data)}]).is_success:
            deep: Any = 1
            for _ in range(60):
                deep = {"a": deep}
            world.run(simple(inputParameters={"a": "${workflow.input.a}"}), given={"a": deep})


def a_schema_of_200_kb(world: World) -> None:
    for data in (
        {"properties": {f"p{n}": {"type": "string", "minLength": n} for n in range(5_000)}},
        {"enum": [f"value {n}" for n in range(14_000)]},
        {"anyOf": [{"const": n} for n in range(900)]},
        {"patternProperties": {f"^p{n}.*x{n}$": {"type": "string"} for n in range(900)}},
        {"required": [f"p{n}" for n in range(20_000)]},
    ):
        world.ask("POST", "/api/schema", {"name": "s", "version": 1, "type": "JSON", "data": data})
        if world.ask("POST", "/api/metadata/taskdefs", [{"name": "work", **_enforced(data)}]).is_success:
            world.run(simple(inputParameters="${workflow.input}" and {"a": "${workflow.input.a}"}), given={"a": {}})


def a_hundred_schemas_in_one_request(world: World) -> None:
    data = {"properties": {f"p{n}": {"type": "string", "pattern": f"^a{n}+$"} for n in range(800)}}
    many = [{"name": f"s{n}", "version": 1, "type": "JSON", "data": data} for n in range(100)]
    world.ask("POST", "/api/schema", many)


def ten_thousand_references(world: World) -> None:
    data = {"$defs": {"a": {"type": "object"}}, "allOf": [{"$ref": "#/$defs/a"}] * 9_000}
    world.ask("POST", "/api/schema", {"name": "s", "version": 1, "type": "JSON", "data": data})
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    world.ask(
        "POST",
        "/api/schema",
        {"name": "s", "version": 1, "type": "JSON", "data": {"$defs": chain, "$ref": "#/$defs/d0"}},
    )


def a_schema_nested_deeply(world: World) -> None:
    for depth in (190, 250, 900):
        body = b'{"not":' * depth + b"{}" + b"}" * depth
        world.ask("POST", "/api/schema", b'{"name":"s","version":1,"type":"JSON","data":' + body + b"}")


def patterns_that_try_everything(world: World) -> None:
    for pattern in (
        "(a+)+$",
        "(a|a)*b",
        "(?=(a+)+b)a",
        "(.*)*x",
        "^(a{1,900}){1,900}$",
        "(" * 500 + ")" * 500,
        "a{99999}",
    ):
        schema = _enforced({"properties": {"a": {"type": "string", "pattern": pattern}}})
        if world.ask("POST", "/api/metadata/taskdefs", [{"name": "work", **schema}]).is_success:
            world.run(simple(inputParameters={"a": "${workflow.input.a}"}), given={"a": "a" * 200_000 + "!"})


def items_that_must_be_unique(world: World) -> None:
    schema = _enforced({"properties": {"a": {"uniqueItems": True}}})
    world.define_task("work", **schema)
    items = [{"n": n, "same": ["x"] * 5} for n in range(60_000)]
    world.run(wait("0s"), simple(inputParameters={"a": "${workflow.input.a}"}), given={"a": items})
    world.run(simple(inputParameters={"a": "${workflow.input.a}"}), given={"a": [[n] for n in range(200_000)]})


def items_that_are_contained(world: World) -> None:
    inner = {"contains": {"contains": {"const": 1}, "minContains": 2}, "minContains": 1}
    world.define_task("work", **_enforced({"properties": {"a": inner}}))
    world.run(simple(inputParameters={"a": "${workflow.input.a}"}), given={"a": [[0] * 100] * 9_000})


def a_schema_of_the_workflow_over_a_large_input(world: World) -> None:
    data = {"properties": {"a": {"items": {"anyOf": [{"const": n} for n in range(300)]}}}}
    definition = {"name": "hostile", "tasks": [simple()], **_enforced(data)}
    if world.ask("PUT", "/api/metadata/workflow", [definition]).is_success:
        world.ask("POST", "/api/workflow", {"name": "hostile", "input": {"a": [-1] * 500_000}})


def schemas_of_odd_types(world: World) -> None:
    data: Any
    for data in (
        None,
        True,
        False,
        5,
        "x",
        [],
        {"type": 5},
        {"properties": []},
        {"$ref": 5},
        {"enum": 1},
        {"pattern": "("},
    ):
        world.ask("POST", "/api/schema", {"name": "s", "version": 1, "type": "JSON", "data": data})
        world.ask("POST", "/api/metadata/taskdefs", [{"name": "work", **_enforced(data)}])
        world.ask("POST", "/api/metadata/workflow/validate", {"name": "h", "tasks": [simple()], **_enforced(data)})
