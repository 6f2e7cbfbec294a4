"""Messages to workflows: the order, the tasks that take them, the limits, and the end of a workflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conductor.coordinator.limits import (
    MAX_MESSAGE_BATCH,
    MAX_MESSAGE_BYTES,
    MAX_MESSAGES,
    MAX_MESSAGES_BYTES,
    MAX_VALUE_BYTES,
)
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.workflows import messages, workflow_actions
from tests.unit.coordinator.core_harness import Harness, simple


def pull(ref: str = "pull", **inputs: Any) -> dict[str, Any]:
    return {"name": ref, "taskReferenceName": ref, "type": "PULL_WORKFLOW_MESSAGES", "inputParameters": inputs}


def fork(*branches: dict[str, Any]) -> list[dict[str, Any]]:
    forked = {
        "name": "fork",
        "taskReferenceName": "fork",
        "type": "FORK_JOIN",
        "forkTasks": [[one] for one in branches],
    }
    return [forked, {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": []}]


def send(at: Harness, workflow_id: str, payload: dict[str, Any]) -> str:
    executions = at.core.workflows.executions
    return at.store.call(lambda tx: executions.send(tx, find_workflow(tx, workflow_id), payload))


def task(at: Harness, workflow_id: str, ref: str = "pull") -> dict[str, Any]:
    found = [one for one in at.workflow(workflow_id)["tasks"] if one["referenceTaskName"] == ref]
    return dict(found[-1])


def payloads(taken: dict[str, Any]) -> list[Any]:
    return [message["payload"] for message in taken["outputData"]["messages"]]


def count_rows(at: Harness) -> int:
    return int(at.store.call(lambda tx: tx.select("SELECT count(*) FROM workflow_message", ())[0][0]))


def test_a_waiting_task_takes_the_message_in_the_transaction_that_stores_it() -> None:
    with Harness() as at:
        at.workflow_def("flow", pull())
        workflow_id = at.start()
        assert task(at, workflow_id)["status"] == "IN_PROGRESS"
        message_id = send(at, workflow_id, {"approved": True})
        taken = task(at, workflow_id)
        assert taken["status"] == "COMPLETED"
        (message,) = taken["outputData"]["messages"]
        assert taken["outputData"]["count"] == 1
        assert (message["id"], message["workflowId"]) == (message_id, workflow_id)
        assert message["payload"] == {"approved": True}
        assert message["receivedAt"].endswith("Z")
        assert at.workflow(workflow_id)["status"] == "COMPLETED"
        assert count_rows(at) == 0


def test_messages_that_arrive_early_wait_in_order_also_across_a_restart(tmp_path: Path) -> None:
    with Harness(tmp_path / "state.db") as at:
        at.workflow_def("flow", simple("work"), pull("one"), pull("rest", batchSize=10))
        workflow_id = at.start()
        for number in range(4):
            send(at, workflow_id, {"n": number})
        at.restart()
        at.report(at.poll_one())
        assert payloads(task(at, workflow_id, "one")) == [{"n": 0}]
        assert payloads(task(at, workflow_id, "rest")) == [{"n": 1}, {"n": 2}, {"n": 3}]
        assert at.workflow(workflow_id)["status"] == "COMPLETED"


def test_two_waiting_tasks_never_take_the_same_message() -> None:
    with Harness() as at:
        at.workflow_def("flow", *fork(pull("a", batchSize=5), pull("b", batchSize=5)))
        workflow_id = at.start()
        send(at, workflow_id, {"n": 1})
        assert (task(at, workflow_id, "a")["status"], task(at, workflow_id, "b")["status"]) == (
            "COMPLETED",
            "IN_PROGRESS",
        )
        send(at, workflow_id, {"n": 2})
        assert [payloads(task(at, workflow_id, ref)) for ref in "ab"] == [[{"n": 1}], [{"n": 2}]]
        assert at.workflow(workflow_id)["status"] == "COMPLETED"


def test_two_tasks_that_start_in_one_step_share_the_stored_messages() -> None:
    with Harness() as at:
        at.workflow_def("flow", simple("work"), *fork(pull("a"), pull("b"), pull("c", blocking=False)))
        workflow_id = at.start()
        send(at, workflow_id, {"n": 1})
        send(at, workflow_id, {"n": 2})
        at.report(at.poll_one())
        assert [payloads(task(at, workflow_id, ref)) for ref in "abc"] == [[{"n": 1}], [{"n": 2}], []]
        assert task(at, workflow_id, "c")["outputData"] == {"messages": [], "count": 0}
        assert count_rows(at) == 0


@pytest.mark.parametrize(
    ("batch_size", "taken"),
    [(None, 1), (0, 1), (-3, 1), (2.9, 2), ("3", 3), (MAX_MESSAGE_BATCH + 50, MAX_MESSAGE_BATCH)],
)
def test_batch_sizes(batch_size: Any, taken: int) -> None:
    with Harness() as at:
        at.workflow_def("flow", simple("work"), pull(batchSize=batch_size))
        workflow_id = at.start()
        for number in range(MAX_MESSAGE_BATCH + 10):
            send(at, workflow_id, {"n": number})
        at.report(at.poll_one())
        assert task(at, workflow_id)["outputData"]["count"] == taken


def test_a_batch_size_that_is_not_a_number_fails_the_task() -> None:
    with Harness() as at:
        at.workflow_def("flow", pull(batchSize="many"))
        failed = task(at, at.start())
        assert failed["status"] == "FAILED_WITH_TERMINAL_ERROR"
        assert failed["reasonForIncompletion"] == "batchSize is 'many'; it must be a number from 1 to 100"


def test_a_loop_reads_one_message_per_iteration() -> None:
    loop = {
        "name": "loop",
        "taskReferenceName": "loop",
        "type": "DO_WHILE",
        "loopCondition": "$.pull.messages[0].payload.last != true",
        "loopOver": [pull()],
    }
    with Harness() as at:
        at.workflow_def("flow", loop)
        workflow_id = at.start()
        for number in range(3):
            send(at, workflow_id, {"n": number, "last": number == 2})
        assert at.workflow(workflow_id)["status"] == "COMPLETED"
        refs = [one["referenceTaskName"] for one in at.workflow(workflow_id)["tasks"] if one["taskType"] != "DO_WHILE"]
        assert refs == ["pull__1", "pull__2", "pull__3"]


def test_a_loop_that_never_waits_for_a_message_ends_the_workflow() -> None:
    loop = {
        "name": "loop",
        "taskReferenceName": "loop",
        "type": "DO_WHILE",
        "inputParameters": {"keepLastN": 1},
        "loopCondition": "true",
        "loopOver": [pull(blocking=False)],
    }
    with Harness() as at:
        at.workflow_def("flow", loop)
        workflow_id = at.start()
        for _ in range(10_000):
            if at.workflow(workflow_id)["status"] != "RUNNING":
                break
            at.store.call(at.core.tick)
        assert "endless loop" in at.workflow(workflow_id)["reasonForIncompletion"]


def test_dynamic_tasks_and_sub_workflows_take_only_their_own_messages() -> None:
    dynamic = {
        "name": "any",
        "taskReferenceName": "any",
        "type": "DYNAMIC",
        "dynamicTaskNameParam": "kind",
        "inputParameters": {"kind": "PULL_WORKFLOW_MESSAGES"},
    }
    child = {
        "name": "child",
        "taskReferenceName": "child",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": "inner"},
    }
    with Harness() as at:
        at.workflow_def("inner", pull())
        at.workflow_def("flow", child, dynamic)
        workflow_id = at.start()
        inner = task(at, workflow_id, "child")["subWorkflowId"]
        send(at, workflow_id, {"for": "outer"})
        assert task(at, inner)["status"] == "IN_PROGRESS"
        send(at, inner, {"for": "inner"})
        assert payloads(task(at, inner)) == [{"for": "inner"}]
        assert payloads(task(at, workflow_id, "any")) == [{"for": "outer"}]
        assert at.workflow(workflow_id)["status"] == "COMPLETED"


def test_only_a_running_workflow_accepts_messages() -> None:
    with Harness() as at:
        at.workflow_def("flow", pull())
        workflow_id = at.start()
        for action, status in ((workflow_actions.pause, "PAUSED"), (workflow_actions.terminate, "TERMINATED")):
            at.act(workflow_id, action)
            with pytest.raises(ApiError, match=f"not in RUNNING state .current: {status}") as refused:
                send(at, workflow_id, {})
            assert refused.value.status == 409
        assert count_rows(at) == 0


def test_a_retried_workflow_takes_the_messages_that_its_failed_run_left() -> None:
    with Harness() as at:
        at.task_def("work", retryCount=0)
        at.workflow_def("flow", simple("work"), pull())
        workflow_id = at.start()
        send(at, workflow_id, {"n": 1})
        at.report(at.poll_one(), "FAILED")
        at.act(workflow_id, workflow_actions.retry)
        at.report(at.poll_one())
        assert payloads(task(at, workflow_id)) == [{"n": 1}]
        at.act(workflow_id, workflow_actions.restart)
        at.report(at.poll_one())
        assert task(at, workflow_id)["status"] == "IN_PROGRESS"


def test_the_limits_of_a_queue() -> None:
    with Harness() as at:
        at.workflow_def("flow", simple("work"), pull(batchSize=100))
        workflow_id = at.start()
        with pytest.raises(ApiError, match=f"at most {MAX_MESSAGE_BYTES} are allowed") as refused:
            send(at, workflow_id, {"text": "x" * MAX_MESSAGE_BYTES})
        assert refused.value.status == 413
        large = {"text": "x" * (MAX_MESSAGE_BYTES - 20)}
        for _ in range(MAX_MESSAGES_BYTES // MAX_MESSAGE_BYTES):
            send(at, workflow_id, large)
        with pytest.raises(ApiError, match="that no task has taken") as refused:
            send(at, workflow_id, large)
        assert refused.value.status == 429
        at.report(at.poll_one())
        taken = task(at, workflow_id)["outputData"]
        assert 1 < taken["count"] < 100  # as many as fit into the output of a task
        assert len(json.dumps(taken)) < MAX_VALUE_BYTES


def test_a_full_queue_accepts_a_message_after_one_was_taken() -> None:
    with Harness() as at:
        at.workflow_def("flow", simple("work"), pull(), simple("work", "last"))
        workflow_id = at.start()
        for number in range(MAX_MESSAGES):
            send(at, workflow_id, {"n": number})
        with pytest.raises(ApiError, match=f"has {MAX_MESSAGES} messages") as refused:
            send(at, workflow_id, {})
        assert refused.value.status == 429
        at.report(at.poll_one())
        send(at, workflow_id, {})


def test_a_message_waits_as_long_as_its_workflow() -> None:
    """A durable function may sleep for days before it waits for a message."""
    with Harness() as at:
        at.workflow_def("flow", simple("work"), pull())
        workflow_id = at.start()
        send(at, workflow_id, {"n": 1})
        at.clock.advance(30 * 24 * 3600)
        at.report(at.poll_one())
        assert payloads(task(at, workflow_id)) == [{"n": 1}]


def test_removing_a_workflow_removes_its_messages() -> None:
    with Harness() as at:
        at.workflow_def("flow", simple("work"))
        workflow_id = at.start()
        send(at, workflow_id, {"n": 1})
        assert count_rows(at) == 1
        at.store.call(lambda tx: at.core.workflows.executions.remove(tx, find_workflow(tx, workflow_id)))
        assert count_rows(at) == 0


def test_a_task_that_waits_for_a_name_takes_its_message_first() -> None:
    taken: list[dict[str, Any]] = []

    def on_message(tx: Tx, workflow: int, name: str | None) -> None:
        if name == "approval":
            taken.extend(messages.take(tx, workflow, name))

    with Harness() as at:
        at.workflow_def("flow", pull("first"), pull("second"))
        workflow_id = at.start()
        at.core.workflows.executions.on_message = on_message
        send(at, workflow_id, {"name": "approval", "n": 1})
        assert [message["payload"]["n"] for message in taken] == [1]
        assert task(at, workflow_id, "first")["status"] == "IN_PROGRESS"
        send(at, workflow_id, {"name": ["approval"], "n": 2})
        assert payloads(task(at, workflow_id, "first")) == [{"name": ["approval"], "n": 2}]


def test_take_leaves_messages_with_other_names() -> None:
    with Harness() as at:
        at.workflow_def("flow", simple("work"))
        workflow_id = at.start()
        for number, name in enumerate(["a", "b", "a", None]):
            send(at, workflow_id, {"name": name, "n": number})

        def take(tx: Tx, name: str | None, count: int) -> list[int]:
            found = messages.take(tx, find_workflow(tx, workflow_id).pk, name, count)
            return [message["payload"]["n"] for message in found]

        assert at.store.call(lambda tx: take(tx, "b", 5)) == [1]
        assert at.store.call(lambda tx: take(tx, "a", 1)) == [0]
        assert at.store.call(lambda tx: take(tx, "c", 1)) == []
        assert at.store.call(lambda tx: take(tx, None, 5)) == [2, 3]


# -- variables


def test_variables_are_merged_and_visible_to_later_tasks() -> None:
    later = simple("work", "later", inputParameters={"a": "${workflow.variables.a}", "b": "${workflow.variables.b}"})
    with Harness() as at:
        at.workflow_def("flow", simple("work"), later, variables={"a": 1, "b": 2})
        workflow_id = at.start()
        executions = at.core.workflows.executions

        def set_variables(values: dict[str, Any]) -> None:
            at.store.call(lambda tx: executions.set_variables(tx, find_workflow(tx, workflow_id), values))

        set_variables({"b": [3]})
        assert at.workflow(workflow_id)["variables"] == {"a": 1, "b": [3]}
        at.report(at.poll_one())
        last = at.poll_one()
        assert last["inputData"] == {"a": 1, "b": [3]}
        with pytest.raises(ApiError, match="the variables of this workflow"):
            set_variables({"huge": "x" * MAX_VALUE_BYTES})
        at.report(last)
        with pytest.raises(ApiError, match="has ended") as refused:
            set_variables({"a": 2})
        assert refused.value.status == 409
