"""Actions on a workflow: retry, rerun, restart and skip, on the decider alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.coordinator.definitions.workflow_plan import WorkflowPlan
from conductor.coordinator.workflows.workflow_actions import (
    ActionRefused,
    pause,
    rerun,
    restart,
    resume,
    retry,
    skip_task,
    terminate,
    time_out,
)
from tests.unit.coordinator.decider_harness import Run, fork, loop, sequences, switch, task


def do_retry(run: Run) -> None:
    run.carry_out(retry(run.state, run.now_ms, run.new_id))


def do_rerun(run: Run, ref: str | None, **given: Any) -> None:
    task_id = run[ref].task_id if ref else None
    run.carry_out(rerun(run.state, run.now_ms, run.new_id, task_id=task_id, **given))


# -- terminate, time out


def test_terminate_cancels_what_is_open_and_starts_no_failure_workflow() -> None:
    run = Run(*fork("f", [task("a")], [task("b")]), failureWorkflow="clean_up")
    run.complete("a")
    decision = run.carry_out(terminate(run.state, run.now_ms, run.new_id, reason="enough"))
    assert (run.status, run.state.reason, run.open) == ("TERMINATED", "enough", [])
    assert (run["a"].status, run["b"].status) == ("COMPLETED", "CANCELED")
    assert decision.failure_workflow is None


def test_terminate_after_the_end() -> None:
    run = Run(task("a", retryCount=0))
    run.end("a", "FAILED")
    run.carry_out(terminate(run.state, run.now_ms, run.new_id, reason="tidy"))
    assert run.status == "TERMINATED"
    assert not terminate(run.state, run.now_ms, run.new_id, reason="again")
    done = Run(task("a"))
    done.complete("a")
    with pytest.raises(ActionRefused, match="COMPLETED"):
        terminate(done.state, done.now_ms, done.new_id, reason=None)


def test_a_timeout_ends_the_workflow_and_starts_its_failure_workflow() -> None:
    run = Run(task("a"), failureWorkflow="clean_up")
    decision = run.carry_out(time_out(run.state, run.now_ms, run.new_id, reason="too slow", task_id=run["a"].task_id))
    assert (run.status, run["a"].status) == ("TIMED_OUT", "CANCELED")
    assert decision.failure_workflow is not None
    assert decision.failure_workflow.input["failureTaskId"] == "task-1"
    assert not time_out(run.state, run.now_ms, run.new_id, reason="again")


# -- pause, resume


def test_a_paused_workflow_schedules_nothing_until_it_is_resumed() -> None:
    run = Run(task("a"), task("b"))
    run.carry_out(pause(run.state, run.now_ms, run.new_id))
    run.end("a")
    assert (run.status, run.open) == ("PAUSED", [])
    assert not pause(run.state, run.now_ms, run.new_id)
    run.carry_out(resume(run.state, run.now_ms, run.new_id))
    assert (run.status, run.open) == ("RUNNING", ["b"])
    with pytest.raises(ActionRefused, match="not PAUSED"):
        resume(run.state, run.now_ms, run.new_id)
    run.complete("b")
    with pytest.raises(ActionRefused, match="has ended"):
        pause(run.state, run.now_ms, run.new_id)


def test_a_workflow_can_end_by_being_resumed() -> None:
    run = Run(task("a"))
    run.carry_out(pause(run.state, run.now_ms, run.new_id))
    run.end("a", output={"x": 1})
    run.carry_out(resume(run.state, run.now_ms, run.new_id))
    assert (run.status, run.state.output) == ("COMPLETED", {"x": 1})


# -- retry


def test_retry_makes_new_attempts_of_what_failed_and_what_was_cancelled() -> None:
    run = Run(*fork("f", [task("a", retryCount=0)], [task("b")], [task("c")]), task("z"))
    run.complete("c")
    run.end("a", "FAILED", reason="bad")
    failed, cancelled = run["a"], run["b"]
    do_retry(run)
    assert (run.status, run.state.reason) == ("RUNNING", None)
    assert sorted(run.open) == ["a", "b", "f_join"]
    assert (run["a"].retried_task_id, run["b"].retried_task_id) == (failed.task_id, cancelled.task_id)
    assert (run["a"].retry_count, run["a"].reason, run["a"].start_delay_ms) == (1, None, 0)
    assert run.by_id(failed.task_id).retried
    run.complete("a", "b", "z")
    assert run.status == "COMPLETED"


def test_retry_goes_on_with_the_round_of_a_loop() -> None:
    run = Run(loop("l", "$.l.iteration < 3", task("a", retryCount=0)))
    run.complete("a__1")
    run.end("a__2", "FAILED")
    do_retry(run)
    assert sorted(run.open) == ["a__2", "l"]
    run.complete("a__2", "a__3")
    assert run.status == "COMPLETED"


def test_retry_of_a_permissive_failure() -> None:
    run = Run(task("a", permissive=True, retryCount=0), task("b"))
    run.end("a", "FAILED")
    run.complete("b")
    do_retry(run)
    assert run.open == ["a"]
    run.complete("a")
    assert run.status == "COMPLETED"


def test_retry_of_a_workflow_terminated_while_paused_goes_on_with_what_had_ended() -> None:
    run = Run(task("a"), task("b"))
    run.carry_out(pause(run.state, run.now_ms, run.new_id))
    run.end("a")
    run.carry_out(terminate(run.state, run.now_ms, run.new_id, reason=None))
    do_retry(run)
    assert (run.status, run.open) == ("RUNNING", ["b"])


def test_retry_is_refused_when_there_is_nothing_to_retry() -> None:
    run = Run(task("a"))
    with pytest.raises(ActionRefused, match="RUNNING"):
        do_retry(run)
    run.complete("a")
    with pytest.raises(ActionRefused, match="no retryable tasks"):
        do_retry(run)
    ended = Run(task("t", "TERMINATE", inputParameters={"terminationStatus": "FAILED"}))
    with pytest.raises(ActionRefused, match="no retryable tasks"):
        do_retry(ended)


# -- restart


def test_restart_forgets_everything() -> None:
    run = Run(task("v", "SET_VARIABLE", inputParameters={"x": 1}), task("a", retryCount=0), variables={"y": 2})
    run.end("a", "FAILED", output={"o": 1})
    old = {one.task_id for one in run.tasks}
    decision = run.carry_out(restart(run.state, run.now_ms, run.new_id))
    assert set(decision.remove) == old
    assert (run.status, run.state.reason, run.state.output) == ("RUNNING", None, {})
    assert run.state.variables == {"y": 2, "x": 1}
    assert run.open == ["a"]
    assert not old & {one.task_id for one in run.tasks}
    assert run["a"].retry_count == 0


def test_restart_with_another_definition() -> None:
    run = Run(task("a"))
    run.complete("a")
    plan = WorkflowPlan(
        {"name": "flow", "version": 2, "tasks": [task("n", taskDefinition={"inputTemplate": {"k": 1}})]}
    )
    decision = restart(run.state, run.now_ms, run.new_id, plan=plan)
    assert [(one.ref, one.input) for one in decision.schedule] == [("n", {"k": 1})]
    assert decision.workflow_status == "RUNNING"


def test_restart_is_refused_while_running_or_if_the_definition_says_so() -> None:
    run = Run(task("a"), restartable=False)
    with pytest.raises(ActionRefused, match="RUNNING"):
        restart(run.state, run.now_ms, run.new_id)
    run.complete("a")
    with pytest.raises(ActionRefused, match="not restartable"):
        restart(run.state, run.now_ms, run.new_id)


# -- rerun


def test_rerun_from_a_task_forgets_what_came_after_it() -> None:
    run = Run(task("a"), task("b"), task("c"))
    run.complete("a", "b", "c")
    old_b, last_seq = run["b"], run["c"].seq
    do_rerun(run, "b", task_input={"given": 1})
    assert (run.status, run.open) == ("RUNNING", ["b"])
    assert run["b"].input == {"given": 1}
    assert (run["b"].task_id, run["b"].seq, run["b"].retry_count) == (old_b.task_id, old_b.seq, 0)
    assert "c" not in run
    assert max(one.seq for one in run.tasks) <= last_seq
    run.complete("b", "c")
    assert run.status == "COMPLETED"


def test_rerun_in_one_branch_leaves_the_other_branches_alone() -> None:
    run = Run(*fork("f", [task("a1"), task("a2")], [task("b")]), task("z"))
    run.complete("a1", "a2")
    run.end("b", output={"kept": 1})
    run.complete("z")
    do_rerun(run, "a1")
    assert sorted(run.open) == ["a1", "f_join"]
    run.complete("a1", "a2")
    assert run["f_join"].output["b"] == {"kept": 1}
    assert run.open == ["z"]


def test_rerun_takes_up_cancelled_branches_too() -> None:
    run = Run(*fork("f", [task("a", retryCount=0)], [task("b")]))
    run.end("a", "FAILED")
    do_rerun(run, "a")
    assert sorted(run.open) == ["a", "b", "f_join"]
    run.complete("a", "b")
    assert run.status == "COMPLETED"


def test_rerun_from_inside_a_loop_goes_back_to_that_round() -> None:
    run = Run(loop("l", "$.l.iteration < 3", task("a"), task("b")), task("z"))
    for number in (1, 2, 3):
        run.end(f"a__{number}", output={"n": number})
        run.complete(f"b__{number}")
    run.complete("z")
    do_rerun(run, "b__2")
    assert sorted(run.open) == ["b__2", "l"]
    assert run["l"].output == {"iteration": 2, "1": {"a": {"n": 1}, "b": {}}}
    assert "a__3" not in run
    run.complete("b__2", "a__3", "b__3", "z")
    assert run.status == "COMPLETED"


def test_rerun_from_an_operator_chooses_and_forks_again() -> None:
    choice = switch("s", "${workflow.input.k}", {"x": fork("f", [task("a")], [task("b")])}, [task("d")])
    run = Run(choice, task("z"), given={"k": "x"})
    run.complete("a", "b", "z")
    do_rerun(run, "s", workflow_input={"k": "other"})
    assert run.open == ["d"]
    assert run.state.input == {"k": "other"}
    run.complete("d", "z")
    do_rerun(run, "s", workflow_input={"k": "x"})
    assert sorted(run.open) == ["a", "b", "f_join"]


def test_rerun_without_a_task_starts_over() -> None:
    run = Run(task("a", inputParameters={"x": "${workflow.input.x}"}), given={"x": 1})
    run.complete("a")
    do_rerun(run, None, workflow_input={"x": 2})
    assert run["a"].input == {"x": 2}
    assert run.state.input == {"x": 2}


def test_rerun_is_refused_while_running_and_for_a_stranger() -> None:
    run = Run(task("a"))
    with pytest.raises(ActionRefused, match="RUNNING"):
        do_rerun(run, "a")
    run.complete("a")
    with pytest.raises(ActionRefused, match="not part of"):
        rerun(run.state, run.now_ms, run.new_id, task_id="other")


# -- skip


def do_skip(run: Run, ref: str, **given: Any) -> None:
    run.carry_out(skip_task(run.state, run.now_ms, run.new_id, ref=ref, **given))


def test_a_skipped_task_is_passed_by_and_its_output_is_seen() -> None:
    run = Run(task("a"), task("b"), task("c", inputParameters={"x": "${b.output.x}"}))
    do_skip(run, "b", task_output={"x": 5})
    assert run.open == ["a"]
    run.complete("a")
    assert run.open == ["c"]
    assert run["c"].input == {"x": 5}
    run.complete("c")
    assert run.status == "COMPLETED"


def test_skipping_the_last_task_does_not_end_the_workflow_early() -> None:
    run = Run(task("a"), task("b"))
    do_skip(run, "b")
    run.end("a", "FAILED")
    assert (run.status, run.open) == ("RUNNING", ["a"])
    run.complete("a")
    assert run.status == "COMPLETED"


def test_whole_operators_can_be_skipped() -> None:
    run = Run(task("a"), *fork("f", [task("b")], [task("c")]), switch("s", "x", {"x": [task("d")]}), task("z"))
    do_skip(run, "f")
    do_skip(run, "s")
    run.complete("a")
    assert run.open == ["z"]


@pytest.mark.parametrize(
    ("ref", "said"), [("a", "already been scheduled"), ("gone", "no task 'gone'"), ("x", "inside a loop")]
)
def test_skipping_is_refused_with_a_reason(ref: str, said: str) -> None:
    run = Run(task("a"), loop("l", "false", task("x")))
    with pytest.raises(ActionRefused, match=said):
        do_skip(run, ref)
    run.carry_out(terminate(run.state, run.now_ms, run.new_id, reason=None))
    with pytest.raises(ActionRefused, match="TERMINATED"):
        do_skip(run, "l")


# -- any workflow


@settings(max_examples=50, deadline=None)
@given(sequences(), st.data())
def test_after_a_failure_any_workflow_can_be_retried_or_rerun_to_its_end(tasks: list[Any], data: st.DataObject) -> None:
    run = Run(*tasks)
    for _ in range(2):
        while run.ready:
            run.end(data.draw(st.sampled_from(run.ready)), data.draw(st.sampled_from(["COMPLETED", "FAILED"])))
        if run.status == "FAILED" and data.draw(st.booleans()):
            do_retry(run)
        else:
            do_rerun(run, data.draw(st.sampled_from([one.ref for one in run.tasks])))
    while run.ready:
        run.complete(data.draw(st.sampled_from(run.ready)))
    assert run.status == "COMPLETED"
    assert run.open == []
