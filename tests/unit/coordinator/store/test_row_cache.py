"""The row cache changes nothing: a schedule of calls has the same rows and answers without it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.coordinator.store import row_cache
from conductor.coordinator.store.commit_pacer import Job
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.task_authority import Poll
from conductor.coordinator.tasks.task_report import Report
from conductor.coordinator.workflows import workflow_actions
from conductor.coordinator.workflows.effects import Start
from conductor.testing import FakeClock
from tests.unit.coordinator.core_harness import Harness, simple
from tests.unit.coordinator.decider_harness import fork, loop, task

WAIT = task("pause", "WAIT", inputParameters={"duration": "5 seconds"})
SUB = task("child", "SUB_WORKFLOW", subWorkflowParam={"name": "small"}, inputParameters={"n": "${first.output.n}"})
ACTIONS = ("terminate", "pause", "resume", "retry", "resumed", "restart", "rerun", "rerun_task")
TABLES = ("workflow", "workflow_data", "task", "task_data", "task_log", "queue", "task_type")

steps = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(["small", "big", "looped", "dynamic"])),
    st.tuples(st.just("poll"), st.integers(1, 4)),
    st.tuples(st.just("report"), st.integers(0, 5), st.sampled_from(["COMPLETED", "FAILED", "IN_PROGRESS"])),
    st.tuples(st.just("reports"), st.integers(1, 6)),
    st.tuples(st.just("beat"), st.integers(0, 5)),
    st.tuples(st.just("time"), st.sampled_from([1, 6, 11, 61])),
    st.tuples(st.just("act"), st.integers(0, 5), st.sampled_from(ACTIONS)),
)


class Played:
    """A coordinator that plays a schedule of calls and records all answers."""

    def __init__(self) -> None:
        self.harness = Harness(clock=FakeClock())
        self.harness.task_def("work", responseTimeoutSeconds=10, retryCount=1, retryDelaySeconds=2)
        self.harness.workflow_def("small", simple("work", "only"), outputParameters={"n": "${only.output.n}"})
        branches = fork("f", [simple("work", "a")], [SUB], [WAIT])
        self.harness.workflow_def("big", simple("work", "first"), *branches, simple("work", "last"))
        self.harness.workflow_def(
            "looped", loop("l", "$.l['iteration'] < 3", simple("work", "inner")), simple("work", "z")
        )
        forked = {"forkTaskName": "work", "forkTaskInputs": [1, 2]}
        inner = task("d", "FORK_JOIN_DYNAMIC", inputParameters=forked), task("j", "JOIN")
        self.harness.workflow_def("dynamic", loop("l", "$.l['iteration'] < 2", loop("m", "true", *inner, items="one")))
        self.held: list[Any] = []
        self.workflows: list[str] = []
        self.said: list[Any] = []

    def play(self, what: str, *args: Any) -> None:
        self.said.append(getattr(self, what)(*args))

    def start(self, name: str) -> str:
        self.workflows.append(self.harness.start(name, input={"n": len(self.workflows)}))
        return self.workflows[-1]

    def poll(self, count: int) -> list[Any]:
        found = self.harness.poll(count=count)
        self.held += found
        return found

    def report(self, index: int, status: str) -> Any:
        if not self.held:
            return None
        held = self.held[index % len(self.held)]
        return self.harness.report(held, status, outputData={"n": index}, logs=[{"log": status}]).wire()

    def reports(self, count: int) -> Any:
        return [self.report(index, "COMPLETED") for index in range(min(count, len(self.held)))]

    def beat(self, index: int) -> Any:
        return self.harness.heartbeat(self.held[index % len(self.held)]).wire() if self.held else None

    def time(self, seconds: int) -> Any:
        self.harness.clock.advance(seconds)
        return self.harness.tick()

    def act(self, index: int, name: str) -> Any:
        if not self.workflows:
            return None
        workflow = self.workflows[index % len(self.workflows)]
        try:
            if name == "rerun_task":
                self.rerun(workflow, index)
            elif name == "resumed":
                self.harness.act(workflow, workflow_actions.retry, resume=True)
            else:
                self.harness.act(workflow, getattr(workflow_actions, name))
        except Exception as error:
            return repr(error)
        return "done"

    def rerun(self, workflow: str, index: int) -> None:
        tasks = self.harness.workflow(workflow)["tasks"]
        task_id = tasks[index % len(tasks)]["taskId"]
        self.harness.store.call(
            lambda tx: self.harness.core.workflows.executions.rerun(tx, find_workflow(tx, workflow), task_id=task_id)
        )

    def rows(self) -> dict[str, Any]:
        return {
            table: self.harness.store.call(lambda tx, table=table: tx.select(f"SELECT * FROM {table}", ()))  # type: ignore[misc]
            for table in TABLES
        }


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedule=st.lists(steps, max_size=30))
def test_the_same_rows_and_answers_with_and_without_it(
    schedule: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(secrets, "token_bytes", lambda size: b"s" * size)
        kept = Played()
        patch.setattr(row_cache, "MAX_WORKFLOWS", 0)
        forgetful = Played()
    try:
        for step in schedule:
            kept.play(*step)
            forgetful.play(*step)
        assert kept.said == forgetful.said
        assert kept.rows() == forgetful.rows()
    finally:
        kept.harness.close()
        forgetful.harness.close()


calls = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(["small", "big", "looped", "dynamic", "unheard of"])),
    st.tuples(st.just("poll"), st.integers(1, 4)),
    st.tuples(st.just("report"), st.integers(0, 5), st.sampled_from(["COMPLETED", "FAILED", "IN_PROGRESS"])),
    st.tuples(st.just("act"), st.integers(0, 5), st.sampled_from(["terminate", "pause", "resume", "retry", "restart"])),
    st.tuples(st.just("fail_half_way"), st.sampled_from(["small", "big"])),
)


class Called(Played):
    """Play the schedule with callers whose requests are chosen beforehand, so that they can share a commit."""

    def job(self, what: str, *args: Any) -> Callable[[Tx], Any]:
        made: Callable[[Tx], Any] = getattr(self, f"to_{what}")(*args)
        return made

    def to_start(self, name: str) -> Callable[[Tx], Any]:
        asked = {"name": name, "input": {"n": len(self.workflows)}}
        return lambda tx: tx.ids.workflow(
            self.harness.core.workflows.executions.start(tx, msgspec.convert(asked, Start))
        )

    def to_poll(self, count: int) -> Callable[[Tx], Any]:
        return lambda tx: self.harness.core.tasks.poll_now(tx, Poll("work", "", "w1", count, 0))

    def to_report(self, index: int, status: str) -> Callable[[Tx], Any]:
        if not self.held:
            return lambda _tx: None
        task = self.held[index % len(self.held)]
        said = {key: task[key] for key in ("taskId", "workflowInstanceId", "workerId", "leaseId")}
        report = msgspec.convert({**said, "status": status, "outputData": {"n": index}}, Report)
        return lambda tx: self.harness.core.tasks.judge(tx, [report])[0].wire()

    def to_act(self, index: int, name: str) -> Callable[[Tx], Any]:
        if not self.workflows:
            return lambda _tx: None
        workflow, action = self.workflows[index % len(self.workflows)], getattr(workflow_actions, name)
        return lambda tx: self.harness.core.workflows.executions.act(tx, find_workflow(tx, workflow).pk, action)

    def to_fail_half_way(self, name: str) -> Callable[[Tx], Any]:
        start = self.to_start(name)

        def fail(tx: Tx) -> None:
            start(tx)
            raise ValueError("half-way")

        return fail

    def hear(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            future: Future[Any] = job.future
            error = future.exception(60)
            told = repr(error) if error else msgspec.json.decode(msgspec.json.encode(future.result()))
            self.said.append(told)
            if isinstance(told, list) and told and isinstance(told[0], dict):
                self.held += told
            elif isinstance(told, str) and not error:
                self.workflows.append(told)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedule=st.lists(st.lists(calls, min_size=1, max_size=6), max_size=10))
def test_the_same_rows_and_answers_for_callers_who_share_a_commit_and_for_those_who_do_not(
    schedule: list[list[tuple[Any, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(secrets, "token_bytes", lambda size: b"s" * size)
        together, apart = Called(), Called()
    try:
        for group in schedule:
            shared = [Job(together.job(*words), None) for words in group]
            together.harness.store._pacer.put(list(shared))
            together.hear(shared)
            alone = [Job(apart.job(*words), None) for words in group]
            for job in alone:
                apart.harness.store._pacer.put([job])
                job.future.exception(60)  # no other caller comes before the answer
            apart.hear(alone)
        assert together.said == apart.said
        assert together.rows() == apart.rows()
    finally:
        together.harness.close()
        apart.harness.close()


def test_a_late_report_on_an_old_attempt_does_not_hide_the_newest_one(harness: Harness) -> None:
    """A task that is read by its key may be an old attempt: expressions still refer to the newest one."""
    harness.task_def("first", retryCount=1, retryDelaySeconds=0)
    uses = {**simple("third"), "inputParameters": {"n": "${first.output.n}"}}
    harness.workflow_def("flow", simple("first"), simple("second"), uses)
    harness.start("flow")
    failed = harness.poll_one("first")
    harness.report(failed, status="FAILED", outputData={"n": 1})
    harness.report(harness.poll_one("first"), outputData={"n": 2})
    second = harness.poll_one("second")
    harness.store.call(lambda tx: tx.cache.clear())
    reports = [
        Report(
            task_id=task["taskId"],
            workflow_instance_id=task["workflowInstanceId"],
            worker_id="w1",
            status="COMPLETED",
            lease_id=task["leaseId"],
            report_id="late",
        )
        for task in (failed, second)
    ]
    harness.store.call(lambda tx: harness.core.tasks.judge(tx, reports))
    assert harness.poll_one("third")["inputData"] == {"n": 2}
