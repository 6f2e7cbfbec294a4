"""Leases and reports of the coordinator, beyond the promises in tests/contract."""

from __future__ import annotations

import json

import msgspec
import pytest

from conductor.coordinator.limits import MAX_VERDICTS_KEPT
from conductor.coordinator.store.statements import NEWEST_LOGS
from conductor.coordinator.tasks import task_queue
from conductor.coordinator.tasks.task_report import Report
from conductor.coordinator.views import queue_sizes
from conductor.protocol.wire import Verdict
from tests.unit.coordinator.core_harness import Harness, Task, simple

LEASE_S = 10
TASK_DEF = {"responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 3}


@pytest.fixture
def task(harness: Harness) -> Task:
    """A task in the hands of w1."""
    harness.start_one(task_def=TASK_DEF)
    return harness.poll_one()


class TestAuthority:
    def test_only_the_coordinator_decides_state(self, harness: Harness, task: Task) -> None:
        harness.clock.advance(LEASE_S)
        harness.report(task, outputData={"mine": True})
        harness.tick()
        assert harness.task(task["taskId"])["status"] == "TIMED_OUT"
        assert harness.task(task["taskId"])["outputData"] == {}

    def test_a_lease_without_a_response_timeout_lasts_an_hour(self, harness: Harness) -> None:
        harness.start_one("plain")
        assert harness.poll_one("plain")["leaseExpiresAt"] == harness.clock.wall_ms() + 3_600_000


class TestLargePolls:
    """Workers reject an answer of more than 64 MB, and would never execute its tasks."""

    @pytest.fixture(autouse=True)
    def limit(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        """Polls lease two of these tasks."""
        monkeypatch.setattr(task_queue, "MAX_POLL_BYTES", 20_000)
        harness.workflow_def("flow", simple("work", inputParameters={"text": "${workflow.input.text}"}))

    @staticmethod
    def start(harness: Harness, count: int) -> None:
        for _ in range(count):
            harness.start(input={"text": "x" * 10_000})

    def test_a_poll_that_leaves_tasks_wakes_the_next_poll(self, harness: Harness) -> None:
        self.start(harness, 5)
        counts = []
        for left in (3, 1, 0, 0):
            counts.append(len(harness.poll(count=100)))
            assert harness.notes[-1].ready == ({("work", ""): 1} if left else {})
        assert counts == [2, 2, 1, 0]

    def test_tasks_that_come_with_verdicts_share_one_limit(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.start(harness, 8)
        held = [task for worker in ("w1", "w2") for task in harness.poll(worker=worker, count=2)]
        fields = ("taskId", "workflowInstanceId", "workerId", "leaseId")
        reports = [
            msgspec.convert({**{name: task[name] for name in fields}, "status": "COMPLETED"}, Report) for task in held
        ]

        def judge() -> list[tuple[Verdict | None, bool]]:
            outcomes = harness.store.call(lambda tx: harness.core.tasks.judge(tx, reports, len(reports)))
            return [(outcome.verdict, outcome.next_task is not None) for outcome in outcomes]

        assert judge() == [(Verdict.COMMITTED, has_task) for has_task in (True, True, False, False)]
        monkeypatch.setattr(task_queue, "MAX_POLL_BYTES", 5_000)
        assert judge() == [(Verdict.COMMITTED, has_task) for has_task in (True, False, False, False)], "sent again"
        assert len(harness.poll(count=100, worker="w3")) == 1
        assert harness.store.call(lambda tx: queue_sizes.count_tasks(tx, "work", "")) == 2

    def test_a_poll_leases_a_limited_number_of_tasks(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(task_queue, "POLLED_PER_TRANSACTION", 3)
        for _ in range(5):
            harness.start()
        assert [len(harness.poll(count=2**40)) for _ in range(3)] == [3, 2, 0]


class TestCommitted:
    def test_a_committed_result_is_on_disk_when_it_is_answered(self, harness: Harness, task: Task) -> None:
        harness.report(task, reportId="r1")
        harness.restart()
        assert harness.task(task["taskId"])["status"] == "COMPLETED"
        assert harness.report(task, reportId="r1").verdict is Verdict.COMMITTED


class TestCancelled:
    def test_lease_superseded_by_another_attempt(self, harness: Harness, task: Task) -> None:
        harness.advance(LEASE_S)
        second = harness.poll_one(worker="w2")
        assert second["retriedTaskId"] == task["taskId"]
        assert harness.report(task).verdict is Verdict.CANCELLED
        assert harness.report(second).verdict is Verdict.COMMITTED

    def test_a_task_recovered_by_its_timeout_cancels_the_old_lease(self, harness: Harness, task: Task) -> None:
        harness.close()
        harness.clock.advance(LEASE_S)
        harness.open()
        harness.tick()
        assert harness.report(task).verdict is Verdict.CANCELLED

    def test_a_lease_still_in_time_survives_a_restart(self, harness: Harness, task: Task) -> None:
        harness.clock.advance(LEASE_S - 1)
        harness.restart()
        harness.tick()
        assert harness.report(task).verdict is Verdict.COMMITTED

    def test_the_end_of_a_workflow_cancels_its_leases(self, harness: Harness, task: Task) -> None:
        from conductor.coordinator.workflows import workflow_actions as workflow_actions

        harness.act(task["workflowInstanceId"], workflow_actions.terminate, reason="enough")
        assert harness.heartbeat(task).verdict is Verdict.CANCELLED
        assert harness.report(task).verdict is Verdict.CANCELLED
        assert harness.task(task["taskId"])["status"] == "CANCELED"

    def test_the_result_is_discarded(self, harness: Harness, task: Task) -> None:
        harness.clock.advance(LEASE_S)
        harness.report(task, outputData={"late": 1}, logs=[{"log": "late"}])
        harness.tick()
        assert harness.task(task["taskId"])["outputData"] == {}
        assert harness.store.call(lambda tx: tx.rows(NEWEST_LOGS, task["taskId"])[::-1]) == []

    def test_a_cancelled_report_is_no_failure_and_implies_no_retry(self, harness: Harness, task: Task) -> None:
        harness.advance(LEASE_S)
        before = harness.workflow(task["workflowInstanceId"])
        harness.report(task, "FAILED")
        assert harness.workflow(task["workflowInstanceId"]) == before


class TestHeartbeat:
    def test_missing_heartbeats_lose_the_lease(self, harness: Harness, task: Task) -> None:
        harness.clock.advance(LEASE_S - 1)
        harness.heartbeat(task)
        harness.advance(LEASE_S)
        assert harness.task(task["taskId"])["status"] == "TIMED_OUT"

    def test_expired_leases_are_never_revived(self, harness: Harness, task: Task) -> None:
        harness.clock.advance(LEASE_S)
        assert harness.heartbeat(task).verdict is Verdict.CANCELLED
        assert harness.report(task).verdict is Verdict.CANCELLED

    def test_a_heartbeat_brings_news_and_the_lease_goes_on(self, harness: Harness, task: Task) -> None:
        outcome = harness.heartbeat(task, outputData={"x": 1}, logs=[{"log": "half way"}])
        assert outcome.verdict is Verdict.COMMITTED
        stored = harness.task(task["taskId"])
        assert (stored["status"], stored["outputData"]) == ("IN_PROGRESS", {"x": 1})
        (line,) = harness.store.call(lambda tx: tx.rows(NEWEST_LOGS, task["taskId"]))
        assert line.line == "half way"
        harness.heartbeat(task)
        assert harness.task(task["taskId"])["outputData"] == {"x": 1}, "a beat without news changes none"
        assert harness.report(task, outputData={"y": 2}).verdict is Verdict.COMMITTED
        assert harness.task(task["taskId"])["outputData"] == {"y": 2}

    def test_news_of_an_ended_lease_is_none(self, harness: Harness, task: Task) -> None:
        harness.clock.advance(LEASE_S)
        harness.heartbeat(task, outputData={"x": 1}, logs=[{"log": "late"}])
        assert harness.task(task["taskId"])["outputData"] == {}
        assert harness.store.call(lambda tx: tx.rows(NEWEST_LOGS, task["taskId"])[::-1]) == []

    def test_failure_is_handled_by_the_coordinator(self, harness: Harness, task: Task) -> None:
        harness.advance(LEASE_S)
        retry = harness.poll_one(worker="w2")
        assert (retry["retryCount"], retry["retriedTaskId"]) == (1, task["taskId"])


class TestRetries:
    def test_a_failure_is_told_with_task_lease_and_reason(self, harness: Harness, task: Task) -> None:
        harness.report(task, "FAILED", reasonForIncompletion="no paper")
        assert harness.task(task["taskId"])["reasonForIncompletion"] == "no paper"

    def test_the_coordinator_decides_on_a_retry(self, harness: Harness, task: Task) -> None:
        harness.report(task, "FAILED")
        assert harness.poll_one()["retriedTaskId"] == task["taskId"]

    def test_a_terminal_failure_is_not_retried(self, harness: Harness, task: Task) -> None:
        harness.report(task, "FAILED_WITH_TERMINAL_ERROR")
        assert harness.poll() == []
        assert harness.workflow(task["workflowInstanceId"])["status"] == "FAILED"

    def test_no_more_attempts_than_the_definition_allows(self, harness: Harness) -> None:
        workflow = harness.start_one(task_def={"retryCount": 2, "retryDelaySeconds": 0})
        for _ in range(3):
            harness.report(harness.poll_one(), "FAILED")
        assert harness.poll() == []
        assert harness.workflow(workflow)["status"] == "FAILED"


class TestIdempotency:
    @pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS"])
    def test_a_repeated_report_is_told_the_same_and_does_nothing(
        self, harness: Harness, task: Task, status: str
    ) -> None:
        first = harness.report(task, status, reportId="r1")
        state = harness.workflow(task["workflowInstanceId"])
        again = harness.report(task, status, reportId="r1")
        assert (first.verdict, again.verdict) == (Verdict.COMMITTED, Verdict.COMMITTED)
        assert harness.workflow(task["workflowInstanceId"]) == state


class TestHandBack:
    def test_a_task_that_waits_for_its_callback_does_not_time_out(self, harness: Harness, task: Task) -> None:
        harness.report(task, "IN_PROGRESS", callbackAfterSeconds=LEASE_S * 5)
        harness.advance(LEASE_S * 4)
        assert harness.task(task["taskId"])["status"] == "SCHEDULED"


class TestClientsWithoutLeases:
    """Reports of other SDKs: judged by the task and the worker id, answered as Conductor answers."""

    def send(
        self, harness: Harness, task: Task, status: str | None = "COMPLETED", **fields: object
    ) -> tuple[Verdict | None, int]:
        plain = {key: value for key, value in task.items() if key != "leaseId"}
        outcome = harness.report(plain, status, **fields)
        return outcome.verdict, outcome.status

    def test_a_holder_without_a_lease_id_completes_its_task(self, harness: Harness, task: Task) -> None:
        assert self.send(harness, task) == (None, 200)
        assert harness.task(task["taskId"])["status"] == "COMPLETED"

    def test_only_the_verdicts_of_the_newest_leases_are_kept(self, harness: Harness, task: Task) -> None:
        leases = []
        for number in range(3 * MAX_VERDICTS_KEPT):
            leases.append(task)
            harness.report(task, "IN_PROGRESS", reportId=f"r{number}")
            task = harness.poll_one()
        last = {"reportId": "last"}
        assert harness.report(task, **last).verdict is Verdict.COMMITTED
        for held in leases:  # late reports must not displace the verdict of the last lease
            assert harness.report(held, reportId="late").status >= 400
        assert harness.report(task, **last).verdict is Verdict.COMMITTED
        (row,) = harness.store.call(lambda tx: tx.select("SELECT reports FROM task_data", ()))
        assert len(json.loads(row[0])) == MAX_VERDICTS_KEPT

    def test_a_report_without_a_lease_id_that_is_repeated_gets_the_same_answer(
        self, harness: Harness, task: Task
    ) -> None:
        self.send(harness, task)
        assert self.send(harness, task) == (None, 200)
        assert self.send(harness, task, "FAILED") == (Verdict.CANCELLED, 409)
        assert harness.task(task["taskId"])["status"] == "COMPLETED"

    @pytest.mark.parametrize("noticed", [False, True])
    def test_a_late_result_is_cancelled(self, harness: Harness, task: Task, noticed: bool) -> None:
        harness.clock.advance(LEASE_S)
        if noticed:
            harness.tick()
        assert self.send(harness, task) == (Verdict.CANCELLED, 409)
        harness.tick()
        assert harness.task(task["taskId"])["status"] == "TIMED_OUT"

    @pytest.mark.parametrize("somebody", ["operator", None])
    def test_a_task_ended_by_another_client_cancels_the_holders_lease(
        self, harness: Harness, task: Task, somebody: str | None
    ) -> None:
        plain = {key: value for key, value in task.items() if key not in ("leaseId", "workerId")}
        said = plain if somebody is None else {**plain, "workerId": somebody}
        assert self.send(harness, said, outputData={"by": "hand"}) == (None, 200)
        found = harness.task(task["taskId"])
        assert (found["status"], found["outputData"]) == ("COMPLETED", {"by": "hand"})
        assert harness.heartbeat(task).verdict is Verdict.CANCELLED
        assert harness.report(task).verdict is Verdict.CANCELLED
        assert self.send(harness, task) == (Verdict.CANCELLED, 409)
        assert harness.task(task["taskId"])["outputData"] == {"by": "hand"}

    def test_a_former_holder_has_no_effect_on_the_task(self, harness: Harness, task: Task) -> None:
        harness.store.call(lambda tx: harness.core._queue.requeue_batch(tx, "work"))
        assert self.send(harness, task) == (Verdict.CANCELLED, 409)
        second = harness.poll_one(worker="w2")
        assert self.send(harness, task) == (Verdict.CANCELLED, 409)
        assert harness.task(task["taskId"])["status"] == "IN_PROGRESS"
        assert self.send(harness, second) == (None, 200)

    def test_a_worker_that_handed_a_task_back_may_still_end_it(self, harness: Harness, task: Task) -> None:
        """As with Conductor: a worker waits for another system, and reports when that is done."""
        assert self.send(harness, task, "IN_PROGRESS", callbackAfterSeconds=3600) == (None, 200)
        assert self.send(harness, task) == (None, 200)
        assert harness.task(task["taskId"])["status"] == "COMPLETED"

    def test_an_unpolled_task_can_be_completed(self, harness: Harness) -> None:
        workflow = harness.start_one()
        (waiting,) = harness.workflow(workflow)["tasks"]
        assert self.send(harness, waiting) == (None, 200)
        assert harness.workflow(workflow)["status"] == "COMPLETED"
        assert harness.poll() == []

    def test_extend_lease_extends_the_lease(self, harness: Harness, task: Task) -> None:
        harness.clock.advance(LEASE_S - 1)
        self.send(harness, task, None, extendLease=True)
        harness.advance(LEASE_S - 1)
        assert harness.task(task["taskId"])["status"] == "IN_PROGRESS"

    def test_a_missing_id_is_400(self, harness: Harness) -> None:
        assert harness.send({"status": "COMPLETED"}).status == 400


def test_two_steps_pass_their_data_on(harness: Harness) -> None:
    harness.workflow_def("flow", simple("a"), simple("b", inputParameters={"x": "${a.output.n}"}))
    workflow = harness.start()
    harness.report(harness.poll_one("a"), outputData={"n": 7})
    second = harness.poll_one("b")
    assert second["inputData"] == {"x": 7}
    harness.report(second)
    assert harness.workflow(workflow)["status"] == "COMPLETED"
