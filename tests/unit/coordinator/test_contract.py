"""The contract between worker and coordinator, sentence by sentence, on a clock that the tests turn."""

from __future__ import annotations

import pytest
from house import House, simple

from conductor.wire import Verdict

LEASE_S = 10
TASK_DEF = {"responseTimeoutSeconds": LEASE_S, "retryDelaySeconds": 0, "retryCount": 3}


@pytest.fixture
def task(house: House) -> dict:
    """A task in the hands of w1."""
    house.start_one(task_def=TASK_DEF)
    return house.poll_one()


class TestAuthority:
    def test_only_the_coordinator_decides_state(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S)
        house.report(task, outputData={"mine": True})
        house.tick()
        assert house.task(task["taskId"])["status"] == "TIMED_OUT"
        assert house.task(task["taskId"])["outputData"] == {}

    def test_only_the_coordinator_decides_ownership(self, house: House, task: dict) -> None:
        assert house.poll() == []
        assert house.task(task["taskId"])["workerId"] == "w1"

    def test_only_the_coordinator_decides_acceptance(self, house: House, task: dict) -> None:
        stolen = {**task, "leaseId": "1-0123456789abcdef01"}
        assert house.report(stolen).verdict is Verdict.REJECTED
        assert house.task(task["taskId"])["status"] == "IN_PROGRESS"

    def test_a_poll_grants_a_lease_with_an_id_a_holder_and_an_end(self, house: House, task: dict) -> None:
        assert task["leaseId"]
        assert task["workerId"] == "w1"
        assert task["leaseExpiresAt"] == house.clock.wall_ms() + LEASE_S * 1000

    def test_a_lease_without_a_response_timeout_lasts_an_hour(self, house: House) -> None:
        house.start_one("plain")
        assert house.poll_one("plain")["leaseExpiresAt"] == house.clock.wall_ms() + 3_600_000


class TestLoop:
    def test_lease_execute_heartbeat_report_accept(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S - 1)
        assert house.heartbeat(task).lease_expires_ms == house.clock.wall_ms() + LEASE_S * 1000
        house.clock.advance(LEASE_S - 1)
        assert house.report(task).verdict is Verdict.COMMITTED

    def test_a_late_answer_may_be_asked_for_again(self, house: House, task: dict) -> None:
        first = house.report(task, reportId="r1")
        house.clock.advance(3600)
        assert house.report(task, reportId="r1").verdict is first.verdict

    def test_ownership_is_lost_silently(self, house: House, task: dict) -> None:
        house.advance(LEASE_S)
        assert house.report(task).verdict is Verdict.CANCELLED

    def test_a_report_gets_exactly_one_verdict_and_it_is_final(self, house: House, task: dict) -> None:
        house.advance(LEASE_S)
        verdicts = {house.report(task, reportId="r1").verdict for _ in range(3)}
        assert verdicts == {Verdict.CANCELLED}


class TestCommitted:
    @pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR"])
    def test_means_the_lease_was_valid_and_the_state_is_terminal(self, house: House, task: dict, status: str) -> None:
        assert house.report(task, status, outputData={"n": 1}).verdict is Verdict.COMMITTED
        stored = house.task(task["taskId"])
        assert stored["status"] == status
        assert stored["outputData"] == {"n": 1}

    def test_there_is_one_per_lease_at_most(self, house: House, task: dict) -> None:
        assert house.report(task, reportId="r1").verdict is Verdict.COMMITTED
        assert house.report(task, reportId="r2").verdict is Verdict.REJECTED

    def test_until_the_last_millisecond_of_the_lease(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S - 0.001)
        assert house.report(task).verdict is Verdict.COMMITTED

    def test_is_on_disk_when_it_is_answered(self, house: House, task: dict) -> None:
        house.report(task, reportId="r1")
        house.restart()
        assert house.task(task["taskId"])["status"] == "COMPLETED"
        assert house.report(task, reportId="r1").verdict is Verdict.COMMITTED


class TestCancelled:
    def test_lease_expired(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S)
        assert house.report(task).verdict is Verdict.CANCELLED

    def test_lease_superseded_by_another_attempt(self, house: House, task: dict) -> None:
        house.advance(LEASE_S)
        second = house.poll_one(worker="w2")
        assert second["retriedTaskId"] == task["taskId"]
        assert house.report(task).verdict is Verdict.CANCELLED
        assert house.report(second).verdict is Verdict.COMMITTED

    def test_lease_superseded_by_another_delivery_of_the_same_task(self, house: House, task: dict) -> None:
        house.report(task, "IN_PROGRESS", reportId="back")
        second = house.poll_one(worker="w2")
        assert second["taskId"] == task["taskId"]
        assert second["leaseId"] != task["leaseId"]
        assert house.heartbeat(task).verdict is Verdict.CANCELLED
        assert house.report(second).verdict is Verdict.COMMITTED

    def test_recovered_without_it(self, house: House, task: dict) -> None:
        house.close()
        house.clock.advance(LEASE_S)
        house.open()
        house.tick()
        assert house.report(task).verdict is Verdict.CANCELLED

    def test_a_lease_still_in_time_survives_a_restart(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S - 1)
        house.restart()
        house.tick()
        assert house.report(task).verdict is Verdict.COMMITTED

    def test_workflow_ended(self, house: House, task: dict) -> None:
        from conductor.coordinator import workflow_actions

        house.act(task["workflowInstanceId"], lambda state, now, _: workflow_actions.terminate(state, now, "enough"))
        assert house.heartbeat(task).verdict is Verdict.CANCELLED
        assert house.report(task).verdict is Verdict.CANCELLED
        assert house.task(task["taskId"])["status"] == "CANCELED"

    def test_the_result_is_discarded(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S)
        house.report(task, outputData={"late": 1}, logs=[{"log": "late"}])
        house.tick()
        assert house.task(task["taskId"])["outputData"] == {}
        assert house.store.call(lambda tx: tx.rows("logs", task["taskId"])) == []

    def test_it_is_not_a_failure_and_implies_no_retry(self, house: House, task: dict) -> None:
        house.advance(LEASE_S)
        before = house.workflow(task["workflowInstanceId"])
        house.report(task, "FAILED")
        assert house.workflow(task["workflowInstanceId"]) == before


class TestRejected:
    def test_unknown_task(self, house: House, task: dict) -> None:
        outcome = house.report({**task, "taskId": "00000000-0000-8000-8000-000000000000"})
        assert (outcome.verdict, outcome.status) == (Verdict.REJECTED, 404)

    def test_unknown_workflow(self, house: House, task: dict) -> None:
        outcome = house.report({**task, "workflowInstanceId": "nope"})
        assert (outcome.verdict, outcome.status) == (Verdict.REJECTED, 404)

    def test_invalid_lease(self, house: House, task: dict) -> None:
        house.start_one(task_def=TASK_DEF)
        other = house.poll_one()
        outcome = house.report({**task, "leaseId": other["leaseId"]})
        assert (outcome.verdict, outcome.status) == (Verdict.REJECTED, 404)

    def test_malformed_without_a_status(self, house: House, task: dict) -> None:
        outcome = house.report(task, None)
        assert (outcome.verdict, outcome.status) == (Verdict.REJECTED, 400)
        assert house.report(task).verdict is Verdict.COMMITTED, "a malformed report does not consume the lease"

    def test_malformed_without_ids(self, house: House, task: dict) -> None:
        outcome = house.send({"leaseId": task["leaseId"], "status": "COMPLETED"})
        assert (outcome.verdict, outcome.status) == (Verdict.REJECTED, 400)

    def test_duplicate_completion_of_a_lease(self, house: House, task: dict) -> None:
        house.report(task, reportId="r1")
        outcome = house.report(task, "FAILED", reportId="r2")
        assert (outcome.verdict, outcome.status) == (Verdict.REJECTED, 409)
        assert house.task(task["taskId"])["status"] == "COMPLETED"

    def test_a_different_report_after_a_cancelled_one(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S)
        house.report(task, reportId="r1")
        assert house.report(task, reportId="r2").verdict is Verdict.REJECTED
        assert house.report(task, reportId="r1").verdict is Verdict.CANCELLED


class TestHeartbeat:
    def test_missing_ones_lose_the_lease(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S - 1)
        house.heartbeat(task)
        house.advance(LEASE_S)
        assert house.task(task["taskId"])["status"] == "TIMED_OUT"

    def test_expired_leases_are_never_revived(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S)
        assert house.heartbeat(task).verdict is Verdict.CANCELLED
        assert house.report(task).verdict is Verdict.CANCELLED

    def test_a_heartbeat_is_advisory_and_changes_only_the_end(self, house: House, task: dict) -> None:
        house.heartbeat(task, outputData={"x": 1})
        stored = house.task(task["taskId"])
        assert (stored["status"], stored["outputData"]) == ("IN_PROGRESS", {})

    def test_failure_is_handled_by_the_coordinator(self, house: House, task: dict) -> None:
        house.advance(LEASE_S)
        retry = house.poll_one(worker="w2")
        assert (retry["retryCount"], retry["retriedTaskId"]) == (1, task["taskId"])

    def test_is_idempotent(self, house: House, task: dict) -> None:
        assert house.heartbeat(task) == house.heartbeat(task)

    def test_after_a_report_there_is_no_lease_to_extend(self, house: House, task: dict) -> None:
        """Its author did not lose it: if the answer to the report was lost, this says what it was."""
        house.report(task)
        outcome = house.heartbeat(task)
        assert (outcome.verdict, outcome.lease_expires_ms) == (Verdict.COMMITTED, None)
        house.advance(LEASE_S)
        assert house.heartbeat(task) == outcome

    def test_after_a_discarded_report_it_is_cancelled(self, house: House, task: dict) -> None:
        house.advance(LEASE_S)
        assert house.report(task).verdict is Verdict.CANCELLED
        assert house.heartbeat(task).verdict is Verdict.CANCELLED

    def test_with_an_unknown_lease_is_rejected(self, house: House, task: dict) -> None:
        assert house.heartbeat({**task, "leaseId": "ff-00"}).verdict is Verdict.REJECTED


class TestRetries:
    def test_a_failure_is_told_with_task_lease_and_reason(self, house: House, task: dict) -> None:
        house.report(task, "FAILED", reasonForIncompletion="no paper")
        assert house.task(task["taskId"])["reasonForIncompletion"] == "no paper"

    def test_the_coordinator_decides_on_a_retry(self, house: House, task: dict) -> None:
        house.report(task, "FAILED")
        assert house.poll_one()["retriedTaskId"] == task["taskId"]

    def test_a_terminal_failure_is_not_retried(self, house: House, task: dict) -> None:
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
    def test_a_repeated_report_is_told_the_same_and_does_nothing(self, house: House, task: dict, status: str) -> None:
        first = house.report(task, status, reportId="r1")
        state = house.workflow(task["workflowInstanceId"])
        again = house.report(task, status, reportId="r1")
        assert (first.verdict, again.verdict) == (Verdict.COMMITTED, Verdict.COMMITTED)
        assert house.workflow(task["workflowInstanceId"]) == state

    def test_without_a_report_id_the_content_decides(self, house: House, task: dict) -> None:
        assert house.report(task, outputData={"a": 1}).verdict is Verdict.COMMITTED
        assert house.report(task, outputData={"a": 1}).verdict is Verdict.COMMITTED
        assert house.report(task, outputData={"a": 2}).verdict is Verdict.REJECTED

    def test_a_hand_back_stays_told_after_the_task_was_delivered_again(self, house: House, task: dict) -> None:
        house.report(task, "IN_PROGRESS", reportId="back")
        second = house.poll_one(worker="w2")
        assert house.report(task, "IN_PROGRESS", reportId="back").verdict is Verdict.COMMITTED
        assert house.task(second["taskId"])["workerId"] == "w2", "the repeated report took nothing from the new holder"


class TestHandBack:
    def test_ends_the_lease_and_queues_the_same_task(self, house: House, task: dict) -> None:
        assert house.report(task, "IN_PROGRESS", callbackAfterSeconds=30).verdict is Verdict.COMMITTED
        assert house.poll() == []
        assert house.report(task, reportId="other").verdict is Verdict.REJECTED
        house.advance(30)
        again = house.poll_one(worker="w2")
        assert again["taskId"] == task["taskId"]
        assert again["pollCount"] == 2
        assert again["callbackAfterSeconds"] == 0

    def test_waiting_for_its_callback_it_does_not_time_out(self, house: House, task: dict) -> None:
        house.report(task, "IN_PROGRESS", callbackAfterSeconds=LEASE_S * 5)
        house.advance(LEASE_S * 4)
        assert house.task(task["taskId"])["status"] == "SCHEDULED"


class TestClientsWithoutLeases:
    """Every other Conductor SDK: judged by the task and who they say they are, answered as Conductor answers."""

    def send(self, house: House, task: dict, status: str | None = "COMPLETED", **fields: object) -> tuple:
        plain = {key: value for key, value in task.items() if key != "leaseId"}
        outcome = house.report(plain, status, **fields)
        return outcome.verdict, outcome.status

    def test_the_holder_completes(self, house: House, task: dict) -> None:
        assert self.send(house, task) == (None, 200)
        assert house.task(task["taskId"])["status"] == "COMPLETED"

    def test_a_late_result_is_200_and_has_no_effect(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S)
        assert self.send(house, task) == (None, 200)
        house.tick()
        assert house.task(task["taskId"])["status"] == "TIMED_OUT"

    def test_another_worker_is_200_and_has_no_effect(self, house: House, task: dict) -> None:
        assert self.send(house, task, workerId="w2") == (None, 200)
        assert house.task(task["taskId"])["status"] == "IN_PROGRESS"

    def test_an_unpolled_task_can_be_completed(self, house: House) -> None:
        workflow = house.start_one()
        (waiting,) = house.workflow(workflow)["tasks"]
        assert self.send(house, waiting) == (None, 200)
        assert house.workflow(workflow)["status"] == "COMPLETED"
        assert house.poll() == []

    def test_extend_lease_is_200_for_a_terminal_task(self, house: House, task: dict) -> None:
        self.send(house, task)
        assert self.send(house, task, None, extendLease=True) == (None, 200)

    def test_extend_lease_extends(self, house: House, task: dict) -> None:
        house.clock.advance(LEASE_S - 1)
        self.send(house, task, None, extendLease=True)
        house.advance(LEASE_S - 1)
        assert house.task(task["taskId"])["status"] == "IN_PROGRESS"

    def test_an_unknown_task_is_404(self, house: House, task: dict) -> None:
        assert self.send(house, {**task, "taskId": "nope"}) == (None, 404)

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
