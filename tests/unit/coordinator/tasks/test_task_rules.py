"""Retries, timeouts, limits, domains and priorities: on time, on a clock that the tests turn."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from conductor.coordinator.definitions.workflow_defs import check_workflow_def
from conductor.coordinator.store.statements import RUNNING_WORKFLOWS
from conductor.coordinator.workflows import workflow_actions as workflow_actions
from tests.unit.coordinator.core_harness import Harness, simple


def attempts(harness: Harness, workflow: str) -> list[str]:
    return [task["status"] for task in harness.workflow(workflow)["tasks"]]


class TestRetryDelay:
    @pytest.mark.parametrize(
        ("policy", "delays_s"),
        [
            ({"retryLogic": "FIXED"}, [5, 5, 5]),
            ({"retryLogic": "LINEAR_BACKOFF", "backoffScaleFactor": 2}, [10, 20, 30]),
            ({"retryLogic": "EXPONENTIAL_BACKOFF"}, [5, 10, 20]),
            ({"retryLogic": "EXPONENTIAL_BACKOFF", "maxRetryDelaySeconds": 7}, [5, 7, 7]),
        ],
    )
    def test_each_policy_to_the_second(self, harness: Harness, policy: dict[str, Any], delays_s: list[int]) -> None:
        harness.start_one(task_def={"retryCount": 3, "retryDelaySeconds": 5, **policy})
        for delay_s in delays_s:
            harness.report(harness.poll_one(), "FAILED")
            harness.advance(delay_s - 0.001)
            assert harness.poll() == []
            harness.clock.advance(0.001)
            task = harness.poll()
            assert len(task) == 1
            harness.report(task[0], "IN_PROGRESS")

    def test_jitter_only_adds_to_a_retry_delay(self, harness: Harness) -> None:
        harness.start_one(task_def={"retryDelaySeconds": 5, "backoffJitterMs": 1000})
        harness.report(harness.poll_one(), "FAILED")
        harness.advance(4.999)
        assert harness.poll() == []
        harness.advance(1.001)
        assert len(harness.poll()) == 1

    def test_the_retry_is_a_new_task_that_names_the_old(self, harness: Harness) -> None:
        workflow = harness.start_one(task_def={"retryDelaySeconds": 5})
        first = harness.poll_one()
        harness.report(first, "FAILED", reasonForIncompletion="ink")
        old, new = harness.workflow(workflow)["tasks"]
        assert new["taskId"] != old["taskId"]
        assert new["retriedTaskId"] == old["taskId"]
        assert (old["retried"], new["retried"]) == (True, False)
        assert (new["retryCount"], new["pollCount"], new["seq"]) == (1, 0, 2)
        assert (new["callbackAfterSeconds"], new["startDelayInSeconds"]) == (5, 5)
        assert new["reasonForIncompletion"] == "ink"


class TestTimeouts:
    def test_response_timeout_is_always_retried(self, harness: Harness) -> None:
        workflow = harness.start_one(task_def={"responseTimeoutSeconds": 10, "timeoutPolicy": "TIME_OUT_WF"})
        harness.poll_one()
        harness.advance(10)
        assert attempts(harness, workflow) == ["TIMED_OUT", "SCHEDULED"]
        assert "responseTimeout: 10" in harness.workflow(workflow)["tasks"][0]["reasonForIncompletion"]

    def test_task_timeout_ends_the_workflow(self, harness: Harness) -> None:
        workflow = harness.start_one(task_def={"timeoutSeconds": 20, "responseTimeoutSeconds": 20})
        task = harness.poll_one()
        harness.clock.advance(15)
        harness.heartbeat(task)
        harness.advance(5)
        found = harness.workflow(workflow)
        assert (found["status"], attempts(harness, workflow)) == ("TIMED_OUT", ["TIMED_OUT"])

    def test_a_task_timeout_with_retry_schedules_the_next_attempt(self, harness: Harness) -> None:
        workflow = harness.start_one(
            task_def={"timeoutSeconds": 20, "responseTimeoutSeconds": 20, "timeoutPolicy": "RETRY"}
        )
        task = harness.poll_one()
        harness.clock.advance(15)
        harness.heartbeat(task)
        harness.advance(5)
        assert attempts(harness, workflow) == ["TIMED_OUT", "SCHEDULED"]

    def test_task_timeout_that_alerts_is_logged_once(self, harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
        harness.start_one(task_def={"timeoutSeconds": 20, "responseTimeoutSeconds": 20, "timeoutPolicy": "ALERT_ONLY"})
        task = harness.poll_one()
        harness.clock.advance(15)
        harness.heartbeat(task)
        with caplog.at_level(logging.WARNING):
            harness.advance(5)
            harness.advance(5)
        assert [record.message.count("ALERT_ONLY") for record in caplog.records] == [1]
        assert harness.task(task["taskId"])["status"] == "IN_PROGRESS"

    def test_a_task_that_is_not_polled_in_time_times_out(self, harness: Harness) -> None:
        workflow = harness.start_one(task_def={"pollTimeoutSeconds": 30, "timeoutPolicy": "RETRY"})
        harness.advance(29.999)
        assert attempts(harness, workflow) == ["SCHEDULED"]
        harness.advance(0.001)
        assert attempts(harness, workflow) == ["TIMED_OUT", "SCHEDULED"]

    def test_a_polled_task_has_no_poll_timeout(self, harness: Harness) -> None:
        workflow = harness.start_one(task_def={"pollTimeoutSeconds": 30})
        harness.poll_one()
        harness.advance(31)
        assert attempts(harness, workflow) == ["IN_PROGRESS"]

    def test_total_timeout_counts_over_all_attempts(self, harness: Harness) -> None:
        workflow = harness.start_one(task_def={"totalTimeoutSeconds": 60, "retryDelaySeconds": 0, "retryCount": 99})
        harness.report(harness.poll_one(), "FAILED")
        harness.clock.advance(59)
        harness.poll_one()
        harness.advance(1)
        assert harness.workflow(workflow)["status"] == "TIMED_OUT"

    def test_a_workflow_that_takes_too_long_times_out(self, harness: Harness) -> None:
        harness.workflow_def("flow", simple("work"), timeoutSeconds=100, timeoutPolicy="TIME_OUT_WF")
        workflow = harness.start()
        task = harness.poll_one()
        harness.advance(99.999)
        assert harness.workflow(workflow)["status"] == "RUNNING"
        harness.advance(0.001)
        assert harness.workflow(workflow)["status"] == "TIMED_OUT"
        assert harness.task(task["taskId"])["status"] == "CANCELED"

    def test_workflow_timeout_that_alerts(self, harness: Harness) -> None:
        harness.workflow_def("flow", simple("work"), timeoutSeconds=100)
        workflow = harness.start()
        harness.advance(100)
        assert harness.workflow(workflow)["status"] == "RUNNING"
        assert harness.tick() is None, "an alert is given once, not for ever"

    def test_a_wait_task_ends_on_time(self, harness: Harness) -> None:
        harness.workflow_def(
            "flow",
            {
                "name": "wait",
                "taskReferenceName": "wait",
                "type": "WAIT",
                "inputParameters": {"duration": "10 seconds"},
            },
            simple("work"),
        )
        harness.start()
        harness.advance(9.999)
        assert harness.poll() == []
        harness.advance(0.001)
        assert len(harness.poll()) == 1


class TestDeadlines:
    @pytest.mark.timeout(240)  # 5 s of work, on machines that may be busy with other things
    def test_10000_leases_are_acted_on_at_the_first_tick_each_examined_once(self, harness: Harness) -> None:
        harness.workflow_def("flow", simple("work"))
        harness.task_def("work", responseTimeoutSeconds=10, retryCount=0)

        def start_all(tx: object) -> None:
            from conductor.coordinator.workflows.effects import Start

            for _ in range(10_000):
                harness.core.workflows.executions.start(tx, Start(name="flow"))  # type: ignore[arg-type]

        harness.store.call(start_all)
        for _ in range(100):
            harness.poll(count=100)
        examined = 0
        expire = harness.core._queue.apply_deadlines

        def counting(*args: Any) -> object:
            nonlocal examined
            examined += 1
            return expire(*args)

        harness.core._queue.apply_deadlines = counting  # type: ignore[method-assign, assignment]
        harness.clock.advance(9.999)
        assert harness.tick() == harness.clock.wall_ms() + 1, "nothing is due, and the timer knows when"
        assert examined == 0
        harness.clock.advance(0.001)
        while (again := harness.tick()) is not None and again <= harness.clock.wall_ms():
            pass
        assert examined == 10_000
        assert again is None
        assert (
            harness.store.call(
                lambda tx: tx.rows(RUNNING_WORKFLOWS, **{"name": "flow", "version": None, "from": 0, "to": 2**62})
            )
            == []
        )


class TestLimits:
    def test_the_concurrency_limit_is_exact(self, harness: Harness) -> None:
        harness.task_def("work", concurrentExecLimit=2)
        for _ in range(5):
            harness.start_one()
        first, second = harness.poll(count=5)
        assert harness.poll(count=5) == []
        harness.report(first)
        assert len(harness.poll(count=5)) == 1
        harness.report(second, "IN_PROGRESS", callbackAfterSeconds=60)
        assert len(harness.poll(count=5)) == 1, "a task handed back does not count"

    def test_a_freed_slot_wakes_a_poll_at_once(self, harness: Harness) -> None:
        harness.task_def("work", concurrentExecLimit=1)
        harness.start_one()
        harness.start_one()
        task = harness.poll_one()
        harness.notes.clear()
        harness.report(task)
        assert harness.notes[-1].ready == {("work", ""): 1}

    def test_an_expired_lease_frees_its_slot(self, harness: Harness) -> None:
        harness.task_def("work", concurrentExecLimit=1, responseTimeoutSeconds=10, retryDelaySeconds=60)
        harness.start_one()
        harness.start_one()
        harness.poll_one()
        harness.advance(10)
        assert len(harness.poll(count=5)) == 1

    def test_p40_the_rate_limit_is_enforced_and_opens_exactly_with_its_window(self, harness: Harness) -> None:
        harness.task_def("work", rateLimitPerFrequency=2, rateLimitFrequencyInSeconds=10)
        for _ in range(5):
            harness.start_one()
        assert len(harness.poll(count=5)) == 2
        harness.clock.advance(4)
        assert harness.poll(count=5) == []
        harness.clock.advance(5.999)
        assert harness.poll(count=5) == []
        harness.clock.advance(0.001)
        assert len(harness.poll(count=5)) == 2

    def test_p40_the_window_slides(self, harness: Harness) -> None:
        harness.task_def("work", rateLimitPerFrequency=2, rateLimitFrequencyInSeconds=10)
        for _ in range(5):
            harness.start_one()
        harness.poll_one()
        harness.clock.advance(6)
        harness.poll_one()
        harness.clock.advance(4)
        assert len(harness.poll(count=5)) == 1, "only the first start has left the window"

    def test_p40_the_timer_is_set_on_the_moment_the_window_opens(self, harness: Harness) -> None:
        harness.task_def("work", rateLimitPerFrequency=1, rateLimitFrequencyInSeconds=10)
        harness.start_one()
        harness.start_one()
        harness.poll_one()
        assert harness.tick() == harness.clock.wall_ms() + 10_000
        harness.clock.advance(10)
        harness.notes.clear()
        harness.tick()
        assert harness.notes[-1].ready == {("work", ""): 1}

    def test_a_limit_of_one_type_holds_no_other(self, harness: Harness) -> None:
        harness.task_def("work", concurrentExecLimit=1)
        harness.start_one()
        harness.start_one("other")
        harness.poll_one()
        assert len(harness.poll("other")) == 1


class TestQueueOrder:
    def test_first_come_first_served(self, harness: Harness) -> None:
        ids = [harness.start_one() for _ in range(3)]
        assert [task["workflowInstanceId"] for task in harness.poll(count=3)] == ids

    def test_a_higher_priority_is_polled_first(self, harness: Harness) -> None:
        ids = {priority: harness.start_one(priority=priority) for priority in (0, 5, 99, 50)}
        assert [task["workflowInstanceId"] for task in harness.poll(count=4)] == [ids[99], ids[50], ids[5], ids[0]]

    def test_a_task_handed_back_again_and_again_does_not_starve_the_others(self, harness: Harness) -> None:
        harness.start_one()
        harness.report(harness.poll_one(), "IN_PROGRESS")
        harness.clock.advance(0.001)
        other = harness.start_one()
        harness.clock.advance(0.001)
        harness.report(harness.poll_one(), "IN_PROGRESS")
        assert harness.poll_one()["workflowInstanceId"] == other

    def test_a_task_with_a_start_delay_is_not_polled_before(self, harness: Harness) -> None:
        harness.workflow_def("flow", simple("work", startDelay=20))
        harness.start()
        harness.advance(19.999)
        assert harness.poll() == []
        harness.advance(0.001)
        assert len(harness.poll()) == 1


class TestDomains:
    def test_a_domain_is_a_queue_of_its_own(self, harness: Harness) -> None:
        harness.start_one(task_to_domain={"work": "blue"})
        assert harness.poll() == []
        assert harness.poll_one(domain="blue")["domain"] == "blue"

    def test_the_first_domain_with_workers_else_the_last(self, harness: Harness) -> None:
        harness.core.tasks.poll_data.note("work", "green", "w", harness.clock.wall_ms())
        harness.start_one(task_to_domain={"*": "blue, green, red"})
        assert len(harness.poll(domain="green")) == 1
        harness.clock.advance(11)
        harness.start_one(task_to_domain={"*": "blue, green, NO_DOMAIN"})
        assert len(harness.poll()) == 1

    def test_a_retry_stays_in_its_domain(self, harness: Harness) -> None:
        harness.start_one(task_def={"retryDelaySeconds": 0}, task_to_domain={"work": "blue"})
        harness.report(harness.poll_one(domain="blue"), "FAILED")
        assert len(harness.poll(domain="blue")) == 1


class TestPause:
    def test_a_paused_workflow_schedules_nothing_and_accepts_reports(self, harness: Harness) -> None:
        harness.workflow_def("flow", simple("a"), simple("b"))
        workflow = harness.start()
        task = harness.poll_one("a")
        harness.act(workflow, workflow_actions.pause)
        harness.report(task)
        assert harness.poll("b") == []
        harness.act(workflow, workflow_actions.resume)
        assert len(harness.poll("b")) == 1


class TestRequeue:
    def test_every_open_task_becomes_pollable_and_old_leases_end(self, harness: Harness) -> None:
        harness.start_one()
        held = harness.poll_one()
        assert harness.store.call(lambda tx: len(harness.core._queue.requeue_batch(tx, "work"))) == 1
        again = harness.poll_one(worker="w2")
        assert again["taskId"] == held["taskId"]
        assert harness.report(held).verdict == "CANCELLED"
        assert harness.report(again).verdict == "COMMITTED"


def test_a_terminated_workflow_leaves_nothing_in_the_queue(harness: Harness) -> None:
    workflow = harness.start_one()
    harness.act(workflow, workflow_actions.terminate, reason="why")
    assert harness.poll() == []
    found = harness.workflow(workflow)
    assert (found["status"], found["reasonForIncompletion"]) == ("TERMINATED", "why")
    assert attempts(harness, workflow) == ["CANCELED"]


def test_retry_of_a_failed_workflow_makes_a_new_attempt(harness: Harness) -> None:
    workflow = harness.start_one(task_def={"retryCount": 0})
    harness.report(harness.poll_one(), "FAILED")
    assert harness.workflow(workflow)["status"] == "FAILED"
    harness.act(workflow, workflow_actions.retry)
    harness.report(harness.poll_one())
    assert harness.workflow(workflow)["status"] == "COMPLETED"


def test_restart_begins_again_under_the_same_id(harness: Harness) -> None:
    workflow = harness.start_one()
    harness.report(harness.poll_one())
    harness.act(workflow, workflow_actions.restart)
    assert attempts(harness, workflow) == ["SCHEDULED"]
    harness.report(harness.poll_one())
    assert harness.workflow(workflow)["status"] == "COMPLETED"


def test_a_sub_workflow_moves_its_parent(harness: Harness) -> None:
    harness.workflow_def("child", simple("work"), outputParameters={"n": "${work.output.n}"})
    sub = {
        "name": "child",
        "taskReferenceName": "sub",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "child", "version": 1},
    }
    harness.workflow_def("parent", sub, simple("after", inputParameters={"n": "${sub.output.n}"}))
    parent = harness.start("parent")
    task = harness.poll_one()
    assert task["workflowInstanceId"] != parent
    harness.report(task, outputData={"n": 3})
    assert harness.poll_one("after")["inputData"] == {"n": 3}


def test_terminating_a_parent_terminates_its_child(harness: Harness) -> None:
    harness.workflow_def("child", simple("work"))
    sub = {"name": "c", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "child"}}
    harness.workflow_def("parent", sub)
    parent = harness.start("parent")
    task = harness.poll_one()
    harness.act(parent, workflow_actions.terminate, reason="why")
    assert harness.workflow(task["workflowInstanceId"])["status"] == "TERMINATED"
    assert harness.report(task).verdict == "CANCELLED"


def test_a_failure_workflow_is_started(harness: Harness) -> None:
    harness.workflow_def("cleanup", simple("clean", inputParameters={"why": "${workflow.input.reason}"}))
    harness.workflow_def("flow", simple("work"), failureWorkflow="cleanup")
    workflow = harness.start()
    harness.report(harness.poll_one(), "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="fire")
    cleaning = harness.poll_one("clean")
    assert "fire" in cleaning["inputData"]["why"]
    output = harness.workflow(workflow)["output"]
    assert output["conductor.failure_workflow"] == cleaning["workflowInstanceId"]


class TestIdempotentStart:
    def test_the_same_key_gives_the_same_workflow(self, harness: Harness) -> None:
        first = harness.start_one(idempotency_key="order-1")
        assert harness.start_one(idempotency_key="order-1") == first

    def test_the_key_of_an_inline_definition_belongs_to_the_name_of_the_definition(self, harness: Harness) -> None:
        inline = check_workflow_def({"name": "inline", "tasks": [simple("work")]})
        first = harness.start("request", workflow_def=inline, idempotency_key="order-1")
        assert harness.start("another", workflow_def=inline, idempotency_key="order-1") == first

    def test_fail_says_that_it_exists(self, harness: Harness) -> None:
        from conductor.coordinator.request_errors import ApiError

        harness.start_one(idempotency_key="order-1")
        with pytest.raises(ApiError, match="order-1") as caught:
            harness.start_one(idempotency_key="order-1", idempotency_strategy="FAIL")
        assert caught.value.status == 409
