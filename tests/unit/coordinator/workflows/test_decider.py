"""The decider alone: the next tasks after each event of a workflow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conductor.coordinator.definitions.workflow_plan import TASK_TYPES, WorkflowPlan
from conductor.coordinator.workflows import decider
from conductor.coordinator.workflows.decider import after_sub_workflow, decide
from conductor.coordinator.workflows.operators import OPERATORS
from conductor.coordinator.workflows.retries import MAX_DELAY_S, retry_delay_ms, retry_limit
from conductor.coordinator.workflows.state import TaskList, TaskState, WorkflowState
from conductor.protocol.statuses import TaskStatus, WorkflowStatus
from tests.unit.coordinator.decider_harness import START_MS, Run, fork, loop, sequences, switch, task

# -- tasks in sequence


def test_tasks_run_one_after_the_other_and_the_last_output_is_the_workflows() -> None:
    run = Run(task("a"), task("b"))
    assert run.open == ["a"]
    assert run["a"].seq == 1
    run.complete("a")
    assert run.open == ["b"]
    run.end("b", output={"x": 1})
    assert run.status == "COMPLETED"
    assert run.state.output == {"x": 1}


def test_input_is_resolved_when_the_task_is_reached() -> None:
    run = Run(
        task(
            "a", inputParameters={"n": "${workflow.input.n}", "id": "${workflow.workflowId}/${workflow.correlationId}"}
        ),
        task("b", inputParameters={"y": "${a.output.y.z[0]}", "s": "was ${a.status}", "in": "${a.input.n}"}),
        given={"n": [1, 2]},
    )
    assert run["a"].input == {"n": [1, 2], "id": "flow-1/order-7"}
    run.end("a", output={"y": {"z": [5]}})
    assert run["b"].input == {"y": 5, "s": "was COMPLETED", "in": [1, 2]}


def test_output_parameters_make_the_output_of_a_workflow() -> None:
    run = Run(task("a"), outputParameters={"all": "${a.output}", "who": "${workflow.input.who}"}, given={"who": "me"})
    run.end("a", output={"k": 1})
    assert run.state.output == {"all": {"k": 1}, "who": "me"}


def test_input_template_of_the_definition_fills_in_what_is_missing_or_null() -> None:
    run = Run(
        task("a", inputParameters={"given": 1, "null": "${workflow.input.gone}"}),
        task_defs={"a": {"name": "a", "inputTemplate": {"given": 0, "null": "from template", "more": 2}}},
    )
    assert run["a"].input == {"given": 1, "null": "from template", "more": 2}


def test_input_template_and_variables_of_the_workflow() -> None:
    run = Run(
        task("a", inputParameters={"x": "${workflow.input.x}", "v": "${workflow.variables.v}"}),
        inputTemplate={"x": "default", "y": 1},
        variables={"v": 9},
        given={"y": 2},
    )
    assert run.state.input == {"x": "default", "y": 2}
    assert run["a"].input == {"x": "default", "v": 9}


def test_start_delay_is_handed_to_the_queue() -> None:
    run = Run(task("a", startDelay=7))
    assert run["a"].start_delay_ms == 7000


def test_the_tasks_own_id_can_be_an_input() -> None:
    run = Run(task("a", inputParameters={"id": "${CPEWF_TASK_ID}"}))
    assert run["a"].input == {"id": run["a"].task_id}


def test_a_paused_or_ended_workflow_decides_nothing() -> None:
    run = Run(task("a"), task("b"))
    run.put(run["a"].task_id, status="COMPLETED")
    for status in ("PAUSED", "TERMINATED", "COMPLETED"):
        assert not decide(replace(run.state, status=status), START_MS, run.new_id)


# -- failure


@pytest.mark.parametrize(
    ("task_status", "workflow_status"),
    [("FAILED_WITH_TERMINAL_ERROR", "FAILED"), ("CANCELED", "TERMINATED")],
)
def test_an_ending_without_retry_ends_the_workflow(task_status: str, workflow_status: str) -> None:
    run = Run(task("a"), task("b"))
    decision = run.end("a", task_status, reason="no money", output={"code": 402})
    assert run.status == workflow_status
    assert run.state.reason == f"Task task-1 failed with status: {workflow_status} and reason: 'no money'"
    assert run.state.output == {"code": 402}
    assert decision.failed_task is not None
    assert decision.failed_task.ref == "a"
    assert run.open == []


def test_a_failed_task_is_tried_again_as_a_new_task() -> None:
    run = Run(task("a", inputParameters={"x": 1}), task_defs={"a": {"retryCount": 1, "retryDelaySeconds": 5}})
    run.now_ms += 1000
    run.end("a", "FAILED", reason="boom", output={"half": True})
    first, second = run.tasks
    assert (first.status, first.retried, first.executed) == ("FAILED", True, True)
    assert second.task_id != first.task_id
    assert second.retried_task_id == first.task_id
    assert (second.retry_count, second.start_delay_ms, second.reason) == (1, 5000, "boom")
    assert (second.input, second.output) == ({"x": 1}, {})
    assert second.first_scheduled_ms == START_MS
    run.end("a", "TIMED_OUT", reason="slow")
    assert run.status == "TIMED_OUT"


def test_an_unregistered_task_is_tried_four_times_a_minute_apart() -> None:
    run = Run(task("a"))
    for attempt in range(3):
        run.end("a", "FAILED")
        assert (run["a"].retry_count, run["a"].start_delay_ms) == (attempt + 1, 60_000)
    run.end("a", "FAILED")
    assert run.status == "FAILED"
    assert len(run.tasks) == 4


def test_the_workflows_retry_count_wins_over_the_definitions() -> None:
    run = Run(task("a", retryCount=0), task_defs={"a": {"retryCount": 5}})
    run.end("a", "FAILED")
    assert run.status == "FAILED"


def test_no_retry_beyond_the_total_timeout() -> None:
    run = Run(task("a"), task_defs={"a": {"retryCount": 9, "retryDelaySeconds": 0, "totalTimeoutSeconds": 10}})
    run.now_ms += 9_000
    run.end("a", "FAILED")
    assert run.status == "RUNNING"
    run.now_ms += 1_000
    run.end("a", "TIMED_OUT")
    assert run.status == "TIMED_OUT"


def test_an_optional_task_fails_without_consequence() -> None:
    run = Run(task("a", optional=True, retryCount=1), task("b"))
    run.end("a", "FAILED")
    assert run.open == ["a"]
    run.end("a", "FAILED", output={"why": 1})
    assert run["a"].status == "COMPLETED_WITH_ERRORS"
    run.complete("b")
    assert run.status == "COMPLETED"


def test_a_permissive_task_lets_the_flow_go_on_and_the_workflow_fails_at_its_end() -> None:
    run = Run(task("a", permissive=True, retryCount=0), task("b"))
    run.end("a", "FAILED", reason="bad")
    assert (run["a"].status, run.open, run.status) == ("FAILED", ["b"], "RUNNING")
    run.complete("b")
    assert run.status == "FAILED"
    assert "'bad'" in str(run.state.reason)


def test_the_failure_workflow_gets_the_input_and_what_went_wrong() -> None:
    run = Run(task("a", retryCount=0), failureWorkflow="clean_up", given={"order": 1})
    decision = run.end("a", "FAILED", reason="bad")
    assert decision.failure_workflow is not None
    assert decision.failure_workflow.name == "clean_up"
    assert decision.failure_workflow.input == {
        "order": 1,
        "workflowId": "flow-1",
        "reason": "Task task-1 failed with status: FAILED and reason: 'bad'",
        "failureStatus": "FAILED",
        "failureTaskId": "task-1",
    }


def test_the_failure_workflow_may_be_named_by_the_input_and_is_not_started_after_success() -> None:
    run = Run(task("a"), failureWorkflow="${workflow.input.on_failure}", given={"on_failure": "x"})
    assert run.end("a").failure_workflow is None
    failing = Run(task("a", retryCount=0), failureWorkflow="${workflow.input.on_failure}", given={"on_failure": "x"})
    decision = failing.end("a", "FAILED")
    assert decision.failure_workflow is not None
    assert decision.failure_workflow.name == "x"


@pytest.mark.parametrize(("given", "name"), [({"on_failure": "x"}, "x"), ({}, None)])
def test_the_failure_workflow_may_be_named_in_conductors_own_way(given: dict[str, Any], name: str | None) -> None:
    run = Run(task("a", retryCount=0), failureWorkflow="$workflow.input.on_failure", given=given)
    found = run.end("a", "FAILED").failure_workflow
    assert (found and found.name) == name


def test_without_output_parameters_a_failed_workflow_has_the_output_of_its_last_task() -> None:
    run = Run(*fork("f", [task("a", retryCount=0)], [task("b"), task("c")]))
    run.end("b", output={"from": "b"})
    run.end("a", "FAILED", output={"from": "a"})
    assert run.status == "FAILED"
    assert run["c"].status == "CANCELED"
    assert run.state.output == {}  # as on Conductor: that of c, which came last, not that of a, which failed


# -- retry delays


@pytest.mark.parametrize(
    ("task_def", "delays_s"),
    [
        ({"retryLogic": "FIXED", "retryDelaySeconds": 5}, [5, 5, 5]),
        ({}, [60, 60, 60]),
        ({"retryLogic": "LINEAR_BACKOFF", "retryDelaySeconds": 5, "backoffScaleFactor": 2}, [10, 20, 30]),
        ({"retryLogic": "EXPONENTIAL_BACKOFF", "retryDelaySeconds": 5, "backoffScaleFactor": 9}, [5, 10, 20]),
        ({"retryLogic": "EXPONENTIAL_BACKOFF", "retryDelaySeconds": 5, "maxRetryDelaySeconds": 8}, [5, 8, 8]),
        ({"retryLogic": "FIXED", "retryDelaySeconds": 5, "maxRetryDelaySeconds": 2}, [2, 2, 2]),
    ],
)
def test_the_retry_delay_follows_the_retry_logic(task_def: dict[str, Any], delays_s: list[int]) -> None:
    assert [retry_delay_ms(task_def, n) for n in range(3)] == [delay * 1000 for delay in delays_s]


def test_jitter_is_added_on_top_of_the_cap_and_never_grows_without_end() -> None:
    task_def = {"retryDelaySeconds": 10, "maxRetryDelaySeconds": 1, "backoffJitterMs": 500}
    assert retry_delay_ms(task_def, 0, jitter=0.5) == 1250
    assert retry_delay_ms({"retryLogic": "EXPONENTIAL_BACKOFF", "retryDelaySeconds": 60}, 10**6) == MAX_DELAY_S * 1000
    assert retry_limit({"retryCount": 2}, {"retryCount": None}) == 2


def test_the_decisions_jitter_reaches_the_delay() -> None:
    run = Run(task("a"), task_defs={"a": {"retryDelaySeconds": 1, "backoffJitterMs": 1000}})
    run.put(run["a"].task_id, status="FAILED")
    run.decide(jitter=0.25)
    assert run["a"].start_delay_ms == 1250


# -- SWITCH


def test_switch_takes_the_case_and_goes_on_behind_it() -> None:
    run = Run(
        switch("s", "${workflow.input.k}", {"x": [task("x1"), task("x2")], "y": [task("y1")]}, [task("d1")]),
        task("after"),
        given={"k": "x"},
    )
    assert run.open == ["x1"]
    assert run["s"].status == "COMPLETED"
    assert run["s"].output == {"evaluationResult": ["x"], "selectedCase": "x"}
    run.complete("x1", "x2")
    assert run.open == ["after"]
    run.complete("after")
    assert run.status == "COMPLETED"
    assert "y1" not in run
    assert "d1" not in run


@pytest.mark.parametrize(("value", "case"), [(1, "1"), (True, "true"), (None, "null")])
def test_switch_compares_as_text(value: Any, case: str) -> None:
    run = Run(switch("s", "${workflow.input.k}", {case: [task("hit")]}, [task("miss")]), given={"k": value})
    assert run.open == ["hit"]


def test_switch_without_a_matching_case_takes_the_default_or_goes_on() -> None:
    assert Run(switch("s", "zzz", {"x": [task("a")]}, [task("d")]), task("b")).open == ["d"]
    assert Run(switch("s", "zzz", {"x": [task("a")]}), task("b")).open == ["b"]
    assert Run(switch("s", "zzz", {"x": [task("a")]})).status == "COMPLETED"


def test_a_case_without_tasks_means_the_default() -> None:
    assert Run(switch("s", "x", {"x": []}, [task("d")])).open == ["d"]


def test_switch_by_a_script() -> None:
    scripted = task(
        "s",
        "SWITCH",
        evaluatorType="javascript",
        expression="$.amount > 100 ? 'big' : 'small'",
        inputParameters={"amount": "${workflow.input.amount}"},
        decisionCases={"big": [task("check")], "small": [task("ship")]},
    )
    assert Run(scripted, given={"amount": 101}).open == ["check"]
    assert Run(scripted, given={"amount": 99}).open == ["ship"]


def test_a_script_that_cannot_be_evaluated_fails_the_workflow() -> None:
    scripted = task("s", "SWITCH", evaluatorType="javascript", expression="$.a.b.c", decisionCases={"x": [task("t")]})
    run = Run(scripted)
    assert run.status == "FAILED"
    assert "reads 'b' of undefined" in str(run["s"].reason)


def test_decision_is_the_old_switch() -> None:
    old = task("s", "DECISION", caseValueParam="k", inputParameters={"k": "x"}, decisionCases={"x": [task("a")]})
    run = Run(old)
    assert run.open == ["a"]
    assert run["s"].output == {"caseOutput": ["x"]}


# -- FORK_JOIN and JOIN


def test_branches_run_side_by_side_and_the_join_waits_for_them() -> None:
    run = Run(*fork("f", [task("a1"), task("a2")], [task("b1")]), task("after"))
    assert run.open == ["a1", "b1", "f_join"]
    run.complete("a1")
    run.end("b1", output={"b": 1})
    assert run.open == ["f_join", "a2"]
    run.end("a2", output={"a": 2})
    assert run["f_join"].status == "COMPLETED"
    assert run["f_join"].output == {"a2": {"a": 2}, "b1": {"b": 1}}
    assert run.open == ["after"]


def test_a_failure_in_one_branch_cancels_the_others() -> None:
    run = Run(*fork("f", [task("a", retryCount=0)], [task("b")]))
    run.end("a", "FAILED")
    assert run.status == "FAILED"
    assert (run["b"].status, run["f_join"].status) == ("CANCELED", "CANCELED")


def test_a_retry_in_a_branch_is_waited_for() -> None:
    run = Run(*fork("f", [task("a")], [task("b")]))
    run.end("a", "FAILED")
    run.complete("b")
    assert run.open == ["f_join", "a"]
    run.complete("a")
    assert run.status == "COMPLETED"


@pytest.mark.parametrize("join_on", [None, []])
def test_a_join_that_names_nothing_waits_for_all_branches(join_on: list[str] | None) -> None:
    forked, joined = fork("f", [task("a1"), task("a2")], [task("b")])
    run = Run(forked, {**joined, "joinOn": join_on}, task("after"))
    run.complete("b", "a1")
    assert run.open == ["f_join", "a2"]
    run.end("a2", output={"x": 1})
    assert run["f_join"].output == {"a2": {"x": 1}, "b": {}}
    assert run.open == ["after"]


def test_tasks_inside_an_operator_come_before_its_neighbours_and_loops_last() -> None:
    """The order of a real server, seen side by side: forks and cases at once, the first round of a loop afterwards."""
    inner = fork("inner", [task("i1")], [task("i2")])
    branches = [loop("loop", "false", task("l"))], inner, [switch("s", "x", {"x": [task("x")]})], [task("b")]
    run = Run(*fork("outer", *branches))
    assert [one.ref for one in run.tasks] == [
        "outer", "loop", "inner", "i1", "i2", "inner_join", "s", "x", "b", "outer_join", "l__1",
    ]  # fmt: skip


def test_join_on_some_branches_goes_on_early_but_the_workflow_waits_for_all() -> None:
    run = Run(*fork("f", [task("a")], [task("b")], join_on=["a"]), task("after"))
    run.complete("a", "after")
    assert run.status == "RUNNING"
    run.complete("b")
    assert run.status == "COMPLETED"


def test_join_is_content_with_a_task_that_another_case_left_out() -> None:
    branch = [switch("s", "${workflow.input.k}", {"x": [task("x")]}, [task("y")])]
    run = Run(*fork("f", branch, [task("b")], join_on=["x", "b"]), given={"k": "other"})
    run.complete("b")
    assert run.open == ["y", "f_join"]  # as on Conductor, the chosen case of a SWITCH comes before the next branch
    run.complete("y")
    assert run.status == "COMPLETED"


def test_join_on_a_switch_waits_for_the_case_it_chose() -> None:
    run = Run(*fork("f", [switch("s", "x", {"x": [task("x1"), task("x2")]})], [task("b")]), task("after"))
    run.complete("b", "x1")
    assert sorted(run.open) == ["f_join", "x2"]
    run.end("x2", output={"k": 1})
    assert run["f_join"].output["x2"] == {"k": 1}
    assert run["f_join"].output["s"]["selectedCase"] == "x"
    assert run.open == ["after"]


def test_join_reports_optional_and_permissive_failures() -> None:
    optional = Run(*fork("f", [task("a", optional=True, retryCount=0)], [task("b")]))
    optional.end("a", "FAILED", reason="meh")
    optional.complete("b")
    assert (optional["f_join"].status, optional["f_join"].reason) == ("COMPLETED_WITH_ERRORS", "meh")
    assert optional.status == "COMPLETED"
    permissive = Run(*fork("f", [task("a", permissive=True, retryCount=0)], [task("b")]), task("after"))
    permissive.end("a", "FAILED", reason="bad")
    assert permissive.status == "RUNNING"
    permissive.complete("b")
    assert (permissive["f_join"].status, permissive.status) == ("FAILED", "FAILED")
    assert "after" not in permissive


def test_forks_in_forks_join_their_own_branches() -> None:
    run = Run(*fork("f", [*fork("g", [task("a")], [task("b")])], [task("c")]))
    run.complete("c", "a")
    assert run.status == "RUNNING"
    run.complete("b")
    assert run.status == "COMPLETED"


# -- DO_WHILE


def test_a_loop_runs_its_rounds_and_keeps_their_outputs() -> None:
    run = Run(
        loop("l", "$.l['iteration'] < 2", task("a"), task("b", inputParameters={"a": "${a.output.n}"})), task("z")
    )
    assert run.open == ["l", "a__1"]
    run.end("a__1", output={"n": 1})
    assert run["b__1"].input == {"a": 1}
    run.end("b__1", output={"m": 1})
    assert run.open == ["l", "a__2"]
    assert (run["a__2"].iteration, run["l"].iteration) == (2, 2)
    run.end("a__2", output={"n": 2})
    assert run["b__2"].input == {"a": 2}
    run.complete("b__2")
    assert run["l"].status == "COMPLETED"
    assert run["l"].output == {"iteration": 2, "1": {"a": {"n": 1}, "b": {"m": 1}}, "2": {"a": {"n": 2}, "b": {}}}
    assert run.open == ["z"]


def test_the_condition_sees_the_inputs_and_the_last_outputs() -> None:
    run = Run(
        loop(
            "l",
            "if ($.a['again'] && $.l['iteration'] < $.limit) { true; } else { false; }",
            task("a"),
            inputParameters={"limit": "${workflow.input.limit}"},
        ),
        given={"limit": 3},
    )
    run.end("a__1", output={"again": True})
    run.end("a__2", output={"again": False})
    assert run.status == "COMPLETED"


def test_tasks_behind_the_loop_see_the_last_round() -> None:
    run = Run(
        loop("l", "$.l.iteration < 2", task("a")),
        task("z", inputParameters={"n": "${a.output.n}", "one": "${a__1.output.n}"}),
    )
    run.end("a__1", output={"n": 1})
    run.end("a__2", output={"n": 2})
    assert run["z"].input == {"n": 2, "one": 1}


def test_a_name_that_looks_like_a_round_is_not_one() -> None:
    run = Run(task("a"), task("a__2"), task("z", inputParameters={"one": "${a.output.n}", "two": "${a__2.output.n}"}))
    run.end("a", output={"n": 1})
    run.end("a__2", output={"n": 2})
    assert run["z"].input == {"one": 1, "two": 2}


def test_a_loop_can_keep_only_its_last_rounds() -> None:
    run = Run(loop("l", "$.l.iteration < 3", task("a"), inputParameters={"keepLastN": 1}))
    run.complete("a__1", "a__2", "a__3")
    assert set(run["l"].output) == {"iteration", "3"}


def test_forks_and_switches_in_a_loop() -> None:
    body = [*fork("f", [task("a")], [switch("s", "${l.output.iteration}", {"2": [task("b")]})], join_on=["a", "b"])]
    run = Run(loop("l", "$.l.iteration < 2", *body))
    run.complete("a__1")
    assert "b__1" not in run
    assert run["f_join__1"].status == "COMPLETED"
    assert sorted(run.open) == ["a__2", "b__2", "f_join__2", "l"]
    run.complete("b__2")
    assert run.status == "RUNNING"
    run.complete("a__2")
    assert run.status == "COMPLETED"


def test_a_task_in_a_loop_is_retried_in_its_round() -> None:
    run = Run(loop("l", "$.l.iteration < 2", task("a")))
    run.complete("a__1")
    run.end("a__2", "FAILED")
    assert (run["a__2"].retry_count, run["a__2"].iteration) == (1, 2)
    run.complete("a__2")
    assert run.status == "COMPLETED"


def test_a_failure_in_a_loop_fails_the_workflow_and_cancels_the_loop() -> None:
    run = Run(loop("l", "true", task("a", retryCount=0)))
    run.end("a__1", "FAILED")
    assert (run.status, run["l"].status) == ("FAILED", "CANCELED")


def test_a_condition_that_fails_ends_the_loop_and_the_workflow() -> None:
    run = Run(loop("l", "$.a.x.y", task("a")))
    run.complete("a__1")
    assert run["l"].status == "FAILED_WITH_TERMINAL_ERROR"
    assert run.status == "FAILED"


def test_a_loop_that_waits_for_nothing_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider, "MAX_TASKS_WITHOUT_WAITING", 1_000)
    run = Run(loop("l", "true", task("v", "SET_VARIABLE", inputParameters={"x": 1})))
    steps = [len(decision.schedule) for decision in run.decisions]
    assert max(steps) <= 201
    assert len(run.tasks) <= 1_300
    assert run.status == "FAILED"
    assert "has an endless loop" in str(run.state.reason)
    assert run.open == []


def test_a_long_loop_that_waits_in_each_round_goes_on() -> None:
    run = Run(
        loop(
            "l", "$.l['iteration'] < 3", *[task(f"v{n}", "SET_VARIABLE", inputParameters={"x": n}) for n in range(150)]
        )
    )
    assert run.status == "COMPLETED"
    assert len(run.decisions) > 1, "in several steps"


def test_a_fork_may_be_wider_than_any_step() -> None:
    run = Run(*fork("f", *[[task(f"b{n}")] for n in range(500)]))
    assert len(run.open) == 501
    assert run.state.restless == 0


# -- SET_VARIABLE, TERMINATE


def test_variables_are_set_and_seen_at_once() -> None:
    run = Run(
        task("v", "SET_VARIABLE", inputParameters={"x": "${workflow.input.x}"}),
        task("w", "SET_VARIABLE", inputParameters={"y": "${workflow.variables.x}!"}),
        task("a", inputParameters={"x": "${workflow.variables.x}", "y": "${workflow.variables.y}"}),
        given={"x": 4},
    )
    assert run.state.variables == {"x": 4, "y": "4!"}
    assert run["a"].input == {"x": 4, "y": "4!"}


def test_terminate_ends_the_workflow_with_its_output() -> None:
    stop = task("t", "TERMINATE", inputParameters={"terminationStatus": "COMPLETED", "workflowOutput": "${a.output}"})
    run = Run(*fork("f", [task("a"), stop], [task("b")]), task("never"), outputParameters={"x": 1})
    run.end("a", output={"k": 1})
    assert (run.status, run.state.output) == ("COMPLETED", {"k": 1})
    assert run["b"].status == "CANCELED"
    assert "never" not in run


def test_terminate_as_failure_starts_the_failure_workflow() -> None:
    stop = task(
        "t",
        "TERMINATE",
        inputParameters={"terminationStatus": "FAILED", "terminationReason": "not today", "workflowOutput": 5},
    )
    run = Run(stop, failureWorkflow="oops")
    assert (run.status, run.state.reason, run.state.output) == ("FAILED", "not today", {"output": 5})
    assert run.decisions[0].failure_workflow is not None


def test_a_termination_status_that_is_none_fails_the_workflow() -> None:
    run = Run(task("t", "TERMINATE", inputParameters={"terminationStatus": "${workflow.input.s}"}), given={"s": "GONE"})
    assert run.status == "FAILED"
    assert "'GONE'" in str(run["t"].reason)


# -- WAIT


def test_wait_for_a_time() -> None:
    run = Run(task("w", "WAIT", inputParameters={"duration": "1h 30m"}), task("a"))
    assert run["w"].status == "IN_PROGRESS"
    assert run.decisions[-1].wait_until_ms == START_MS + 5_400_000
    assert not run.pass_time(5_399_999)
    run.pass_time(1)
    assert (run["w"].status, run.open) == ("COMPLETED", ["a"])


def test_wait_until_a_time_and_not_at_all_if_it_is_past() -> None:
    run = Run(task("w", "WAIT", inputParameters={"until": "2023-11-14 23:13 UTC"}))
    assert run.decisions[-1].wait_until_ms == 1_700_003_580_000
    assert Run(task("w", "WAIT", inputParameters={"until": "2001-01-01"})).status == "COMPLETED"


def test_a_wait_task_waits_to_be_completed_from_outside() -> None:
    run = Run(task("w", "WAIT"), task("a", inputParameters={"said": "${w.output.said}"}))
    assert run.decisions[-1].wait_until_ms is None
    run.end("w", output={"said": "go"})
    assert run["a"].input == {"said": "go"}


def test_a_wait_ended_by_hand_before_its_time() -> None:
    run = Run(task("w", "WAIT", inputParameters={"duration": "1 day"}), task("a"))
    run.complete("w")
    assert run.open == ["a"]
    assert run.decisions[-1].wait_until_ms is None


def test_a_wait_that_makes_no_sense_fails_the_workflow() -> None:
    run = Run(task("w", "WAIT", inputParameters={"duration": "${workflow.input.d}"}), given={"d": "soon"})
    assert run.status == "FAILED"
    assert "'soon' is not a duration" in str(run["w"].reason)


# -- SUB_WORKFLOW


def sub(**fields: Any) -> dict[str, Any]:
    return task("s", "SUB_WORKFLOW", subWorkflowParam={"name": "child", "version": 2}, **fields)


def end_sub(run: Run, status: str, output: dict[str, Any] | None = None, reason: str | None = None) -> None:
    ended = after_sub_workflow(
        run["s"],
        title="inner.1/sub",
        status=WorkflowStatus(status),
        output=output or {},
        reason=reason,
        now_ms=run.now_ms,
    )
    run.tasks.put(ended)
    run.decide()


def test_a_sub_workflow_is_started_and_its_output_is_the_tasks() -> None:
    run = Run(sub(inputParameters={"x": "${workflow.input.x}"}), task("a"), given={"x": 1})
    (start,) = run.decisions[0].start_sub_workflows
    assert (start.task_id, start.name, start.version, start.input) == (run["s"].task_id, "child", 2, {"x": 1})
    assert run["s"].status == "IN_PROGRESS"
    assert run["s"].input == {"subWorkflowName": "child", "subWorkflowVersion": 2, "workflowInput": {"x": 1}}
    end_sub(run, "COMPLETED", {"y": 2})
    assert run["s"].output == {"subWorkflowId": "sub-of-task-1", "y": 2}
    assert run.open == ["a"]


@pytest.mark.parametrize(
    ("ended", "status"), [("FAILED", "FAILED"), ("TERMINATED", "TERMINATED"), ("TIMED_OUT", "TIMED_OUT")]
)
def test_a_sub_workflow_that_ends_badly_ends_its_parent(ended: str, status: str) -> None:
    run = Run(sub())
    end_sub(run, ended, reason="inner")
    assert run.status == status
    assert "Sub workflow inner.1/sub failure reason: inner" in str(run.state.reason)


def test_a_sub_workflow_with_retries_is_started_again_after_its_delay() -> None:
    run = Run(sub(), task_defs={"s": {"retryCount": 1, "retryDelaySeconds": 10}})
    end_sub(run, "FAILED")
    assert (run["s"].status, run["s"].retry_count) == ("SCHEDULED", 1)
    assert run.decisions[-1].start_sub_workflows == []
    assert run.decisions[-1].wait_until_ms == START_MS + 10_000
    decision = run.pass_time(10_000)
    assert [start.task_id for start in decision.start_sub_workflows] == [run["s"].task_id]
    assert run["s"].status == "IN_PROGRESS"


def test_an_ending_parent_ends_its_sub_workflows() -> None:
    run = Run(*fork("f", [sub()], [task("a", retryCount=0)]))
    decision = run.end("a", "FAILED")
    assert decision.terminate_sub_workflows == ["sub-of-task-2"]
    assert run["s"].status == "CANCELED"


def test_a_sub_workflow_is_not_started_by_the_decision_that_ends_its_parent() -> None:
    stop = task("t", "TERMINATE", inputParameters={"terminationStatus": "COMPLETED"})
    run = Run(*fork("f", [sub()], [stop]))
    assert run.decisions[0].start_sub_workflows == []
    assert run["s"].status == "CANCELED"


def test_an_inline_definition_and_one_from_data() -> None:
    inline = {"name": "small", "tasks": [task("only")]}
    run = Run(task("s", "SUB_WORKFLOW", subWorkflowParam={"name": "small", "workflowDefinition": inline}))
    assert run.decisions[0].start_sub_workflows[0].definition == inline
    dynamic = task("s", "SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": "${workflow.input.def}"})
    run = Run(dynamic, given={"def": inline})
    assert run.decisions[0].start_sub_workflows[0].definition == inline
    for bad in (5, None, {"name": "x", "tasks": [task("t", "HTTP")]}):
        run = Run(dynamic, given={"def": bad})
        assert run.status == "FAILED"
        assert "not valid" in str(run["s"].reason)


def test_name_and_version_of_a_sub_workflow_may_come_from_the_input() -> None:
    dynamic = task(
        "s", "SUB_WORKFLOW", subWorkflowParam={"name": "${workflow.input.n}", "version": "${workflow.input.v}"}
    )
    run = Run(dynamic, given={"n": "other", "v": "3"})
    start = run.decisions[0].start_sub_workflows[0]
    assert (start.name, start.version) == ("other", 3)
    assert "'x'" in str(Run(dynamic, given={"n": "other", "v": "x"})["s"].reason)


def test_every_type_that_may_be_registered_has_an_operator() -> None:
    assert tuple(OPERATORS) == TASK_TYPES


# -- the cost of a step


class CountingTasks(TaskList):
    """Counts what the decider asks for."""

    asked = 0

    def latest(self, ref: str) -> TaskState | None:
        self.asked += 1
        return super().latest(ref)

    def newest(self, ref: str) -> TaskState | None:
        self.asked += 1
        return super().newest(ref)

    def __iter__(self) -> Any:
        raise AssertionError("a decision looks at single tasks, never at all of them")


class LazyTasks(CountingTasks):
    """A store that knows which tasks are pending without looking at all."""

    def pending(self) -> list[TaskState]:
        return self.waiting

    waiting: list[TaskState]


@pytest.mark.parametrize("length", [10, 1000])
def test_a_step_costs_the_same_however_long_the_workflow_is(length: int) -> None:
    steps = [task(f"t{n}", inputParameters={"x": "${t0.output.x}"} if n else {}) for n in range(length)]
    ended = [
        TaskState(
            task_id=f"id-{n}",
            ref=f"t{n}",
            type="SIMPLE",
            name=f"t{n}",
            status=TaskStatus.COMPLETED,
            seq=n + 1,
            executed=n < length - 2,
        )
        for n in range(length - 1)
    ]
    tasks = LazyTasks(ended)
    tasks.waiting = [ended[-1]]
    state = WorkflowState(workflow_id="w", plan=WorkflowPlan({"name": "long", "tasks": steps}), tasks=tasks)
    decision = decide(state, START_MS, lambda: "new")
    assert [one.ref for one in decision.schedule] == [f"t{length - 1}"]
    assert tasks.asked <= 5


# -- any workflow


@settings(max_examples=60, deadline=None)
@given(sequences(), st.data())
def test_any_workflow_comes_to_its_end_and_runs_nothing_twice(tasks: list[dict[str, Any]], data: st.DataObject) -> None:
    run = Run(*tasks)
    failing = data.draw(st.booleans())
    steps = 0
    while run.ready:
        ref = data.draw(st.sampled_from(run.ready))
        ended = data.draw(st.sampled_from(["COMPLETED", "COMPLETED", "FAILED"] if failing else ["COMPLETED"]))
        run.end(ref, ended)
        steps += 1
        assert steps < 1000
    assert run.status in (("COMPLETED", "FAILED") if failing else ("COMPLETED",))
    assert run.open == []
    attempts = [(one.ref, one.retry_count) for one in run.tasks]
    assert len(attempts) == len(set(attempts))
    seqs = [one.seq for one in run.tasks]
    assert seqs == sorted(set(seqs))
    for one in run.tasks:
        assert one.retry_count == 0 or one.retried_task_id is not None


def test_a_chain_of_sub_workflows_names_only_the_innermost_u4_53() -> None:
    reason: str | None = "flat tyre"
    for level in range(3, 0, -1):
        reason = f"Task t-{level} failed with status: FAILED and reason: '{reason}'"
        reason = decider.describe_sub_workflow_failure(f"child.{level}/w-{level}", reason)
    assert reason == (
        "Sub workflow child.3/w-3 failure reason: Task t-3 failed with status: FAILED and reason: 'flat tyre'"
    )
