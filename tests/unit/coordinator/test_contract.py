"""What the coordinator makes of leases and reports, beyond what tests/contract asks of every server."""

from __future__ import annotations

import pytest
from house import House, Task, simple

from conductor.protocol.wire import Verdict

LEASE_S = 10
TASK_DEF = {"responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 3}


@pytest.fixture
def task(house: House) -> Task:
    """A task in the hands of w1."""
    house.start_one(task_def=TASK_DEF)
    return house.poll_one()


class TestAuthority:
    def test_only_the_coordinator_decides_state(self, house: House, task: Task) -> None:
        house.clock.advance(LEASE_S)
        house.report(task, outputData={"mine": True})
        house.tick()
        assert house.task(task["taskId"])["status"] == "TIMED_OUT"
        assert house.task(task["taskId"])["outputData"] == {}

    def test_a_lease_without_a_response_timeout_lasts_an_hour(self, house: House) -> None:
        house.start_one("plain")
        assert house.poll_one("plain")["leaseExpiresAt"] == house.clock.wall_ms() + 3_600_000


class TestCommitted:
    def test_is_on_disk_when_it_is_answered(self, house: House, task: Task) -> None:
        house.report(task, reportId="r1")
        house.restart()
        assert house.task(task["taskId"])["status"] == "COMPLETED"
        assert house.report(task, reportId="r1").verdict is Verdict.COMMITTED


class TestCancelled:
    def test_lease_superseded_by_another_attempt(self, house: House, task: Task) -> None:
        house.advance(LEASE_S)
        second = house.poll_one(worker="w2")
        assert second["retriedTaskId"] == task["taskId"]
        assert house.report(task).verdict is Verdict.CANCELLED
        assert house.report(second).verdict is Verdict.COMMITTED

    def test_recovered_without_it(self, house: House, task: Task) -> None:
        house.close()
        house.clock.advance(LEASE_S)
        house.open()
        house.tick()
        assert house.report(task).verdict is Verdict.CANCELLED

    def test_a_lease_still_in_time_survives_a_restart(self, house: House, task: Task) -> None:
        house.clock.advance(LEASE_S - 1)
        house.restart()
        house.tick()
        assert house.report(task).verdict is Verdict.COMMITTED

    def test_workflow_ended(self, house: House, task: Task) -> None:
        from conductor.coordinator.workflows import workflow_actions as workflow_actions

        house.act(task["workflowInstanceId"], workflow_actions.terminate, reason="enough")
        assert house.heartbeat(task).verdict is Verdict.CANCELLED
        assert house.report(task).verdict is Verdict.CANCELLED
        assert house.task(task["taskId"])["status"] == "CANCELED"

    def test_the_result_is_discarded(self, house: House, task: Task) -> None:
        house.clock.advance(LEASE_S)
        house.report(task, outputData={"late": 1}, logs=[{"log": "late"}])
        house.tick()
        assert house.task(task["taskId"])["outputData"] == {}
        assert house.store.call(lambda tx: tx.rows("logs", task["taskId"])) == []

    def test_it_is_not_a_failure_and_implies_no_retry(self, house: House, task: Task) -> None:
        house.advance(LEASE_S)
        before = house.workflow(task["workflowInstanceId"])
        house.report(task, "FAILED")
        assert house.workflow(task["workflowInstanceId"]) == before


class TestHeartbeat:
    def test_missing_ones_lose_the_lease(self, house: House, task: Task) -> None:
        house.clock.advance(LEASE_S - 1)
        house.heartbeat(task)
        house.advance(LEASE_S)
        assert house.task(task["taskId"])["status"] == "TIMED_OUT"

    def test_expired_leases_are_never_revived(self, house: House, task: Task) -> None:
        house.clock.advance(LEASE_S)
        assert house.heartbeat(task).verdict is Verdict.CANCELLED
        assert house.report(task).verdict is Verdict.CANCELLED

    def test_n28_a_heartbeat_brings_news_and_the_lease_goes_on(self, house: House, task: Task) -> None:
        outcome = house.heartbeat(task, outputData={"x": 1}, logs=[{"log": "half way"}])
        assert outcome.verdict is Verdict.COMMITTED
        stored = house.task(task["taskId"])
        assert (stored["status"], stored["outputData"]) == ("IN_PROGRESS", {"x": 1})
        assert [line for line, _ in house.store.call(lambda tx: tx.rows("logs", task["taskId"]))] == ["half way"]
        house.heartbeat(task)
        assert house.task(task["taskId"])["outputData"] == {"x": 1}, "a beat without news changes none"
        assert house.report(task, outputData={"y": 2}).verdict is Verdict.COMMITTED
        assert house.task(task["taskId"])["outputData"] == {"y": 2}

    def test_news_of_an_ended_lease_is_none(self, house: House, task: Task) -> None:
        house.clock.advance(LEASE_S)
        house.heartbeat(task, outputData={"x": 1}, logs=[{"log": "late"}])
        assert house.task(task["taskId"])["outputData"] == {}
        assert house.store.call(lambda tx: tx.rows("logs", task["taskId"])) == []

    def test_failure_is_handled_by_the_coordinator(self, house: House, task: Task) -> None:
        house.advance(LEASE_S)
        retry = house.poll_one(worker="w2")
        assert (retry["retryCount"], retry["retriedTaskId"]) == (1, task["taskId"])


class TestRetries:
    def test_a_failure_is_told_with_task_lease_and_reason(self, house: House, task: Task) -> None:
        house.report(task, "FAILED", reasonForIncompletion="no paper")
        assert house.task(task["taskId"])["reasonForIncompletion"] == "no paper"

    def test_the_coordinator_decides_on_a_retry(self, house: House, task: Task) -> None:
        house.report(task, "FAILED")
        assert house.poll_one()["retriedTaskId"] == task["taskId"]

    def test_a_terminal_failure_is_not_retried(self, house: House, task: Task) -> None:
        house.report(task, "FAILED_WITH_TERMINAL_ERROR")
        assert house.poll() == []
        assert house.workflow(task["workflowInstanceId"])["status"] == "FAILED"

    def test_no_more_attempts_than_the_definition_allows(self, house: House) -> None:
        workflow = house.start_one(task_def={"retryCount": 2, "retryDelaySeconds": 0})
        for _ in range(3):
            house.report(house.poll_one(), "FAILED")
        assert house.poll() == []
        assert house.workflow(workflow)["status"] == "FAILED"


class TestIdempotency:
    @pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS"])
    def test_a_repeated_report_is_told_the_same_and_does_nothing(self, house: House, task: Task, status: str) -> None:
        first = house.report(task, status, reportId="r1")
        state = house.workflow(task["workflowInstanceId"])
        again = house.report(task, status, reportId="r1")
        assert (first.verdict, again.verdict) == (Verdict.COMMITTED, Verdict.COMMITTED)
        assert house.workflow(task["workflowInstanceId"]) == state


class TestHandBack:
    def test_waiting_for_its_callback_it_does_not_time_out(self, house: House, task: Task) -> None:
        house.report(task, "IN_PROGRESS", callbackAfterSeconds=LEASE_S * 5)
        house.advance(LEASE_S * 4)
        assert house.task(task["taskId"])["status"] == "SCHEDULED"


class TestClientsWithoutLeases:
    """Every other Conductor SDK: judged by the task and who they say they are, answered as Conductor answers."""

    def send(
        self, house: House, task: Task, status: str | None = "COMPLETED", **fields: object
    ) -> tuple[Verdict | None, int]:
        plain = {key: value for key, value in task.items() if key != "leaseId"}
        outcome = house.report(plain, status, **fields)
        return outcome.verdict, outcome.status

    def test_the_holder_completes(self, house: House, task: Task) -> None:
        assert self.send(house, task) == (None, 200)
        assert house.task(task["taskId"])["status"] == "COMPLETED"

    def test_said_again_it_is_the_same_answer(self, house: House, task: Task) -> None:
        self.send(house, task)
        assert self.send(house, task) == (None, 200)
        assert self.send(house, task, "FAILED") == (Verdict.CANCELLED, 409)
        assert house.task(task["taskId"])["status"] == "COMPLETED"

    @pytest.mark.parametrize("noticed", [False, True])
    def test_f10_a_late_result_is_cancelled(self, house: House, task: Task, noticed: bool) -> None:
        house.clock.advance(LEASE_S)
        if noticed:
            house.tick()
        assert self.send(house, task) == (Verdict.CANCELLED, 409)
        house.tick()
        assert house.task(task["taskId"])["status"] == "TIMED_OUT"

    @pytest.mark.parametrize("somebody", ["operator", None])
    def test_f10_somebody_else_decides_and_the_holder_hears_it(
        self, house: House, task: Task, somebody: str | None
    ) -> None:
        plain = {key: value for key, value in task.items() if key not in ("leaseId", "workerId")}
        said = plain if somebody is None else {**plain, "workerId": somebody}
        assert self.send(house, said, outputData={"by": "hand"}) == (None, 200)
        found = house.task(task["taskId"])
        assert (found["status"], found["outputData"]) == ("COMPLETED", {"by": "hand"})
        assert house.heartbeat(task).verdict is Verdict.CANCELLED
        assert house.report(task).verdict is Verdict.CANCELLED
        assert self.send(house, task) == (Verdict.CANCELLED, 409)
        assert house.task(task["taskId"])["outputData"] == {"by": "hand"}

    def test_f10_who_held_it_before_has_no_say_any_more(self, house: House, task: Task) -> None:
        house.store.call(lambda tx: house.core.queue.requeue_some(tx, "work"))
        assert self.send(house, task) == (Verdict.CANCELLED, 409)
        second = house.poll_one(worker="w2")
        assert self.send(house, task) == (Verdict.CANCELLED, 409)
        assert house.task(task["taskId"])["status"] == "IN_PROGRESS"
        assert self.send(house, second) == (None, 200)

    def test_who_handed_it_back_may_still_end_it(self, house: House, task: Task) -> None:
        """As with Conductor: a worker waits for another system, and reports when that is done."""
        assert self.send(house, task, "IN_PROGRESS", callbackAfterSeconds=3600) == (None, 200)
        assert self.send(house, task) == (None, 200)
        assert house.task(task["taskId"])["status"] == "COMPLETED"

    def test_an_unpolled_task_can_be_completed(self, house: House) -> None:
        workflow = house.start_one()
        (waiting,) = house.workflow(workflow)["tasks"]
        assert self.send(house, waiting) == (None, 200)
        assert house.workflow(workflow)["status"] == "COMPLETED"
        assert house.poll() == []

    def test_extend_lease_extends(self, house: House, task: Task) -> None:
        house.clock.advance(LEASE_S - 1)
        self.send(house, task, None, extendLease=True)
        house.advance(LEASE_S - 1)
        assert house.task(task["taskId"])["status"] == "IN_PROGRESS"

    def test_a_missing_id_is_400(self, house: House) -> None:
        assert house.send({"status": "COMPLETED"}).status == 400


def test_two_steps_pass_their_data_on(house: House) -> None:
    house.workflow_def("flow", simple("a"), simple("b", inputParameters={"x": "${a.output.n}"}))
    workflow = house.start()
    house.report(house.poll_one("a"), outputData={"n": 7})
    second = house.poll_one("b")
    assert second["inputData"] == {"x": 7}
    house.report(second)
    assert house.workflow(workflow)["status"] == "COMPLETED"
