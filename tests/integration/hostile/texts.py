"""Durations, queries, conditions, expressions, templates, and names."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from .world import World, note, simple, task, wait

MB = 1024 * 1024


def a_duration_of_spaces_from_the_input(world: World) -> None:
    started = world.run(wait("${workflow.input.how}"), given={"how": " " * 5000 + "x"})
    world.ends(started, "FAILED", "duration")


def a_duration_of_spaces_behind_a_wait(world: World) -> None:
    started = world.run(wait("1s"), wait("${workflow.input.how}", "next"), given={"how": "1" + " " * 9000 + "x"})
    world.ends(started, "FAILED", "duration")


def a_duration_of_spaces_from_a_worker(world: World) -> None:
    started = world.run(simple(), wait("${work.output.how}"))
    world.work({"how": "1 d" * 3000})
    world.ends(started, "FAILED", "duration")


def durations_of_odd_types(world: World) -> None:
    world.define("hostile", wait("${workflow.input.how}"))
    how: Any
    for how in ({}, [], ["1s"], -1, 1e308, True, "", "9" * 400 + "s", "-5s", "99999999999d", "1s\x00", "１s"):
        started = world.start("hostile", {"how": how})
        world.ask("DELETE", f"/api/workflow/{started}")
        assert world.status(started)["status"] in ("FAILED", "TERMINATED", "COMPLETED")


def a_time_of_many_digits(world: World) -> None:
    world.define("hostile", task("WAIT", "wait", inputParameters={"until": "${workflow.input.until}"}))
    for until in ("9999-99-99 99:99", "2" * 3000, "0001-01-01", "2030-01-01 00:00 " + "A" * 150, " " * 190):
        started = world.start("hostile", {"until": until})
        world.ask("DELETE", f"/api/workflow/{started}")


def _search(world: World, query: str, **more: str) -> None:
    asked = "&".join(f"{name}={quote(value)}" for name, value in {"query": query, **more}.items())
    for where in ("workflow/search", "tasks/search", "workflow/search-by-tasks"):
        world.ask("GET", f"/api/{where}?{asked}")


def a_query_of_spaces(world: World) -> None:
    _search(world, "a=" + " " * 9_900 + "x\ny")
    _search(world, "status" + " \t" * 4_000 + "=")


def a_query_of_brackets_and_quotes(world: World) -> None:
    for text in ("(" * 9_000, "status IN (" + "a," * 4_900 + ")", "'" * 9_000, '"' * 9_001, "a='" * 3_000):
        _search(world, text)


def a_query_of_conditions(world: World) -> None:
    _search(world, " AND ".join(["status=RUNNING"] * 600))
    _search(world, " OR ".join(["workflowType=a"] * 600))


def a_query_of_wildcards(world: World) -> None:
    for number in range(20):
        world.start("small", {"n": "ab" * 20_000, "number": number})
    _search(world, "workflowType='" + "*a" * 4_000 + "'")
    _search(world, "workflowType='" + "%a_" * 3_000 + "'")


def a_free_text_of_10_kb(world: World) -> None:
    for number in range(20):
        world.start("small", {"n": "a" * 50_000, "number": number})
    for text in ("a" * 9_000 + "b", "%" * 9_000, "\\" * 9_000, "* " * 4_000, "NEAR(" * 1_800):
        _search(world, "status=COMPLETED", freeText=text)


def a_search_with_odd_pages(world: World) -> None:
    for start, size in (("-1", "5"), ("0", "-5"), ("9007199254740990", "5000"), ("0", "99999999")):
        _search(world, "status=RUNNING", start=start, size=size, sort="startTime:" + "ASC," * 2_000)


def _switch(expression: Any) -> dict[str, Any]:
    return task("SWITCH", "choose", evaluatorType="javascript", expression=expression, decisionCases={"a": [note()]})


def _strange_condition(world: World, expression: str) -> None:
    """Refused where it is registered; or it is a script, which comes to an end."""
    answer = world.ask("PUT", "/api/metadata/workflow", [{"name": "hostile", "tasks": [_switch(expression)]}])
    if answer.is_success:
        world.over(world.start("hostile"))
    else:
        assert answer.is_client_error, answer.text[:500]


def a_condition_of_comments(world: World) -> None:
    _strange_condition(world, "/* " * 32_000)
    _strange_condition(world, "/*" * 21_000 + "*/")


def a_condition_of_line_ends(world: World) -> None:
    world.define("hostile", _switch("//" + "\n//" * 20_000))
    world.ends(world.start("hostile"), "COMPLETED")


def a_condition_of_brackets(world: World) -> None:
    _strange_condition(world, "(" * 30_000 + "1" + ")" * 30_000)


def a_condition_of_signs(world: World) -> None:
    _strange_condition(world, "!" * 60_000 + "a")
    _strange_condition(world, "-" * 60_000 + "1")


def a_condition_of_5_mb(world: World) -> None:
    _strange_condition(world, "a == 1 || " * (MB // 2) + "b")


def a_condition_over_large_values(world: World) -> None:
    text = "$.a + $.a + $.a + $.a + $.a + $.a == $.b ? 'a' : 'b'"
    switch = {**_switch(text), "inputParameters": {"a": "${workflow.input.a}", "b": "${workflow.input.a}"}}
    world.define("hostile", wait("0s"), switch)
    a: Any
    for a in ("x" * 3 * MB, ["y"] * 100_000, 1e308, -0.0, {"deep": {}}, None):
        started = world.start("hostile", {"a": a})
        world.ask("GET", f"/api/workflow/{started}?includeTasks=false")


def many_elements_fifty_times(world: World) -> None:
    many = {f"k{n}": "${workflow.input.list[*].a}" for n in range(50)}
    started = world.run(wait("0s"), note(**many), given={"list": [{"a": n} for n in range(300_000)]})
    world.ends(started, "FAILED")


def stars_in_stars(world: World) -> None:
    grid = [[[{"a": 1}] * 40] * 40] * 40
    started = world.run(note(**{f"k{n}": "${workflow.input.l[*][*][*].a}" for n in range(40)}), given={"l": grid})
    world.ends(started, "FAILED")


def a_template_of_5_mb(world: World) -> None:
    text = "${workflow.input.a} and " * (5 * MB // 24)
    world.refused(
        "PUT", "/api/metadata/workflow", [{"name": "hostile", "tasks": [note(a=text)]}], because="expressions"
    )


def a_template_of_as_much_as_is_read(world: World) -> None:
    text = "${workflow.input.a} and " * 19_000
    world.ends(world.run(wait("0s"), note(a=text), given={"a": "b" * 100}), "COMPLETED")


def a_template_that_multiplies(world: World) -> None:
    started = world.run(note(a="${workflow.input.a}" * 200), given={"a": "x" * MB})
    world.ends(started, "FAILED")


def a_template_of_many_keys(world: World) -> None:
    values = {f"k{n}": f"${{workflow.input.k{n}}}" for n in range(100_000)}
    world.refused("PUT", "/api/metadata/workflow", [{"name": "hostile", "tasks": [note(**values)]}])
    started = world.run(wait("0s"), note(**dict(list(values.items())[:19_000])), given={"k1": 1})
    world.ends(started, "COMPLETED")


def a_template_of_open_braces(world: World) -> None:
    for text in ("${" * 2_000_000, "$${" * 1_000_000, "${a" * 1_000_000, "}" * 5_000_000, "${${${" * 500_000):
        world.ask("POST", "/api/metadata/workflow/validate", {"name": "hostile", "tasks": [note(a=text)]})


def long_texts_that_are_seen_once(world: World) -> None:
    for number in range(20):
        text = f"${{workflow.input.{'x' * 4 * MB}{number}}}"
        world.ask("POST", "/api/metadata/workflow/validate", {"name": "hostile", "tasks": [note(a=text)]})


def an_expression_of_steps(world: World) -> None:
    for text in ("workflow.input" + ".a" * 500_000, "workflow.input" + "[0]" * 300_000, "workflow" + "." * 100_000):
        world.ask("POST", "/api/metadata/workflow/validate", {"name": "hostile", "tasks": [note(a=f"${{{text}}}")]})


def an_expression_with_a_huge_index(world: World) -> None:
    for index in ("9" * 5_000, "-1", "1e9", "99999999999999999999", "*" * 5_000, " 1 "):
        definition = {"name": "hostile", "tasks": [note(a=f"${{workflow.input.l[{index}]}}")]}
        if world.ask("PUT", "/api/metadata/workflow", [definition]).is_success:
            world.start("hostile", {"l": [1, 2]})


def names_of_a_megabyte(world: World) -> None:
    name = "n" * MB
    world.ask("POST", "/api/metadata/workflow", {"name": name, "tasks": [note()]})
    world.ask("POST", "/api/metadata/taskdefs", [{"name": name}])
    world.ask("POST", "/api/workflow", {"name": name})
    world.ask("POST", "/api/workflow", {"name": "small", "correlationId": name})
    world.ask(
        "POST", "/api/workflow", {"name": "small", "idempotencyKey": name, "idempotencyStrategy": "RETURN_EXISTING"}
    )
    world.define("hostile", {**simple(), "name": name, "taskReferenceName": name})
    world.start("hostile")
    world.ask("GET", "/api/tasks/queue/all")


def names_that_are_empty_or_odd(world: World) -> None:
    for name in (
        "",
        " ",
        "\t\n",
        "\x00",
        "a\x00b",
        "..",
        "../../x",
        "%2e",
        "a/b",
        "${workflow.input.a}",
        "\u202e",
        "💥" * 99,
    ):
        world.ask("POST", "/api/metadata/workflow", {"name": name, "tasks": [note()]})
        world.ask("POST", "/api/metadata/workflow", {"name": "odd", "tasks": [note(name or "")]})
        world.ask("POST", "/api/metadata/taskdefs", [{"name": name}])
        world.ask("POST", "/api/workflow", {"name": name, "correlationId": name, "createdBy": name})
        world.ask("GET", f"/api/metadata/workflow/{quote(name, safe='')}")
        world.ask("GET", f"/api/tasks/poll/{quote(name, safe='')}?timeout=0&domain={quote(name)}")


def idempotency_keys_of_any_kind(world: World) -> None:
    for key in ("", " ", "\x00", "k" * MB, 5, None, ["a"], {"a": 1}):
        for strategy in ("FAIL", "RETURN_EXISTING", "FAIL_ON_RUNNING", "", "x" * 100_000, 7):
            asked = {"name": "small", "input": {}, "idempotencyKey": key, "idempotencyStrategy": strategy}
            world.ask("POST", "/api/workflow", asked)
