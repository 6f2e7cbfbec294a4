"""Retries, timeouts, limits, domains and priorities: on time, on a clock that the tests turn."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from house import House, simple

from conductor.coordinator.workflows import workflow_actions as workflow_actions


def attempts(house: House, workflow: str) -> list[str]:
    return [task["status"] for task in house.workflow(workflow)["tasks"]]


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
    def test_each_policy_to_the_second(self, house: House, policy: dict[str, Any], delays_s: list[int]) -> None:
        house.start_one(task_def={"retryCount": 3, "retryDelaySeconds": 5, **policy})
        for delay_s in delays_s:
            house.report(house.poll_one(), "FAILED")
            house.advance(delay_s - 0.001)
            assert house.poll() == []
            house.clock.advance(0.001)
            task = house.poll()
            assert len(task) == 1
            house.report(task[0], "IN_PROGRESS")

    def test_jitter_only_adds(self, house: House) -> None:
        house.start_one(task_def={"retryDelaySeconds": 5, "backoffJitterMs": 1000})
        house.report(house.poll_one(), "FAILED")
        house.advance(4.999)
        assert house.poll() == []
        house.advance(1.001)
        assert len(house.poll()) == 1

    def test_the_retry_is_a_new_task_that_names_the_old(self, house: House) -> None:
        workflow = house.start_one(task_def={"retryDelaySeconds": 5})
        first = house.poll_one()
        house.report(first, "FAILED", reasonForIncompletion="ink")
        old, new = house.workflow(workflow)["tasks"]
        assert new["taskId"] != old["taskId"]
        assert new["retriedTaskId"] == old["taskId"]
        assert (old["retried"], new["retried"]) == (True, False)
        assert (new["retryCount"], new["pollCount"], new["seq"]) == (1, 0, 2)
        assert (new["callbackAfterSeconds"], new["startDelayInSeconds"]) == (5, 5)
        assert new["reasonForIncompletion"] == "ink"


class TestTimeouts:
    def test_response_timeout_is_always_retried(self, house: House) -> None:
        workflow = house.start_one(task_def={"responseTimeoutSeconds": 10, "timeoutPolicy": "TIME_OUT_WF"})
        house.poll_one()
        house.advance(10)
        assert attempts(house, workflow) == ["TIMED_OUT", "SCHEDULED"]
        assert "responseTimeout: 10" in house.workflow(workflow)["tasks"][0]["reasonForIncompletion"]

    def test_task_timeout_ends_the_workflow(self, house: House) -> None:
        workflow = house.start_one(task_def={"timeoutSeconds": 20, "responseTimeoutSeconds": 20})
        task = house.poll_one()
        house.clock.advance(15)
        house.heartbeat(task)
        house.advance(5)
        found = house.workflow(workflow)
        assert (found["status"], attempts(house, workflow)) == ("TIMED_OUT", ["TIMED_OUT"])

    def test_task_timeout_with_retry(self, house: House) -> None:
        workflow = house.start_one(
            task_def={"timeoutSeconds": 20, "responseTimeoutSeconds": 20, "timeoutPolicy": "RETRY"}
        )
        task = house.poll_one()
        house.clock.advance(15)
        house.heartbeat(task)
        house.advance(5)
        assert attempts(house, workflow) == ["TIMED_OUT", "SCHEDULED"]

    def test_task_timeout_that_alerts_is_logged_once(self, house: House, caplog: pytest.LogCaptureFixture) -> None:
        house.start_one(task_def={"timeoutSeconds": 20, "responseTimeoutSeconds": 20, "timeoutPolicy": "ALERT_ONLY"})
        task = house.poll_one()
        house.clock.advance(15)
        house.heartbeat(task)
        with caplog.at_level(logging.WARNING):
            house.advance(5)
            house.advance(5)
        assert [record.message.count("ALERT_ONLY") for record in caplog.records] == [1]
        assert house.task(task["taskId"])["status"] == "IN_PROGRESS"

    def test_poll_timeout(self, house: House) -> None:
        workflow = house.start_one(task_def={"pollTimeoutSeconds": 30, "timeoutPolicy": "RETRY"})
        house.advance(29.999)
        assert attempts(house, workflow) == ["SCHEDULED"]
        house.advance(0.001)
        assert attempts(house, workflow) == ["TIMED_OUT", "SCHEDULED"]

    def test_a_polled_task_has_no_poll_timeout(self, house: House) -> None:
        workflow = house.start_one(task_def={"pollTimeoutSeconds": 30})
        house.poll_one()
        house.advance(31)
        assert attempts(house, workflow) == ["IN_PROGRESS"]

    def test_total_timeout_counts_over_all_attempts(self, house: House) -> None:
        workflow = house.start_one(task_def={"totalTimeoutSeconds": 60, "retryDelaySeconds": 0, "retryCount": 99})
        house.report(house.poll_one(), "FAILED")
        house.clock.advance(59)
        house.poll_one()
        house.advance(1)
        assert house.workflow(workflow)["status"] == "TIMED_OUT"

    def test_workflow_timeout(self, house: House) -> None:
        house.workflow_def("flow", simple("work"), timeoutSeconds=100, timeoutPolicy="TIME_OUT_WF")
        workflow = house.start()
        task = house.poll_one()
        house.advance(99.999)
        assert house.workflow(workflow)["status"] == "RUNNING"
        house.advance(0.001)
        assert house.workflow(workflow)["status"] == "TIMED_OUT"
        assert house.task(task["taskId"])["status"] == "CANCELED"

    def test_workflow_timeout_that_alerts(self, house: House) -> None:
        house.workflow_def("flow", simple("work"), timeoutSeconds=100)
        workflow = house.start()
        house.advance(100)
        assert house.workflow(workflow)["status"] == "RUNNING"
        assert house.tick() is None, "an alert is given once, not for ever"

    def test_a_wait_task_ends_on_time(self, house: House) -> None:
        house.workflow_def(
            "flow",
            {
                "name": "wait",
                "taskReferenceName": "wait",
                "type": "WAIT",
                "inputParameters": {"duration": "10 seconds"},
            },
            simple("work"),
        )
        house.start()
        house.advance(9.999)
        assert house.poll() == []
        house.advance(0.001)
        assert len(house.poll()) == 1


class TestDeadlines:
    @pytest.mark.timeout(240)  # 5 s of work, on machines that may be busy with other things
    def test_10000_leases_are_acted_on_at_the_first_tick_each_examined_once(self, house: House) -> None:
        house.workflow_def("flow", simple("work"))
        house.task_def("work", responseTimeoutSeconds=10, retryCount=0)

        def start_all(tx: object) -> None:
            from conductor.coordinator.workflows.effects import Start

            for _ in range(10_000):
                house.core.executions.start(tx, Start(name="flow"))  # type: ignore[arg-type]

        house.store.call(start_all)
        for _ in range(100):
            house.poll(count=100)
        examined = 0
        expire = house.core.queue.expire

        def counting(*args: Any) -> object:
            nonlocal examined
            examined += 1
            return expire(*args)

        house.core.queue.expire = counting  # type: ignore[method-assign, assignment]
        house.clock.advance(9.999)
        assert house.tick() == house.clock.wall_ms() + 1, "nothing is due, and the timer knows when"
        assert examined == 0
        house.clock.advance(0.001)
        while (again := house.tick()) is not None and again <= house.clock.wall_ms():
            pass
        assert examined == 10_000
        assert again is None
        assert (
            house.store.call(
                lambda tx: tx.matching("running workflows", {"name": "flow", "version": None, "from": 0, "to": 2**62})
            )
            == []
        )


class TestLimits:
    def test_concurrency_is_exact(self, house: House) -> None:
        house.task_def("work", concurrentExecLimit=2)
        for _ in range(5):
            house.start_one()
        first, second = house.poll(count=5)
        assert house.poll(count=5) == []
        house.report(first)
        assert len(house.poll(count=5)) == 1
        house.report(second, "IN_PROGRESS", callbackAfterSeconds=60)
        assert len(house.poll(count=5)) == 1, "a task handed back does not count"

    def test_a_freed_slot_wakes_a_poll_at_once(self, house: House) -> None:
        house.task_def("work", concurrentExecLimit=1)
        house.start_one()
        house.start_one()
        task = house.poll_one()
        house.notes.clear()
        house.report(task)
        assert house.notes[-1].ready == {("work", ""): 1}

    def test_an_expired_lease_frees_its_slot(self, house: House) -> None:
        house.task_def("work", concurrentExecLimit=1, responseTimeoutSeconds=10, retryDelaySeconds=60)
        house.start_one()
        house.start_one()
        house.poll_one()
        house.advance(10)
        assert len(house.poll(count=5)) == 1

    def test_p40_the_rate_limit_is_enforced_and_opens_exactly_with_its_window(self, house: House) -> None:
        house.task_def("work", rateLimitPerFrequency=2, rateLimitFrequencyInSeconds=10)
        for _ in range(5):
            house.start_one()
        assert len(house.poll(count=5)) == 2
        house.clock.advance(4)
        assert house.poll(count=5) == []
        house.clock.advance(5.999)
        assert house.poll(count=5) == []
        house.clock.advance(0.001)
        assert len(house.poll(count=5)) == 2

    def test_p40_the_window_slides(self, house: House) -> None:
        house.task_def("work", rateLimitPerFrequency=2, rateLimitFrequencyInSeconds=10)
        for _ in range(5):
            house.start_one()
        house.poll_one()
        house.clock.advance(6)
        house.poll_one()
        house.clock.advance(4)
        assert len(house.poll(count=5)) == 1, "only the first start has left the window"

    def test_p40_the_timer_is_set_on_the_moment_the_window_opens(self, house: House) -> None:
        house.task_def("work", rateLimitPerFrequency=1, rateLimitFrequencyInSeconds=10)
        house.start_one()
        house.start_one()
        house.poll_one()
        assert house.tick() == house.clock.wall_ms() + 10_000
        house.clock.advance(10)
        house.notes.clear()
        house.tick()
        assert house.notes[-1].ready == {("work", ""): 1}

    def test_a_limit_of_one_type_holds_no_other(self, house: House) -> None:
        house.task_def("work", concurrentExecLimit=1)
        house.start_one()
        house.start_one("other")
        house.poll_one()
        assert len(house.poll("other")) == 1


class TestQueueOrder:
    def test_first_come_first_served(self, house: House) -> None:
        ids = [house.start_one() for _ in range(3)]
        assert [task["workflowInstanceId"] for task in house.poll(count=3)] == ids

    def test_priority_comes_first(self, house: House) -> None:
        ids = {priority: house.start_one(priority=priority) for priority in (0, 5, 99, 50)}
        assert [task["workflowInstanceId"] for task in house.poll(count=4)] == [ids[99], ids[50], ids[5], ids[0]]

    def test_a_task_handed_back_again_and_again_does_not_starve_the_others(self, house: House) -> None:
        house.start_one()
        house.report(house.poll_one(), "IN_PROGRESS")
        house.clock.advance(0.001)
        other = house.start_one()
        house.clock.advance(0.001)
        house.report(house.poll_one(), "IN_PROGRESS")
        assert house.poll_one()["workflowInstanceId"] == other

    def test_start_delay(self, house: House) -> None:
        house.workflow_def("flow", simple("work", startDelay=20))
        house.start()
        house.advance(19.999)
        assert house.poll() == []
        house.advance(0.001)
        assert len(house.poll()) == 1


class TestDomains:
    def test_a_domain_is_a_queue_of_its_own(self, house: House) -> None:
        house.start_one(task_to_domain={"work": "blue"})
        assert house.poll() == []
        assert house.poll_one(domain="blue")["domain"] == "blue"

    def test_the_first_domain_with_workers_else_the_last(self, house: House) -> None:
        house.core.poll_data.note("work", "green", "w", house.clock.wall_ms())
        house.start_one(task_to_domain={"*": "blue, green, red"})
        assert len(house.poll(domain="green")) == 1
        house.clock.advance(11)
        house.start_one(task_to_domain={"*": "blue, green, NO_DOMAIN"})
        assert len(house.poll()) == 1

    def test_a_retry_stays_in_its_domain(self, house: House) -> None:
        house.start_one(task_def={"retryDelaySeconds": 0}, task_to_domain={"work": "blue"})
        house.report(house.poll_one(domain="blue"), "FAILED")
        assert len(house.poll(domain="blue")) == 1


class TestPause:
    def test_a_paused_workflow_schedules_nothing_and_accepts_reports(self, house: House) -> None:
        house.workflow_def("flow", simple("a"), simple("b"))
        workflow = house.start()
        task = house.poll_one("a")
        house.act(workflow, workflow_actions.pause)
        house.report(task)
        assert house.poll("b") == []
        house.act(workflow, workflow_actions.resume)
        assert len(house.poll("b")) == 1


class TestRequeue:
    def test_every_open_task_becomes_pollable_and_old_leases_end(self, house: House) -> None:
        house.start_one()
        held = house.poll_one()
        assert house.store.call(lambda tx: len(house.core.queue.requeue_some(tx, "work"))) == 1
        again = house.poll_one(worker="w2")
        assert again["taskId"] == held["taskId"]
        assert house.report(held).verdict == "CANCELLED"
        assert house.report(again).verdict == "COMMITTED"


def test_a_terminated_workflow_leaves_nothing_in_the_queue(house: House) -> None:
    workflow = house.start_one()
    house.act(workflow, workflow_actions.terminate, reason="why")
    assert house.poll() == []
    found = house.workflow(workflow)
    assert (found["status"], found["reasonForIncompletion"]) == ("TERMINATED", "why")
    assert attempts(house, workflow) == ["CANCELED"]


def test_retry_of_a_failed_workflow_makes_a_new_attempt(house: House) -> None:
    workflow = house.start_one(task_def={"retryCount": 0})
    house.report(house.poll_one(), "FAILED")
    assert house.workflow(workflow)["status"] == "FAILED"
    house.act(workflow, workflow_actions.retry)
    house.report(house.poll_one())
    assert house.workflow(workflow)["status"] == "COMPLETED"


def test_restart_begins_again_under_the_same_id(house: House) -> None:
    workflow = house.start_one()
    house.report(house.poll_one())
    house.act(workflow, workflow_actions.restart)
    assert attempts(house, workflow) == ["SCHEDULED"]
    house.report(house.poll_one())
    assert house.workflow(workflow)["status"] == "COMPLETED"


def test_a_sub_workflow_moves_its_parent(house: House) -> None:
    house.workflow_def("child", simple("work"), outputParameters={"n": "${work.output.n}"})
    sub = {
        "name": "child",
        "taskReferenceName": "sub",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "child", "version": 1},
    }
    house.workflow_def("parent", sub, simple("after", inputParameters={"n": "${sub.output.n}"}))
    parent = house.start("parent")
    task = house.poll_one()
    assert task["workflowInstanceId"] != parent
    house.report(task, outputData={"n": 3})
    assert house.poll_one("after")["inputData"] == {"n": 3}


def test_terminating_a_parent_terminates_its_child(house: House) -> None:
    house.workflow_def("child", simple("work"))
    sub = {"name": "c", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "child"}}
    house.workflow_def("parent", sub)
    parent = house.start("parent")
    task = house.poll_one()
    house.act(parent, workflow_actions.terminate, reason="why")
    assert house.workflow(task["workflowInstanceId"])["status"] == "TERMINATED"
    assert house.report(task).verdict == "CANCELLED"


def test_a_failure_workflow_is_started(house: House) -> None:
    house.workflow_def("cleanup", simple("clean", inputParameters={"why": "${workflow.input.reason}"}))
    house.workflow_def("flow", simple("work"), failureWorkflow="cleanup")
    workflow = house.start()
    house.report(house.poll_one(), "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="fire")
    cleaning = house.poll_one("clean")
    assert "fire" in cleaning["inputData"]["why"]
    output = house.workflow(workflow)["output"]
    assert output["conductor.failure_workflow"] == cleaning["workflowInstanceId"]


class TestIdempotentStart:
    def test_the_same_key_gives_the_same_workflow(self, house: House) -> None:
        first = house.start_one(idempotency_key="order-1")
        assert house.start_one(idempotency_key="order-1") == first

    def test_fail_says_that_it_exists(self, house: House) -> None:
        from conductor.coordinator.request_errors import ApiError

        house.start_one(idempotency_key="order-1")
        with pytest.raises(ApiError, match="order-1") as caught:
            house.start_one(idempotency_key="order-1", idempotency_strategy="FAIL")
        assert caught.value.status == 409
