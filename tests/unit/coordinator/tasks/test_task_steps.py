"""Durable steps in the coordinator: who may record them, how they are repeated, and what wakes a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.coordinator.limits import MAX_MESSAGES
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.lookup import find_workflow, remove_workflow
from conductor.coordinator.tasks import task_steps
from conductor.coordinator.tasks.task_report import Outcome, Report
from conductor.coordinator.workflows import executions, workflow_actions
from conductor.protocol.steps import MAX_STEP_BYTES, MAX_STEP_BYTES_PER_TASK, MAX_STEPS_PER_TASK
from conductor.protocol.wire import Verdict
from tests.unit.coordinator.core_harness import Harness, Task, simple

LEASE_S = 10
TASK_DEF = {"responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 3}
Step = dict[str, Any]


@pytest.fixture
def task(harness: Harness) -> Task:
    """A task in the hands of w1."""
    harness.start_one(task_def=TASK_DEF)
    return harness.poll_one()


def send(harness: Harness, task: Task, *steps: Step, **fields: Any) -> Outcome:
    """Send a heartbeat or a report with steps."""
    said = {
        "taskId": task["taskId"],
        "workflowInstanceId": task["workflowInstanceId"],
        "workerId": "w1",
        "leaseId": task["leaseId"],
        "steps": list(steps),
        **(fields or {"extendLease": True}),
    }
    report = msgspec.json.decode(msgspec.json.encode(said), type=Report)
    return harness.store.call(lambda tx: harness.core.tasks.judge(tx, [report]))[0]


def suspend(harness: Harness, task: Task, *steps: Step) -> Outcome:
    return send(harness, task, *steps, status="IN_PROGRESS", suspended=True, reportId=f"suspend-{task['pollCount']}")


def step(name: str, result: Any = None, **fields: Any) -> Step:
    return {"name": name, "fingerprint": "f:1", "result": result, **fields}


def wait(name: str, kind: str, **fields: Any) -> Step:
    return {"name": name, "kind": kind, "state": "WAITING", **fields}


def count_steps(harness: Harness) -> int:
    return int(harness.store.call(lambda tx: tx.select("SELECT count(*) FROM step", ()))[0][0])


class TestRecording:
    def test_steps_are_on_disk_when_they_are_answered_and_extend_the_lease(self, tmp_path: Path) -> None:
        with Harness(tmp_path / "a.db") as harness:
            harness.start_one(task_def=TASK_DEF)
            task = harness.poll_one()
            harness.clock.advance(LEASE_S - 1)
            assert send(harness, task, step("a", 1), step("b", "x")).verdict is Verdict.COMMITTED
            harness.restart()
            harness.advance(LEASE_S - 1)
            harness.report(task, "FAILED")
            retry = harness.poll_one()
            assert [(one["name"], one["result"]) for one in retry["steps"]] == [("a", 1), ("b", "x")]
            send(harness, retry, step("c"))
            harness.report(retry, "FAILED")
            assert [one["name"] for one in harness.poll_one()["steps"]] == ["a", "b", "c"]

    def test_a_repeated_request_changes_nothing_and_another_result_is_rejected(
        self, harness: Harness, task: Task
    ) -> None:
        for _ in range(2):
            assert send(harness, task, step("a", 1), step("a", 1), step("a", 2, number=2)).status == 200
        assert count_steps(harness) == 2
        for other in (step("a", 3), step("a", 1, fingerprint="f:2"), wait("a", "SLEEP", waitMs=1)):
            refused = send(harness, task, step("new"), other)
            assert (refused.verdict, refused.status) == (Verdict.REJECTED, 409)
            assert "step a of this task was recorded before" in str(refused.message)
        assert count_steps(harness) == 2  # nothing of a refused group is recorded

    @pytest.mark.parametrize("fields", [{"extendLease": True}, {"status": "IN_PROGRESS", "suspended": True}])
    def test_only_the_holder_of_the_lease_records(self, harness: Harness, task: Task, fields: dict[str, Any]) -> None:
        harness.advance(LEASE_S)
        second = harness.poll_one(worker="w2")
        assert send(harness, task, step("a"), **fields).verdict is Verdict.CANCELLED
        unknown = send(harness, {**second, "leaseId": "never"}, step("a"), **fields)
        assert unknown.verdict is Verdict.REJECTED
        without = {**second, "leaseId": None}
        assert (send(harness, without, step("a"), **fields).status) == 400
        assert count_steps(harness) == 0
        assert send(harness, second, step("a")).verdict is Verdict.COMMITTED

    def test_steps_that_arrive_after_the_report_are_not_answered_as_recorded(
        self, harness: Harness, task: Task
    ) -> None:
        harness.report(task, "FAILED", reportId="r1")
        assert harness.heartbeat(task).verdict is Verdict.COMMITTED  # the answer to the report was lost
        assert send(harness, task, step("a")).verdict is Verdict.CANCELLED
        assert count_steps(harness) == 0

    def test_a_step_that_no_worker_could_read_or_that_never_ends_is_rejected(
        self, harness: Harness, task: Task
    ) -> None:
        error = {"type": "builtins:ValueError", "message": "no"}
        for refused, why in [
            (step("a", msgspec.Raw(b'"\xff"')), "not valid JSON"),
            (step("a", msgspec.Raw(b"[1e999]")), "not valid JSON"),
            (step("a", state="FAILED", error={**error, "args": msgspec.Raw(b'["\xff"]')}), "not valid JSON"),
            (wait("a", "WORKFLOW", result=msgspec.Raw(b'{"x":"\xff"}')), "not valid JSON"),
            (step("a\x1b[31m"), "not printable"),
            (wait("a", "STEP"), "after the call"),
            (step("cancelled a"), "records the cancellation"),
            (wait("cancelled a", "SLEEP", waitMs=1), "records the cancellation"),
            (wait("a", "SLEEP"), "a sleep needs waitMs"),
            (step("a", 5, state="FAILED"), "a failed step needs one"),
            (step("a", error=error), "only a failed step has an error"),
            (wait("a", "SLEEP", waitMs=1, error=error), "only a failed step has an error"),
        ]:
            answer = send(harness, task, step("b"), refused)
            assert (answer.status, answer.verdict, why in str(answer.message)) == (400, Verdict.REJECTED, True)
        assert send(harness, task, step("a", 1), step("a", 2)).status == 409
        assert count_steps(harness) == 0

    def test_limits(self, harness: Harness, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
        large = "x" * (MAX_STEP_BYTES - 100)
        refused = send(harness, task, step("a", large + "x" * 100))
        assert (refused.status, refused.verdict) == (413, Verdict.REJECTED)
        assert f"the limit is {MAX_STEP_BYTES} per step" in str(refused.message)
        for number in range(MAX_STEP_BYTES_PER_TASK // MAX_STEP_BYTES):
            assert send(harness, task, step(f"a{number}", large)).status == 200
        assert "per task" in str(send(harness, task, step("more", large)).message)
        harness.report(task, "FAILED")
        retry = harness.poll_one()
        assert "steps" not in retry
        assert retry["stepsOmitted"] is True
        pages: list[list[str]] = []
        after: int | None = 0
        while after is not None:
            page = harness.store.call(lambda tx: _read_page(tx, retry["taskId"], after or 0))
            pages.append([one["name"] for one in page["steps"]])
            after = page["next"]
        assert sum(pages, []) == [f"a{number}" for number in range(10)]
        assert 1 < len(pages) < 10
        monkeypatch.setattr("conductor.protocol.steps.MAX_STEPS_PER_TASK", 11)
        assert send(harness, retry, step("eleven")).status == 200
        assert "more than 11 steps" in str(send(harness, retry, step("twelve")).message)
        assert MAX_STEPS_PER_TASK == 10_000

    def test_a_failed_step_of_the_end_of_an_attempt_is_forgotten(self, harness: Harness, task: Task) -> None:
        error = {"type": "builtins:ValueError", "message": "no"}
        failed = step("a", state="FAILED", error=error)
        assert send(harness, task, failed, step("b")).status == 200
        send(harness, task, status="FAILED", forgetSteps=[["a", 1], ["b", 1], ["unknown", 7]])
        assert [one["name"] for one in harness.poll_one()["steps"]] == ["b"]

    @pytest.mark.parametrize(
        "fields",
        [
            {"status": "FAILED", "forgetSteps": [["a", 2**63]]},  # beyond the numbers of the database
            {"status": "FAILED", "forgetSteps": [["a", 1]] * (MAX_STEPS_PER_TASK + 1)},
            {"extendLease": True, "steps": [step("a")] * (MAX_STEPS_PER_TASK + 1)},
        ],
    )
    def test_a_report_with_more_than_a_task_can_have_is_invalid(
        self, harness: Harness, task: Task, fields: dict[str, Any]
    ) -> None:
        with pytest.raises(msgspec.ValidationError, match=r"2147483647|length <= 10000"):
            send(harness, task, **fields)

    def test_steps_are_removed_with_the_workflow_and_by_a_rerun(self, harness: Harness, task: Task) -> None:
        send(harness, task, step("a"))
        harness.report(task, "FAILED_WITH_TERMINAL_ERROR")
        pk = harness.store.call(lambda tx: tx.ids.workflow_pk(task["workflowInstanceId"]))
        harness.act(task["workflowInstanceId"], workflow_actions.rerun, task_id=task["taskId"])
        again = harness.poll_one()
        assert "steps" not in again
        assert count_steps(harness) == 0
        send(harness, again, step("a"))
        harness.report(again, "FAILED_WITH_TERMINAL_ERROR")
        harness.act(task["workflowInstanceId"], workflow_actions.retry)
        retried = harness.poll_one()
        assert [one["name"] for one in retried["steps"]] == ["a"]
        harness.report(retried)
        harness.store.call(lambda tx: remove_workflow(tx, pk or 0))
        assert count_steps(harness) == 0

    @pytest.mark.parametrize("resumed_by", ["retry", "rerun"])
    def test_a_task_that_was_cancelled_because_of_another_branch_keeps_its_steps(
        self, harness: Harness, resumed_by: str
    ) -> None:
        harness.task_def("work", **TASK_DEF)
        harness.workflow_def("child", simple("child_work"))
        harness.workflow_def("called", simple("called_work"))
        sub_workflow = {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW"}
        sub_workflow["subWorkflowParam"] = {"name": "child", "version": 1}  # type: ignore[assignment]
        fork = {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[sub_workflow]]}
        fork["forkTasks"].append([simple("work")])  # type: ignore[attr-defined]
        harness.workflow_def("forked", fork, {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": []})
        harness.start("forked")
        suspend(harness, harness.poll_one(), step("charge"), wait("called", "WORKFLOW", result={}))
        child = harness.poll_one("child_work")
        harness.report(child, "FAILED_WITH_TERMINAL_ERROR")
        harness.settle()
        if resumed_by == "retry":
            harness.act(child["workflowInstanceId"], workflow_actions.retry)
        else:
            harness.act(child["workflowInstanceId"], workflow_actions.rerun, task_id=child["taskId"])
        again = harness.poll_one()
        # The called workflow has ended with the parent, so it is called again.
        assert [one["name"] for one in again["steps"]] == ["charge"]
        suspend(harness, again, wait("called", "WORKFLOW", result={}))
        harness.report(harness.poll_one("called_work"))
        assert harness.poll_one()["steps"][1]["state"] == "DONE"


def _read_page(tx: Any, task_id: str, after: int) -> dict[str, Any]:

    page = task_steps.read_page(tx, task_id, after)
    return msgspec.json.decode(msgspec.json.encode(page), type=dict[str, Any])


class TestWaiting:
    def test_a_sleeping_task_holds_nothing_and_wakes_on_time_after_a_restart(self, tmp_path: Path) -> None:
        with Harness(tmp_path / "a.db") as harness:
            harness.start_one(task_def=TASK_DEF)
            task = harness.poll_one()
            asleep = [wait("short", "SLEEP", waitMs=60_500), wait("long", "SLEEP", waitMs=90_000)]
            assert suspend(harness, task, *asleep).verdict is Verdict.COMMITTED
            assert suspend(harness, task, *asleep).verdict is Verdict.COMMITTED  # the answer was lost
            assert harness.task(task["taskId"])["suspended"] is True
            harness.restart()
            harness.advance(60)
            assert harness.poll() == []
            harness.advance(0.5)
            woken = harness.poll_one()
            assert [(one["name"], one["state"]) for one in woken["steps"]] == [("short", "DONE"), ("long", "WAITING")]
            assert [one.get("waitMs") for one in woken["steps"]] == [None, 29_500]
            assert suspend(harness, woken).verdict is Verdict.COMMITTED
            harness.advance(29.4)
            assert harness.poll() == []
            harness.advance(0.1)
            assert harness.poll_one()["taskId"] == task["taskId"]

    def test_a_message_goes_to_the_step_that_waits_for_its_name(self, harness: Harness, task: Task) -> None:
        workflow_id = task["workflowInstanceId"]
        self._message(harness, workflow_id, name="early", n=1)
        suspend(harness, task, wait("early", "MESSAGE"), wait("late", "MESSAGE", waitMs=60_000))
        woken = harness.poll_one()
        assert woken["steps"][0]["result"] == {"name": "early", "n": 1}
        self._message(harness, workflow_id, name="late", n=2)  # while a worker holds the task
        self._message(harness, workflow_id, name="other", n=3)
        suspend(harness, woken)
        again = harness.poll_one()
        assert again["steps"][1]["result"] == {"name": "late", "n": 2}
        suspend(harness, again, wait("other", "MESSAGE", waitMs=0), wait("none", "MESSAGE", waitMs=5_000))
        last = harness.poll_one()
        assert last["steps"][2]["result"] == {"name": "other", "n": 3}
        suspend(harness, last)
        harness.advance(5)
        timed_out = harness.poll_one()["steps"][3]
        assert (timed_out["state"], timed_out["result"]) == ("DONE", None)

    def _message(self, harness: Harness, workflow_id: str, **payload: Any) -> None:
        send_message = harness.core.workflows.executions.send
        harness.store.call(lambda tx: send_message(tx, find_workflow(tx, workflow_id), payload))

    def test_a_cancelled_wait_takes_no_message_until_its_cancellation_is_forgotten(
        self, harness: Harness, task: Task
    ) -> None:
        workflow_id = task["workflowInstanceId"]
        cancelled = step("cancelled m", state="FAILED", error={"type": "a:b", "message": ""})
        send(harness, task, wait("m", "MESSAGE"))
        self._message(harness, workflow_id, name="m", n=1)  # received while a worker holds the task
        send(harness, task, cancelled)
        send(harness, task, wait("m", "MESSAGE", number=2))
        suspend(harness, task, wait("long", "SLEEP", waitMs=60_000))
        again = harness.poll_one()
        steps = {(one["name"], one["number"]): one for one in again["steps"]}
        assert (steps["m", 1]["state"], steps["m", 2]["result"]) == ("WAITING", {"name": "m", "n": 1})
        self._message(harness, workflow_id, name="m", n=2)
        send(harness, again, status="FAILED", forgetSteps=[["cancelled m", 1]])
        first = harness.poll_one()["steps"][0]
        assert (first["name"], first["result"]) == ("m", {"name": "m", "n": 2})

    def test_a_cancelled_sleep_wakes_no_task(self, harness: Harness, task: Task) -> None:
        cancelled = step("cancelled short", state="FAILED", error={"type": "a:b", "message": ""})
        send(harness, task, wait("short", "SLEEP", waitMs=1000))
        suspend(harness, task, cancelled, wait("long", "SLEEP", waitMs=60_000))
        harness.advance(59)
        assert harness.poll() == []
        harness.advance(1)
        assert harness.poll_one()["taskId"] == task["taskId"]

    def test_a_called_workflow_starts_once_and_wakes_its_caller(self, harness: Harness, task: Task) -> None:
        harness.workflow_def("child", simple("child_work"), outputParameters={"n": "${child_work.output.n}"})
        call = wait("child", "WORKFLOW", fingerprint="child:1", result={"n": 1})
        for _ in range(2):
            assert send(harness, task, call).verdict is Verdict.COMMITTED
        (child,) = harness.poll("child_work", count=5)
        suspend(harness, task)
        assert harness.poll() == []
        harness.report(child, outputData={"n": 7})
        woken = harness.poll_one()
        assert woken["steps"][0]["result"] == {"n": 7}
        assert woken["steps"][0]["workflowId"] == child["workflowInstanceId"]
        assert harness.workflow(child["workflowInstanceId"])["parentWorkflowId"] == task["workflowInstanceId"]

    def test_the_end_of_a_called_workflow_does_not_skip_the_delay_of_a_retry(self, harness: Harness) -> None:
        harness.start_one(task_def={**TASK_DEF, "retryDelaySeconds": 60})
        task = harness.poll_one()
        harness.workflow_def("child", simple("child_work"))
        send(harness, task, wait("child", "WORKFLOW", result={}))
        harness.report(task, "FAILED")
        harness.report(harness.poll_one("child_work"))
        assert harness.poll() == []
        harness.advance(60)
        assert harness.poll_one()["steps"][0]["state"] == "DONE"

    def test_a_called_workflow_that_fails_or_is_removed_fails_the_step(self, harness: Harness, task: Task) -> None:
        harness.task_def("child_work", retryCount=0)
        harness.workflow_def("child", simple("child_work"))
        calls = [wait(name, "WORKFLOW", result={}, workflowName="child") for name in ("fails", "removed")]
        suspend(harness, task, *calls, wait("unknown", "WORKFLOW", result={}))
        woken = harness.poll_one()
        assert "could not be started" in woken["steps"][2]["error"]["message"]
        suspend(harness, woken)
        first, second = harness.poll("child_work", count=2)
        harness.report(first, "FAILED", reasonForIncompletion="no paper")
        woken = harness.poll_one()
        message = woken["steps"][0]["error"]["message"]
        assert message.startswith("workflow child.1/")
        assert message.endswith("no paper'")
        suspend(harness, woken)
        actions = harness.core.workflows.executions
        harness.store.call(lambda tx: actions.remove(tx, find_workflow(tx, second["workflowInstanceId"])))
        assert "the workflow was removed" in harness.poll_one()["steps"][1]["error"]["message"]

    @pytest.mark.parametrize("suspended", [True, False])
    def test_called_workflows_end_with_their_parent(self, harness: Harness, task: Task, suspended: bool) -> None:
        harness.workflow_def("child", simple("child_work"))
        call = wait("child", "WORKFLOW", result={})
        suspend(harness, task, call) if suspended else send(harness, task, call)
        child = harness.poll_one("child_work")
        if suspended:
            harness.act(task["workflowInstanceId"], workflow_actions.terminate, reason="enough")
        else:
            harness.report(task)
        harness.settle()
        assert harness.workflow(child["workflowInstanceId"])["status"] == "TERMINATED"
        assert harness.report(child).verdict is Verdict.CANCELLED

    def test_a_retry_calls_a_workflow_again_that_has_ended_with_its_parent(self, harness: Harness, task: Task) -> None:
        harness.workflow_def("child", simple("child_work"))
        suspend(harness, task, step("a"), wait("child", "WORKFLOW", result={}))
        harness.poll_one("child_work")
        workflow_id = task["workflowInstanceId"]
        harness.act(workflow_id, workflow_actions.terminate, reason="enough")
        harness.settle()
        harness.act(workflow_id, workflow_actions.retry)
        retry = harness.poll_one()
        assert [one["name"] for one in retry["steps"]] == ["a"]
        suspend(harness, retry, wait("child", "WORKFLOW", result={}))
        harness.report(harness.poll_one("child_work"))
        assert harness.poll_one()["steps"][1]["state"] == "DONE"

    def test_a_retry_calls_a_workflow_again_that_is_only_marked_to_end_with_its_parent(
        self, harness: Harness, task: Task, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness.workflow_def("child", simple("child_work"))
        suspend(harness, task, step("a"), wait("child", "WORKFLOW", result={}))
        child, workflow_id = harness.poll_one("child_work"), task["workflowInstanceId"]
        with monkeypatch.context() as patch:
            patch.setattr(executions, "STEPS_PER_TRANSACTION", 0)  # as in a tree with many sub-workflows
            harness.act(workflow_id, workflow_actions.terminate, reason="enough")
        assert harness.workflow(child["workflowInstanceId"])["status"] == "RUNNING"
        harness.act(workflow_id, workflow_actions.retry)
        harness.settle()
        assert harness.workflow(child["workflowInstanceId"])["status"] == "TERMINATED"
        retry = harness.poll_one()
        assert [one["name"] for one in retry["steps"]] == ["a"]
        suspend(harness, retry, wait("child", "WORKFLOW", result={}))
        harness.report(harness.poll_one("child_work"))
        assert harness.poll_one()["steps"][1]["state"] == "DONE"

    def test_a_message_that_a_step_waits_for_needs_no_place_in_a_full_queue(self, harness: Harness, task: Task) -> None:
        suspend(harness, task, wait("approval", "MESSAGE"))
        workflow_id = task["workflowInstanceId"]
        for _ in range(MAX_MESSAGES):
            self._message(harness, workflow_id, name="other")
        with pytest.raises(ApiError, match="that no task has taken"):
            self._message(harness, workflow_id, name="other")
        self._message(harness, workflow_id, name="approval", n=7)
        assert harness.poll_one()["steps"][0]["result"] == {"name": "approval", "n": 7}
        with pytest.raises(ApiError, match="that no task has taken"):
            self._message(harness, workflow_id, name="approval")  # no step waits for a second one

    def test_a_suspended_task_without_waits_is_ready_and_one_of_an_ended_workflow_stays_ended(
        self, harness: Harness, task: Task
    ) -> None:
        suspend(harness, task, step("a"))
        again = harness.poll_one()
        suspend(harness, again, wait("approval", "MESSAGE"))
        workflow_id = again["workflowInstanceId"]
        harness.act(workflow_id, workflow_actions.terminate, reason="enough")
        with pytest.raises(ApiError):
            self._message(harness, workflow_id, name="approval")
        harness.advance(100_000)
        assert harness.poll() == []
        assert suspend(harness, again).verdict is Verdict.COMMITTED  # the same report again
        assert harness.task(again["taskId"])["status"] == "CANCELED"

    def test_many_sleepers_wake_in_bounded_transactions(self, harness: Harness) -> None:
        harness.task_def("work", **TASK_DEF)
        harness.workflow_def("flow", simple("work"))
        for _ in range(450):
            harness.start("flow")
        for task in harness.poll(count=450):
            suspend(harness, task, wait("sleep", "SLEEP", waitMs=1000))
        commits = len(harness.notes)
        assert harness.tick() is not None
        harness.clock.advance(1)
        assert harness.settle() == 3
        assert len(harness.poll(count=450)) == 450
        assert commits
