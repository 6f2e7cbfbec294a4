"""Nesting, numbers, characters, wrong types, and sizes of JSON."""

from __future__ import annotations

from typing import Any

from .world import World, note, simple, task, wait

MB = 1024 * 1024
ODD: list[Any] = [None, True, -1, 1e308, 2**63, "", "x" * 10_000, [], [[]], {}, {"": None}, [None] * 1000]


def json_nested_deeply(world: World) -> None:
    for depth in (500, 5_000, 1_000_000):
        world.ask("POST", "/api/workflow/small", b'{"n":' * depth + b"1" + b"}" * depth)
        world.ask("POST", "/api/workflow/small", b'{"n":' + b"[" * depth + b"]" * depth + b"}")


def json_nested_as_deeply_as_is_read(world: World) -> None:
    world.define("deep", wait("0s"), note(a="${workflow.input.n}", b="x ${workflow.input.n} y"), simple())
    for depth in (100, 190, 400, 900):
        answer = world.ask("POST", "/api/workflow/deep", b'{"n":' + b"[" * depth + b"]" * depth + b"}")
        if answer.is_success:
            world.ask("GET", f"/api/workflow/{answer.text}")
            world.ask("GET", "/api/workflow/search-v2?query=workflowType=deep")


def an_output_nested_deeply(world: World) -> None:
    started = world.run(simple(), note(a="${work.output}", b="${work.output.n} as text"))
    (held,) = world.poll()
    deep: Any = 1
    for _ in range(300):
        deep = {"n": deep}
    world.report(held, outputData=deep)
    world.ask("GET", f"/api/workflow/{started}")


def json_of_ten_million_bytes_of_small_things(world: World) -> None:
    for small, tail in ((b"[],", b"[]"), (b"0,", b"0"), (b'"",', b'""'), (b"{},", b"{}"), (b"1e9,", b"1")):
        world.refused("POST", "/api/workflow/small", b'{"n":[' + small * (9 * MB // len(small)) + tail + b"]}")


def json_of_a_million_keys(world: World) -> None:
    keys = b",".join(b'"%d":%d' % (n, n) for n in range(600_000))
    world.ask("POST", "/api/workflow/small", b"{" + keys + b"}")


def ten_strings_of_ten_megabytes_in_turn(world: World) -> None:
    body = b'{"n":"' + b"\\u00e9" * (9 * MB // 6) + b'"}'
    for _ in range(10):
        world.ask("POST", "/api/workflow/small", body)


def numbers_that_are_huge(world: World) -> None:
    for number in (
        b"9" * 100_000,
        b"1e999999",
        b"-0",
        b"1e-999999",
        b"9" * 4_000 + b".5",
        b"NaN",
        b"Infinity",
        b"0" * 5_000,
    ):
        world.ask("POST", "/api/workflow/small", b'{"n":' + number + b"}")
        world.ask("POST", "/api/workflow", b'{"name":"small","priority":' + number + b"}")
        world.ask("POST", "/api/workflow", b'{"name":"small","version":' + number + b"}")
        world.ask("GET", "/api/workflow/search?size=" + number.decode()[:5_000])


def a_sum_over_huge_numbers(world: World) -> None:
    loop = task(
        "DO_WHILE",
        "loop",
        loopCondition="$.loop['iteration'] < 3 && $.n * $.n * $.n != $.n + 1",
        inputParameters={"n": "${workflow.input.n}"},
        loopOver=[wait("0s")],
    )
    world.define("hostile", loop)
    for number in (10**300, -(10**18), 2**63, 1e308, 0.1):
        world.ask("POST", "/api/workflow", {"name": "hostile", "input": {"n": number}})


def halves_of_characters_and_zeros(world: World) -> None:
    for text in (
        b"\\ud800",
        b"\\udfff\\ud800",
        b"a\\u0000b",
        b"\\u0000" * 10_000,
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\x00",
    ):
        world.ask("POST", "/api/workflow/small", b'{"n":"' + text + b'"}')
        world.ask("POST", "/api/workflow/small", b'{"' + text + b'":1}')
        world.ask("POST", "/api/workflow", b'{"name":"small","correlationId":"' + text + b'"}')
        world.ask("POST", "/api/metadata/taskdefs", b'[{"name":"' + text + b'"}]')


def zeros_all_the_way(world: World) -> None:
    started = world.run(
        wait("0s"), note(**{"a\x00": "${workflow.input.a}\x00"}), simple(), given={"a": "\x00", "\x00": 1}
    )
    world.work({"\x00": "\x00"})
    world.ends(started, "COMPLETED")
    world.accepted("GET", f"/api/workflow/{started}")
    world.ask("GET", "/api/workflow/search?freeText=%00")


def bodies_of_the_wrong_type(world: World) -> None:
    routes = (
        "metadata/workflow",
        "metadata/taskdefs",
        "workflow",
        "tasks",
        "tasks/reports",
        "schema",
        "workflow/small",
    )
    for body in (
        b"",
        b"null",
        b"[]",
        b"{}",
        b"5",
        b'"x"',
        b"[null]",
        b"[[]]",
        b"\xef\xbb\xbf{}",
        b"{",
        b"nul",
        b"[" * 50,
    ):
        for route in routes:
            for method in ("POST", "PUT"):
                world.ask(method, f"/api/{route}", body)


def a_definition_with_wrong_types_everywhere(world: World) -> None:
    whole = task("SWITCH", "choose", evaluatorType="value-param", expression="x", decisionCases={"a": [note()]})
    fields = (
        *whole,
        "inputParameters",
        "optional",
        "taskDefinition",
        "retryCount",
        "joinOn",
        "loopOver",
        "defaultCase",
    )
    for field in fields:
        for odd in ODD:
            world.ask("POST", "/api/metadata/workflow/validate", {"name": "hostile", "tasks": [{**whole, field: odd}]})
    for field in ("name", "version", "tasks", "outputParameters", "failureWorkflow", "timeoutSeconds", "inputTemplate"):
        for odd in ODD:
            world.ask("POST", "/api/metadata/workflow/validate", {"name": "h", "tasks": [note()], field: odd})


def dynamic_values_of_wrong_types(world: World) -> None:
    world.define(
        "hostile",
        wait("0s"),
        task(
            "SWITCH",
            "choose",
            evaluatorType="value-param",
            expression="x",
            decisionCases={"a": [note()]},
            inputParameters={"x": "${workflow.input.x}"},
        ),
    )
    inline = {"name": "inline", "workflowDefinition": "${workflow.input.x}", "taskToDomain": "${workflow.input.x}"}
    world.ask(
        "PUT",
        "/api/metadata/workflow",
        [{"name": "inline", "tasks": [task("SUB_WORKFLOW", "sub", subWorkflowParam=inline)]}],
    )
    world.define("subs", task("SUB_WORKFLOW", "sub", subWorkflowParam={"name": "${workflow.input.x}"}))
    world.define(
        "ends",
        task(
            "TERMINATE",
            "end",
            inputParameters={"terminationStatus": "${workflow.input.x}", "workflowOutput": "${workflow.input.x}"},
        ),
    )
    for name in ("hostile", "inline", "subs", "ends"):
        for odd in ODD:
            answer = world.ask("POST", "/api/workflow", {"name": name, "input": {"x": odd}})
            world.ask("DELETE", f"/api/workflow/{answer.text if answer.is_success else 'nobody'}")


def a_switch_in_a_switch(world: World) -> None:
    for depth in (25, 500, 5_000):
        inner: list[Any] = [note()]
        for level in range(depth):
            inner = [
                task(
                    "SWITCH",
                    f"s{level}",
                    evaluatorType="value-param",
                    expression="x",
                    decisionCases={"a": inner},
                    inputParameters={"x": "${workflow.input.x}"},
                )
            ]
        try:
            world.ask("POST", "/api/metadata/workflow", {"name": f"deep{depth}", "tasks": inner})
        except RecursionError:
            body = b'{"name":"d","type":"SWITCH","decisionCases":{"a":[' * depth + b"]}}" * depth
            world.refused("POST", "/api/metadata/workflow", b'{"name":"deep","tasks":[' + body + b"]}")
    started = world.start("deep25", {"x": "a"})
    world.ends(started, "COMPLETED")


def a_definition_inside_a_definition(world: World) -> None:
    for depth in (20, 40, 100):
        inner: dict[str, Any] = {"name": "inner", "tasks": [note()]}
        for level in range(depth):
            param = {"name": f"n{level}", "workflowDefinition": inner}
            inner = {"name": f"n{level}", "tasks": [task("SUB_WORKFLOW", "sub", subWorkflowParam=param)]}
        world.ask("POST", "/api/workflow", {"name": "outer", "workflowDef": inner})


def a_definition_of_ten_thousand_tasks(world: World) -> None:
    world.define(
        "hostile", *[simple(f"t{n}", inputParameters={"a": f"${{t{max(0, n - 1)}.output.x}}"}) for n in range(10_000)]
    )
    started = world.start("hostile")
    world.work()
    world.accepted("GET", f"/api/workflow/{started}")


def a_definition_of_ten_thousand_tasks_that_do_not_wait(world: World) -> None:
    world.define("hostile", *[note(f"t{n}", a=n) for n in range(10_000)])
    started = world.start("hostile")
    world.ask("GET", f"/api/workflow/{started}?includeTasks=false")
    world.ask("DELETE", f"/api/workflow/{started}")


def a_definition_with_ten_thousand_mistakes(world: World) -> None:
    tasks = [{"name": "", "taskReferenceName": "a", "type": "X" * 100, "inputParameters": 5}] * 10_000
    world.refused("POST", "/api/metadata/workflow", {"name": "hostile", "tasks": tasks})
    tasks = [note(f"t{n}", a="${nobody.output.x}") for n in range(20_000)]
    world.refused("POST", "/api/metadata/workflow", {"name": "hostile", "tasks": tasks})


def a_definition_of_9_mb(world: World) -> None:
    world.define("hostile", note(), simple(), description="d" * 9 * MB)
    for _ in range(5):
        world.start("hostile")
    world.ask("GET", "/api/metadata/workflow")
    world.ask("GET", "/api/metadata/workflow/names")


def an_input_of_9_mb_that_travels(world: World) -> None:
    started = world.run(
        *[note(f"n{n}", a="${workflow.input.a}") for n in range(8)],
        given={"a": "x" * 9 * MB},
        outputParameters={"a": "${workflow.variables.a}", "b": "${workflow.input.a}"},
    )
    world.ends(started, "FAILED")
