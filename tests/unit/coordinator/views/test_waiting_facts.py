"""Why a task or workflow waits: one sentence for each reason, from real rows on a clock that the test turns."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.views.waiting_facts import explain_task, explain_workflow
from conductor.coordinator.workflows import workflow_actions
from conductor.protocol import why_waiting
from conductor.protocol.why_waiting import QueueFacts, TaskFacts, Waiting, find_own_reason, format_duration
from tests.unit.coordinator.core_harness import Harness, simple


def why(harness: Harness, workflow_id: str) -> Waiting:
    polls = harness.core.tasks.list_polls()
    return harness.store.call(lambda tx: explain_workflow(tx, harness.core.reader.snapshots, polls, workflow_id))


def why_task(harness: Harness, task_id: str) -> Waiting:
    polls = harness.core.tasks.list_polls()
    return harness.store.call(lambda tx: explain_task(tx, harness.core.reader.snapshots, polls, task_id))


def polled(harness: Harness, name: str = "work", domain: str = "", worker: str = "w1") -> None:
    """A worker has just asked for work."""
    harness.core.tasks.poll_data.note(name, domain, worker, harness.clock.wall_ms())


def a_task(harness: Harness, workflow_id: str, ref: str = "work") -> dict[str, Any]:
    found = [task for task in harness.workflow(workflow_id)["tasks"] if task["referenceTaskName"] == ref]
    return dict(found[-1])


class TestNobodyPolls:
    def test_no_worker_has_polled_since_the_server_started(self, harness: Harness) -> None:
        started = harness.start_one()
        harness.clock.advance(40)
        found = why(harness, started)
        assert found.sentence == (
            "work waits for a worker: no worker has polled work since the server started 40 s ago"
        )
        assert found.kind == "unpolled"
        assert found.urgent
        assert found.remedy == "Start a worker that polls work, without a domain."

    def test_no_worker_polls_any_more(self, harness: Harness) -> None:
        started = harness.start_one()
        polled(harness, worker="host-1")
        harness.clock.advance(720)
        assert why(harness, started).sentence == (
            "work waits for a worker: no worker has polled work for 12 min (last: host-1)"
        )

    def test_no_worker_polls_in_this_domain(self, harness: Harness) -> None:
        started = harness.start_one(task_to_domain={"work": "gpu"})
        polled(harness)
        polled(harness, domain="cpu")
        found = why(harness, started)
        assert found.kind == "domain"
        assert found.sentence == (
            "work waits for a worker: no worker polls queue work in domain gpu; "
            "workers of work poll in no domain and domain cpu"
        )
        assert found.remedy == "Start a worker of work with domain gpu, or start workflows without taskToDomain."

    def test_no_worker_polls_because_all_are_busy(self, harness: Harness) -> None:
        harness.start_one()
        started = harness.start_one()
        polled(harness)
        harness.poll_one()
        harness.clock.advance(60)
        found = why(harness, started)
        assert found.kind == "busy"
        assert not found.urgent
        assert found.sentence == (
            "work waits for a free worker: those of queue work run 1 task and have not polled for 60 s"
        )


class TestLimits:
    def test_a_task_waits_for_the_concurrency_limit(self, harness: Harness) -> None:
        harness.start_one(task_def={"concurrentExecLimit": 1})
        started = harness.start_one()
        polled(harness)
        harness.poll_one()
        found = why(harness, started)
        assert found.kind == "concurrency"
        assert found.sentence == "work waits: the limit of 1 concurrent tasks is reached (1 running)"

    def test_a_task_waits_for_the_rate_limit(self, harness: Harness) -> None:
        harness.start_one(task_def={"rateLimitPerFrequency": 1, "rateLimitFrequencyInSeconds": 60})
        started = harness.start_one()
        polled(harness)
        harness.report(harness.poll_one())
        found = why(harness, started)
        assert found.kind == "rate"
        assert found.sentence.startswith(
            "work waits: the rate limit of 1 in 60 s is reached; the next task may start at "
        )
        assert found.until_ms == harness.clock.wall_ms() + 60_000

    def test_a_window_that_is_open_again_holds_nothing_back(self, harness: Harness) -> None:
        harness.start_one(task_def={"rateLimitPerFrequency": 1, "rateLimitFrequencyInSeconds": 60})
        started = harness.start_one()
        harness.report(harness.poll_one())
        harness.clock.advance(61)
        polled(harness)
        assert why(harness, started).kind == "queued"


class TestTime:
    def test_a_task_waits_for_its_next_attempt(self, harness: Harness) -> None:
        started = harness.start_one(task_def={"retryCount": 3, "retryDelaySeconds": 14})
        harness.report(harness.poll_one(), "FAILED", reasonForIncompletion="ConnectionError: refused")
        found = why(harness, started)
        assert found.kind == "retry"
        assert found.sentence.startswith("work waits for retry 1 of 3 at ")
        assert found.sentence.endswith("UTC (in 14 s): ConnectionError: refused")

    def test_a_task_waits_after_its_worker_handed_it_back(self, harness: Harness) -> None:
        started = harness.start_one()
        harness.report(harness.poll_one(), "IN_PROGRESS", callbackAfterSeconds=30)
        found = why(harness, started)
        assert found.kind == "callback"
        assert "was postponed by its worker until " in found.sentence
        assert "(in 30 s)" in found.sentence

    def test_the_death_of_its_worker_process_a14(self, harness: Harness) -> None:
        """While the task waits to run again, and after it has ended, the sentence names the cause."""
        started = harness.start_one(task_def={"retryCount": 1, "retryDelaySeconds": 0})
        cause = "the worker process was killed by SIGKILL (out of memory?) while it executed this task"
        harness.report(harness.poll_one(), "IN_PROGRESS", reasonForIncompletion=cause, callbackAfterSeconds=0)
        polled(harness)
        found = why(harness, started)
        assert (found.kind, found.sentence) == ("crashed", f"work waits to run again: {cause}")
        harness.report(harness.poll_one(), "FAILED", reasonForIncompletion=cause)
        assert why(harness, started).sentence == f"work waits to run again: {cause}"
        harness.clock.advance(60)
        assert "; no worker has polled work for 60 s" in why(harness, started).sentence
        harness.report(harness.poll_one(), "FAILED", reasonForIncompletion=cause)
        found = why(harness, started)
        assert found.sentence == f"work is out of retries: attempt 2 of 2 failed: {cause}"
        assert found.remedy is not None and "memory ran out" in found.remedy

    def test_a_start_that_is_delayed(self, harness: Harness) -> None:
        harness.workflow_def("flow", simple("work", startDelay=90))
        found = why(harness, harness.start())
        assert found.kind == "delay"
        assert found.sentence.endswith("UTC (in 90 s), after its start delay")

    def test_a_wait_until_a_time(self, harness: Harness) -> None:
        harness.workflow_def(
            "flow",
            {"name": "pause", "taskReferenceName": "pause", "type": "WAIT", "inputParameters": {"duration": "5m"}},
        )
        found = why(harness, harness.start())
        assert found.kind == "until"
        assert found.sentence.startswith("pause waits until ")
        assert found.until_ms == harness.clock.wall_ms() + 300_000

    def test_a_wait_for_somebody(self, harness: Harness) -> None:
        harness.workflow_def("flow", {"name": "approve", "taskReferenceName": "approve", "type": "WAIT"})
        found = why(harness, harness.start())
        assert found.kind == "signal"
        assert found.sentence == "approve waits for a signal to complete it"
        assert found.remedy is not None


class TestWorkers:
    def test_the_lease_of_whom_and_until_when(self, harness: Harness) -> None:
        started = harness.start_one(task_def={"responseTimeoutSeconds": 600})
        taken = harness.poll_one(worker="host-7-1234")
        harness.clock.advance(60)
        harness.heartbeat(taken)
        harness.clock.advance(5)
        found = why(harness, started)
        assert found.kind == "leased"
        assert found.sentence == (
            "work has been running on host-7-1234 for 65 s, last contact 5.0 s ago; its lease expires in 10 min"
        )

    def test_a_place_in_the_queue(self, harness: Harness) -> None:
        harness.start_one()
        started = harness.start_one()
        harness.clock.advance(4)
        polled(harness)
        assert why(harness, started).sentence == "work waits in queue work with 1 other for 4.0 s; workers poll it"


class TestOthers:
    def test_a_join_names_the_tasks_it_waits_for(self, harness: Harness) -> None:
        branches = [[simple(name)] for name in "abcde"]
        harness.workflow_def(
            "flow",
            {"name": "split", "taskReferenceName": "split", "type": "FORK_JOIN", "forkTasks": branches},
            {"name": "both", "taskReferenceName": "both", "type": "JOIN", "joinOn": list("abcde")},
        )
        started = harness.start()
        harness.report(harness.poll_one("a"))
        join = a_task(harness, started, "both")
        assert why_task(harness, join["taskId"]).sentence == "joins on b, c, d and 1 more"
        assert why(harness, started).sentence.startswith("b waits for a worker: no worker has polled b ")
        assert why(harness, started).sentence.endswith("(and 3 more like it)")

    def test_a_workflow_waits_or_fails_as_its_innermost_sub_workflow_u3_9(self, harness: Harness) -> None:
        harness.workflow_def("inner", simple("work"))
        for name, below in (("middle", "inner"), ("flow", "middle")):
            sub = {"name": "sub", "taskReferenceName": f"to_{below}", "type": "SUB_WORKFLOW"}
            harness.workflow_def(name, {**sub, "subWorkflowParam": {"name": below}})
        started = harness.start()
        harness.settle()
        middle = a_task(harness, started, "to_middle")["subWorkflowId"]
        inner = a_task(harness, middle, "to_inner")["subWorkflowId"]
        direct, outer = why(harness, middle), why(harness, started)
        assert outer.kind == "sub_workflow"
        assert outer.urgent
        assert direct.sentence.startswith(f"to_inner waits for sub-workflow inner ({inner}): work waits for a worker: ")
        assert outer.sentence == direct.sentence.replace("to_inner waits", "to_middle waits").replace(
            f"({inner}): ", f"({inner}), 2 levels below: "
        )
        assert outer.remedy == "Start a worker that polls work, without a domain."
        harness.report(harness.poll_one("work"), "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="no paper")
        harness.settle()
        failed = why(harness, started)
        assert failed.sentence.startswith(f"to_middle failed in sub-workflow inner ({inner}), 2 levels below: work ")
        assert failed.sentence.endswith(": no paper")

    def test_the_round_of_a_loop(self, harness: Harness) -> None:
        harness.workflow_def(
            "flow",
            {
                "name": "loop",
                "taskReferenceName": "loop",
                "type": "DO_WHILE",
                "loopCondition": "if ($.loop['iteration'] < 3) {true;} else {false;}",
                "loopOver": [simple("work")],
            },
        )
        started = harness.start()
        harness.report(harness.poll_one())
        loop = a_task(harness, started, "loop")
        assert why_task(harness, loop["taskId"]).sentence == "is in iteration 2, at work__2"


class TestWhatTheServerDoesItself:
    """A queue that the server's own workers take from is never said to lack workers."""

    @pytest.mark.parametrize(
        ("known", "said"),
        [
            ({}, "waits for the server to process it"),
            ({"lease_until_ms": 9}, "is being processed by the server"),
            ({"due_at_ms": 60_000, "retry_count": 1}, "waits for retry 1 at 00:01:00 UTC (in 60 s)"),
        ],
    )
    def test_a_system_task_waits_for_the_server(self, known: dict[str, Any], said: str) -> None:
        queue = QueueFacts(name="HTTP", domain=" system/http", of_server=True, ready=1)
        task = TaskFacts(ref="call", type="HTTP", status="SCHEDULED", queue=queue, **known)
        assert why_waiting.explain_waiting_task(task, 0).sentence == said
        assert why_waiting.find_queue_problem(queue, 0) is None


class TestEnds:
    def test_a_paused_workflow_says_so(self, harness: Harness) -> None:
        harness.workflow_def("flow", simple("work"), simple("next"))
        started = harness.start()
        harness.poll_one()
        harness.act(started, workflow_actions.pause)
        found = why(harness, started)
        assert found.kind == "paused"
        assert found.sentence == "paused: no further task is scheduled; 1 running task will be finished"

    def test_a_join_of_a_paused_workflow(self, harness: Harness) -> None:
        harness.workflow_def(
            "flow",
            {"name": "split", "taskReferenceName": "split", "type": "FORK_JOIN", "forkTasks": [[simple("work")]]},
            {"name": "both", "taskReferenceName": "both", "type": "JOIN", "joinOn": ["work"]},
        )
        started = harness.start()
        taken = harness.poll_one()
        harness.act(started, workflow_actions.pause)
        harness.report(taken)
        assert (
            why_task(harness, a_task(harness, started, "both")["taskId"]).sentence == "is held: its workflow is paused"
        )

    def test_a_task_out_of_retries_says_so(self, harness: Harness) -> None:
        started = harness.start_one(task_def={"retryCount": 1, "retryDelaySeconds": 0})
        for _ in range(2):
            harness.report(harness.poll_one(), "FAILED", reasonForIncompletion="the bank\nrefused")
            harness.tick()
        found = why(harness, started)
        assert found.kind == "failed"
        assert found.urgent
        assert found.sentence == "work is out of retries: attempt 2 of 2 failed: the bank refused"
        assert found.task_id == a_task(harness, started)["taskId"]

    def test_a_task_out_of_retries_again_after_a_manual_retry_says_so(self, harness: Harness) -> None:
        started = harness.start_one(task_def={"retryCount": 1, "retryDelaySeconds": 0})
        for _ in range(2):
            harness.report(harness.poll_one(), "FAILED", reasonForIncompletion="refused")
            harness.tick()
        harness.act(started, workflow_actions.retry)
        harness.report(harness.poll_one(), "FAILED", reasonForIncompletion="refused")
        assert why(harness, started).sentence == "work is out of retries: attempt 3 failed: refused"

    def test_an_error_that_is_not_tried_again(self, harness: Harness) -> None:
        started = harness.start_one()
        harness.report(harness.poll_one(), "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="no such order")
        found = why(harness, started)
        assert found.sentence == "work failed for good, without retries: no such order"
        assert (found.remedy or "").startswith("The worker reported that a retry cannot help")

    def test_an_answer_that_fails_a_step_blames_no_worker(self, harness: Harness) -> None:
        harness.workflow_def("flow", {"name": "approval", "taskReferenceName": "approval", "type": "HUMAN"})
        started = harness.start()
        approval = a_task(harness, started, "approval")
        harness.report(approval, "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="not this one")
        found = why(harness, started)
        assert found.sentence == "approval failed for good, without retries: not this one"
        assert found.remedy == "Retry the workflow to wait for another answer, or correct the input of the step."

    def test_a_join_on_an_unknown_task_blames_no_worker(self, harness: Harness) -> None:
        harness.workflow_def(
            "flow",
            {"name": "split", "taskReferenceName": "split", "type": "FORK_JOIN", "forkTasks": [[simple("work")]]},
            {"name": "both", "taskReferenceName": "both", "type": "JOIN", "joinOn": ["work", "wrok"]},
        )
        started = harness.start()
        harness.report(harness.poll_one())
        found = why(harness, started)
        assert found.sentence.startswith(
            "both failed for good, without retries: both waits for work, wrok, but no task"
        )
        remedy = "A retry cannot help: correct the definition or the input, then start the workflow again."
        assert found.remedy == remedy

    def test_a_join_that_failed_is_not_taken_for_what_went_wrong(self, harness: Harness) -> None:
        branches = [[{**simple("work"), "permissive": True}], [simple("other")]]
        harness.workflow_def(
            "flow",
            {"name": "split", "taskReferenceName": "split", "type": "FORK_JOIN", "forkTasks": branches},
            {"name": "both", "taskReferenceName": "both", "type": "JOIN", "joinOn": ["work", "other"]},
        )
        started = harness.start()
        harness.report(harness.poll_one(), "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="no such order")
        harness.clock.advance(1)
        harness.report(harness.poll_one("other"))
        assert a_task(harness, started, "both")["status"] == "FAILED"
        assert why(harness, started).sentence == "work failed for good, without retries: no such order"

    def test_a_terminated_workflow_says_why(self, harness: Harness) -> None:
        started = harness.start_one()
        harness.act(started, workflow_actions.terminate, reason="called off")
        assert why(harness, started).sentence == "was terminated: called off"

    def test_a_completed_workflow_says_so(self, harness: Harness) -> None:
        started = harness.start_one()
        harness.report(harness.poll_one())
        assert why(harness, started).sentence == "completed"

    def test_an_unknown_task_or_workflow_is_a_404(self, harness: Harness) -> None:
        with pytest.raises(ApiError, match="Task not found"):
            why_task(harness, "nothing")
        with pytest.raises(ApiError, match="No such workflow"):
            why(harness, "nothing")

    def test_a_long_reason_is_cut(self, harness: Harness) -> None:
        started = harness.start_one()
        harness.report(harness.poll_one(), "FAILED_WITH_TERMINAL_ERROR", reasonForIncompletion="x" * 400)
        assert why(harness, started).sentence.endswith("x…")
        assert len(why(harness, started).sentence) < 260


@pytest.mark.parametrize(
    ("length_ms", "said"),
    [
        (400, "0.4 s"),
        (14_000, "14 s"),
        (119_000, "119 s"),
        (720_000, "12 min"),
        (11_400_000, "3 h 10 min"),
        (7_200_000, "2 h"),
        (172_800_000, "2 d"),
        (-5, "0.0 s"),
    ],
)
def test_a_length_of_time_is_said_as_people_say_it(length_ms: int, said: str) -> None:
    assert format_duration(length_ms) == said


@pytest.mark.parametrize(
    "reason",
    [
        "flat tyre",
        "Task t-3 failed with status: FAILED and reason: 'flat tyre'",
        "Sub workflow child.3/w-3 failure reason: Task t-3 failed with status: FAILED and reason: 'flat tyre'",
        "Task t failed with status: FAILED and reason: 'Sub workflow a.1/w failure reason: "
        "Task u failed with status: FAILED and reason: 'flat tyre'" + "'",
    ],
)
def test_a_reason_has_no_ids_of_tasks_and_sub_workflows_u4_53(reason: str) -> None:
    assert find_own_reason(reason) == "flat tyre"
