"""Polls, reports, logs, limits and bulk requests."""

from __future__ import annotations

from typing import Any

from .world import World, note, simple, task

MB = 1024 * 1024


def polls_with_odd_counts(world: World) -> None:
    world.run(simple())
    for count in ("-1", "0", "2147483648", "9007199254740991", "9" * 5_000, "1.5", "x", "", "NaN", "0x10"):
        world.ask("GET", f"/api/tasks/poll/batch/other?timeout=0&count={count}")
        world.ask("GET", f"/api/tasks/poll/batch/other?count=1&timeout={count if count[0:1] != '2' else 0}")
    assert len(world.poll(count=1_000_000)) == 1


def polls_for_ever_new_names(world: World) -> None:
    for number in range(500):
        world.ask(
            "GET",
            f"/api/tasks/poll/batch/{'t' * 20_000}{number}?timeout=0&domain={'d' * 20_000}&workerid={'w' * 20_000}",
        )
    world.ask("GET", "/api/tasks/queue/polldata?taskType=t")


def five_thousand_queues(world: World) -> None:
    branches = [[{**simple(f"r{n}"), "name": f"type{n}"}] for n in range(5_000)]
    world.run(task("FORK_JOIN", "fork", forkTasks=branches), task("JOIN", "join", joinOn=[]))
    world.ask("GET", "/api/tasks/queue/all")
    world.ask("GET", "/api/tasks/queue/all/verbose")


def domains_of_many_kinds(world: World) -> None:
    world.define("hostile", simple())
    domains: Any
    for domains in (
        {"*": "d," * 100_000},
        {"work": "x" * MB},
        {f"t{n}": "d" for n in range(50_000)},
        {"*": ""},
        {"": ""},
        {"work": ",,,"},
        {"*": "NO_DOMAIN"},
        {"work": 5},
        {"work": None},
        [],
        "x",
    ):
        world.ask("POST", "/api/workflow", {"name": "hostile", "input": {}, "taskToDomain": domains})


def logs_of_5_mb(world: World) -> None:
    world.run(simple())
    (held,) = world.poll()
    for _ in range(5):
        world.ask("POST", f"/api/tasks/{held['taskId']}/log", b"x" * 5 * MB)
    world.ask("POST", f"/api/tasks/{held['taskId']}/log", b"\xff\x00" * 1000)
    world.report(held, "IN_PROGRESS", logs=[{"log": "y" * 5 * MB}])
    world.ask("GET", f"/api/tasks/{held['taskId']}/log")


def a_hundred_thousand_log_lines(world: World) -> None:
    started = world.run(simple())
    (held,) = world.poll()
    lines = [{"log": f"line {n}", "createdTime": n} for n in range(100_000)]
    world.report(held, "IN_PROGRESS", logs=lines, callbackAfterSeconds=0)
    world.ask("GET", f"/api/tasks/{held['taskId']}/log")
    world.ask("GET", f"/api/workflow/{started}")
    world.ask("DELETE", f"/api/workflow/{started}/terminate-remove")


def logs_of_odd_types(world: World) -> None:
    world.run(simple())
    (held,) = world.poll()
    logs: Any
    for logs in (
        None,
        [],
        [None],
        [5],
        ["x"],
        [{"log": None}],
        [{"log": 5}],
        [{"createdTime": -1}],
        [{"createdTime": 2**70}],
        {},
    ):
        world.report(held, "IN_PROGRESS", logs=logs)
    world.refused("POST", f"/api/tasks/{held['taskId']}/log", b"")
    world.ask("POST", "/api/tasks/nobody/log", b"x")


def ten_thousand_reports_of_nonsense(world: World) -> None:
    nonsense: list[Any] = [
        None,
        5,
        {},
        [],
        {"taskId": "x"},
        {"taskId": "x", "workflowInstanceId": "y", "status": "COMPLETED"},
        {"status": "X" * 1000},
        {"taskId": "\x00" * 100, "workflowInstanceId": "z" * 1000},
    ]
    world.ask("POST", "/api/tasks/reports", (nonsense * 1_250)[:10_000])
    world.refused("POST", "/api/tasks/reports", [{}] * 10_001)


def ten_thousand_reports_about_one_task(world: World) -> None:
    started = world.run(simple())
    (held,) = world.poll()
    report = {"taskId": held["taskId"], "workflowInstanceId": started, "leaseId": held["leaseId"], "workerId": "w"}
    many = [{**report, "status": "IN_PROGRESS", "reportId": f"r{n}", "outputData": {"n": n}} for n in range(10_000)]
    world.accepted("POST", "/api/tasks/reports", many)
    world.ask("GET", f"/api/workflow/{started}")


def reports_of_a_hundred_large_outputs(world: World) -> None:
    world.define("hostile", simple(), note(a="${work.output.a}"))
    for _ in range(100):
        world.start("hostile")
    held = world.poll(count=100)
    reports = [
        {
            "taskId": one["taskId"],
            "workflowInstanceId": one["workflowInstanceId"],
            "leaseId": one["leaseId"],
            "status": "COMPLETED",
            "outputData": {"a": "x" * 90_000},
        }
        for one in held
    ]
    world.accepted("POST", "/api/tasks/reports", reports)


def reports_with_wrong_types(world: World) -> None:
    world.run(simple())
    (held,) = world.poll()
    odd: list[Any] = [None, True, -1, 2**63, 1e308, "", "x" * 100_000, [], {}, {"a": []}]
    for field in (
        "status",
        "outputData",
        "reasonForIncompletion",
        "callbackAfterSeconds",
        "extendLease",
        "leaseId",
        "reportId",
        "subWorkflowId",
    ):
        for value in odd:
            world.report(held, **{"status": "IN_PROGRESS", field: value})


def callbacks_at_the_ends_of_time(world: World) -> None:
    started = world.run(simple())
    for seconds in (-(2**31), -1, 0, 2**31 - 1, 2**31, 2**63, 10**30):
        found = world.poll() if seconds in (-(2**31), 0) else []
        if found:
            world.report(found[0], "IN_PROGRESS", callbackAfterSeconds=seconds)
        world.ask("POST", f"/api/workflow/{started}/resetcallbacks")
    world.ask("GET", f"/api/workflow/{started}")


def task_definitions_of_extremes(world: World) -> None:
    largest = 2**31 - 1
    world.define_task(
        "work",
        retryCount=largest,
        retryLogic="EXPONENTIAL_BACKOFF",
        retryDelaySeconds=largest,
        backoffScaleFactor=largest,
        maxRetryDelaySeconds=largest,
        backoffJitterMs=largest,
        timeoutSeconds=0,
        responseTimeoutSeconds=largest,
        pollTimeoutSeconds=largest,
        rateLimitPerFrequency=largest,
        rateLimitFrequencyInSeconds=largest,
        concurrentExecLimit=largest,
        totalTimeoutSeconds=largest,
    )
    started = world.run(simple(startDelay=largest))
    world.accepted("DELETE", f"/api/workflow/{started}")
    started = world.run(simple(retryCount=largest))
    (held,) = world.poll()
    world.report(held, "FAILED", reasonForIncompletion="r" * MB)
    world.accepted("GET", f"/api/workflow/{started}")


def a_task_that_is_retried_at_once_for_ever(world: World) -> None:
    world.define_task("work", retryCount=2**31 - 1, retryDelaySeconds=0)
    started = world.run(simple(inputParameters={"a": "${workflow.input.a}"}), given={"a": "x" * 100_000})
    for _ in range(200):
        (held,) = world.poll()
        world.report(held, "FAILED")
    world.accepted("GET", f"/api/workflow/{started}")


def priorities_out_of_range(world: World) -> None:
    world.define("hostile", simple())
    for priority in (-1, 0, 99, 100, 2**31, 2**63, -(2**63), 1.5, "5", "x", None, True):
        world.ask("POST", "/api/workflow", {"name": "hostile", "input": {}, "priority": priority})
        world.ask("POST", f"/api/workflow/hostile?priority={priority}", {})
    world.ask("GET", "/api/tasks/queue/size?taskType=work")


def bulk_requests_of_a_thousand(world: World) -> None:
    world.define("hostile", simple(), simple("b"), note())
    ids = [world.start("hostile", {"a": "x" * 1000}) for _ in range(300)]
    for action in ("pause", "resume"):
        world.accepted("PUT", f"/api/workflow/bulk/{action}", [*ids, *["nobody"] * 700])
    for action in ("terminate", "restart", "terminate", "retry"):
        world.accepted("POST", f"/api/workflow/bulk/{action}", ids)
    world.ask("POST", "/api/workflow/bulk/terminate", [ids[0]] * 1_000)
    world.ask("POST", "/api/workflow/bulk/terminate", ["x" * 9_000] * 1_000)
    world.refused("POST", "/api/workflow/bulk/terminate", ids * 4)


def bulk_terminations_of_large_workflows(world: World) -> None:
    branches = [[simple(f"t{n}")] for n in range(200)]
    world.define("hostile", task("FORK_JOIN", "fork", forkTasks=branches), task("JOIN", "join", joinOn=[]))
    ids = [world.start("hostile") for _ in range(40)]
    world.accepted("POST", "/api/workflow/bulk/terminate", ids)
    world.accepted("POST", "/api/workflow/bulk/restart", ids)
    world.accepted("DELETE", "/api/workflow/bulk/terminate-remove", ids)


def a_requeue_of_twenty_thousand(world: World) -> None:
    branches = [[simple(f"t{n}")] for n in range(2_000)]
    world.define("hostile", task("FORK_JOIN", "fork", forkTasks=branches), task("JOIN", "join", joinOn=[]))
    for _ in range(10):
        world.start("hostile")
    for _ in range(5):
        world.poll(count=1_000)
    world.accepted("POST", "/api/tasks/queue/requeue/work")


def five_hundred_timeouts_at_once(world: World) -> None:
    world.define_task("work", responseTimeoutSeconds=1, timeoutSeconds=1, timeoutPolicy="TIME_OUT_WF", retryCount=0)
    branches = [[simple(f"t{n}")] for n in range(50)]
    world.define(
        "hostile",
        task("FORK_JOIN", "fork", forkTasks=branches),
        task("JOIN", "join", joinOn=[]),
        description="d" * 100_000,
    )
    ids = [world.start("hostile", {"a": "x" * 100_000}) for _ in range(20)]
    for started in ids:
        world.poll(count=1_000)
        world.ends(started, "TIMED_OUT")


def correlation_ids_by_the_thousand(world: World) -> None:
    world.start("small", correlationId="c" * MB)
    world.ask("POST", "/api/workflow/small/correlated", ["c" * 900] * 1_000)
    world.refused("POST", "/api/workflow/small/correlated", ["c"] * 1_001, because="at most 1000")
    world.ask("POST", "/api/workflow/small/correlated?includeClosed=true&includeTasks=true", ["c" * MB] * 5)


def a_workflow_found_by_its_correlation_a_thousand_times(world: World) -> None:
    for _ in range(20):
        world.start("small", {"n": "x" * 200_000}, correlationId="same")
    world.ask("POST", "/api/workflow/small/correlated?includeClosed=true&includeTasks=true", ["same"] * 1_000)


def headers_of_many_kinds(world: World) -> None:
    for value in (b"9" * 4_300, b"\xff" * 1_000, b"." * 60_000, b"x" * 70_000, b"a.b" * 1_000):
        world.ask("GET", "/api/version", headers={"X-Authorization": value})
    for path in (
        "/a" + "/" * 5_000,
        "/api/" + "a/" * 10_000,
        "/%00",
        "/api/workflow/%ff",
        "/api/tasks/poll/%2e%2e%2f",
        "/api?" + "a&" * 20_000,
    ):
        world.ask("GET", path)
    world.ask("POST", "/api/token", {"keyId": "x" * MB, "keySecret": 5})


def updates_by_reference_of_anything(world: World) -> None:
    started = world.run(simple())
    for ref in ("nobody", "x" * 20_000, "%00", "work__5"):
        for status in ("COMPLETED", "X" * 5_000, "IN_PROGRESS"):
            world.ask("POST", f"/api/tasks/{started}/{ref}/{status}", {"a": [1] * 1000})
            world.ask("POST", f"/api/tasks/{started}/{status}/signal", {"a": "x" * MB})
    world.ask("POST", f"/api/workflow/{started}/rerun", {"reRunFromTaskId": "x" * MB, "taskInput": {"a": "x" * MB}})
    world.ask("PUT", f"/api/workflow/{started}/skiptask/{'x' * 20_000}", {"taskInput": {}})
