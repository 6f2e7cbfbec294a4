"""Loops, forks, joins, sub-workflows and failure workflows."""

from __future__ import annotations

from typing import Any

from .world import World, note, simple, task, wait

MB = 1024 * 1024


def _loop(*tasks: Any, condition: str = "true", **inputs: Any) -> dict[str, Any]:
    return task("DO_WHILE", "loop", loopCondition=condition, loopOver=list(tasks), inputParameters=inputs)


def _fork(*branches: Any, join_on: Any = None) -> list[dict[str, Any]]:
    return [task("FORK_JOIN", "fork", forkTasks=list(branches)), task("JOIN", "join", joinOn=join_on or [])]


def a_loop_without_a_wait(world: World) -> None:
    world.ends(world.run(_loop(note())), "FAILED", "without")


def a_loop_without_a_wait_and_a_variable_of_a_megabyte(world: World) -> None:
    started = world.run(
        note(a="${workflow.input.a}"), _loop(note("n", b="${workflow.variables.a}")), given={"a": "x" * MB}
    )
    world.ends(started, "FAILED")


def a_loop_of_switches(world: World) -> None:
    switch = task(
        "SWITCH",
        "s",
        evaluatorType="value-param",
        expression="x",
        decisionCases={"a": [note("m")]},
        inputParameters={"x": "a"},
    )
    world.ends(world.run(_loop(switch, note())), "FAILED")


def a_loop_behind_a_wait(world: World) -> None:
    world.ends(world.run(wait("1s"), _loop(note())), "FAILED")


def ten_loops_at_once(world: World) -> None:
    world.define("hostile", _loop(note()))
    for started in [world.start("hostile") for _ in range(10)]:
        world.ask("DELETE", f"/api/workflow/{started}")


def a_loop_over_waits_of_nothing(world: World) -> None:
    started = world.run(_loop(wait("0s")))
    world.ask("GET", f"/api/workflow/{started}?includeTasks=false")
    world.ask("DELETE", f"/api/workflow/{started}")


def a_loop_over_a_worker_that_is_quick(world: World) -> None:
    started = world.run(_loop(simple(), condition="$.loop['iteration'] < 200"))
    for _ in range(200):
        world.work({"x": "y" * 1000})
    world.ends(started, "COMPLETED")


def a_loop_that_grows_its_variable(world: World) -> None:
    grow = note(a="${workflow.variables.a}${workflow.variables.a}")
    world.ends(world.run(note("first", a="x"), _loop(grow)), "FAILED")


def a_fork_of_5000(world: World) -> None:
    branches = [[simple(f"t{n}")] for n in range(5_000)]
    started = world.run(*_fork(*branches, join_on=[f"t{n}" for n in range(5_000)]))
    world.accepted("GET", f"/api/workflow/{started}?includeTasks=false")
    for held in world.poll(count=50):
        world.report(held)
    world.accepted("DELETE", f"/api/workflow/{started}")


def a_fork_of_5000_that_do_not_wait(world: World) -> None:
    branches = [[note(f"t{n}", a=n)] for n in range(5_000)]
    started = world.run(*_fork(*branches, join_on=[f"t{n}" for n in range(5_000)]))
    world.ends(started, "COMPLETED")


def a_definition_that_is_data(world: World) -> None:
    param = {"name": "inner", "workflowDefinition": "${workflow.input.definition}"}
    world.define("hostile", task("SUB_WORKFLOW", "sub", subWorkflowParam=param))
    loop = {"name": "inner", "tasks": [_loop(note())]}
    large = {"name": "inner", "tasks": [simple(f"t{n}") for n in range(10_000)]}
    templates = {"name": "inner", "tasks": [note(**{f"k{n}": "${workflow.input.a}" for n in range(60_000)})]}
    itself = {"name": "inner", "tasks": [task("SUB_WORKFLOW", "sub", subWorkflowParam={"name": "hostile"})]}
    definition: Any
    for definition in (loop, large, templates, itself, {}, [], "x", {"name": "inner", "tasks": [{}]}):
        started = world.start("hostile", {"definition": definition})
        world.ask("DELETE", f"/api/workflow/{started}")


def a_join_on_itself(world: World) -> None:
    for join_on in (["join"], ["nobody"], ["a"] * 10_000, ["fork"], [""], ["a", "join", "fork"]):
        tasks = _fork([simple("a")], [note("b")], join_on=join_on)
        if world.ask("PUT", "/api/metadata/workflow", [{"name": "hostile", "tasks": tasks}]).is_success:
            started = world.start("hostile")
            world.work()
            world.ask("GET", f"/api/workflow/{started}")


def forks_in_forks(world: World) -> None:
    inner: list[Any] = [note("leaf")]
    for level in range(14):
        inner = [
            task("FORK_JOIN", f"f{level}", forkTasks=[inner, [note(f"n{level}")]]),
            task("JOIN", f"j{level}", joinOn=[]),
        ]
    world.ends(world.run(*inner), "COMPLETED")


def a_workflow_that_starts_itself(world: World) -> None:
    started = world.run(task("SUB_WORKFLOW", "sub", subWorkflowParam={"name": "hostile"}))
    world.ends(started, "FAILED")


def a_workflow_that_starts_itself_twice(world: World) -> None:
    sub = {"subWorkflowParam": {"name": "hostile"}}
    started = world.run(
        *_fork([task("SUB_WORKFLOW", "a", **sub)], [task("SUB_WORKFLOW", "b", **sub)], join_on=["a", "b"])
    )
    world.ask("GET", f"/api/workflow/{started}?includeTasks=false")
    world.ask("DELETE", f"/api/workflow/{started}")


def two_workflows_that_start_each_other(world: World) -> None:
    world.define("ping", task("SUB_WORKFLOW", "sub", subWorkflowParam={"name": "pong"}))
    world.define("pong", wait("0s"), task("SUB_WORKFLOW", "sub", subWorkflowParam={"name": "ping"}))
    world.ask("GET", f"/api/workflow/{world.start('ping')}")


def a_failure_workflow_that_names_itself(world: World) -> None:
    end = task("TERMINATE", "end", inputParameters={"terminationStatus": "FAILED"})
    world.ends(world.run(end, failureWorkflow="hostile"), "FAILED")


def failure_workflows_in_a_circle(world: World) -> None:
    end = task(
        "TERMINATE", "end", inputParameters={"terminationStatus": "FAILED", "workflowOutput": "${workflow.input}"}
    )
    world.define("first", end, failureWorkflow="second")
    world.define("second", end, failureWorkflow="first")
    world.ends(world.start("first", {"a": "x" * 100_000}), "FAILED")


def a_failure_workflow_whose_name_is_data(world: World) -> None:
    end = task("TERMINATE", "end", inputParameters={"terminationStatus": "FAILED"})
    world.define("hostile", end, failureWorkflow="${workflow.input.x}")
    for name in ("hostile", "", "\x00", "x" * MB, 5, {"a": 1}, None):
        world.ends(world.start("hostile", {"x": name}), "FAILED")


def an_optional_task_that_always_fails_in_a_loop(world: World) -> None:
    bad = {**wait("${workflow.input.bad}"), "optional": True}
    started = world.run(_loop(bad), given={"bad": "never"})
    world.ask("GET", f"/api/workflow/{started}?includeTasks=false")
    world.ask("DELETE", f"/api/workflow/{started}")


def a_restart_of_a_loop(world: World) -> None:
    started = world.run(_loop(note()))
    world.ends(started, "FAILED")
    for action in ("retry", "restart", "rerun"):
        world.ask("POST", f"/api/workflow/{started}/{action}", {} if action == "rerun" else None)
        world.ends(started, "FAILED")


def _dynamic_fork(**inputs: Any) -> list[dict[str, Any]]:
    named = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "ins"}
    return [task("FORK_JOIN_DYNAMIC", "fork", inputParameters=inputs, **named), task("JOIN", "join")]


def a_dynamic_fork_of_a_million_branches(world: World) -> None:
    started = world.run(*_dynamic_fork(forkTaskInputs="${workflow.input.l}"), given={"l": [0] * 900_000})
    world.ends(started, "FAILED", "branches")


def everything_inside_of_a_deep_value(world: World) -> None:
    deep: Any = {"a": 1}
    for _ in range(90):
        deep = {"a": deep, "b": [0] * 10}
    many = {f"k{n}": "${workflow.input.deep" + "..a" * 20 + "}" for n in range(10)}
    started = world.run(note(**many), given={"deep": {"a": deep}})
    world.status(started)
