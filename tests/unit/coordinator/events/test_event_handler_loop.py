"""Event handlers: their actions when a workflow publishes an event, each done once."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from conductor.coordinator.definitions import event_handlers
from conductor.coordinator.definitions.event_handlers import EventHandler
from conductor.coordinator.request_errors import ApiError
from tests.unit.coordinator.core_harness import Harness, simple
from tests.unit.coordinator.decider_harness import task

EVENT = "conductor:orders:placed"
WAIT = task("w", "WAIT")


def handler(*actions: dict[str, Any], **fields: Any) -> EventHandler:
    body = {"name": "h", "event": EVENT, "active": True, "actions": list(actions), **fields}
    return msgspec.convert(body, EventHandler)


def add(harness: Harness, *actions: dict[str, Any], **fields: Any) -> None:
    harness.store.call(lambda tx: event_handlers.add_handler(tx, handler(*actions, **fields)))


def publish(harness: Harness, event: str = EVENT, **payload: Any) -> None:
    harness.store.call(lambda tx: event_handlers.publish_event(tx, event, payload))


def tick(harness: Harness) -> int | None:
    return harness.store.call(harness.core.tick)


def starts(**more: Any) -> dict[str, Any]:
    return {"action": "start_workflow", "start_workflow": {"name": "pack", **more}}


def started(harness: Harness) -> list[dict[str, Any]]:
    return [harness.workflow(found["workflowInstanceId"]) for found in harness.poll("pack", count=100)]


@pytest.fixture(autouse=True)
def defined(harness: Harness) -> None:
    harness.workflow_def("pack", simple("pack"))
    harness.workflow_def("waiting", WAIT, variables={"list": [1], "old": 1})


class TestEnds:
    """A definition with workflowStatusListenerEnabled tells event handlers how its workflows end."""

    def ended(self, harness: Harness, status: str, *, listened: bool = True) -> list[dict[str, Any]]:
        harness.task_def("work", retryCount=0)
        harness.workflow_def("flow", simple("work"), workflowStatusListenerEnabled=listened)
        about = {"id": "${workflowId}", "status": "${status}", "why": "${reasonForIncompletion}"}
        add(harness, starts(input=about), event=f"conductor:flow:{status}")
        self.workflow = harness.start()
        harness.report(harness.poll_one(), status, reasonForIncompletion="bad")
        tick(harness)
        return [one["input"] for one in started(harness)]

    def test_a_completed_workflow_publishes_an_event(self, harness: Harness) -> None:
        (told,) = self.ended(harness, "COMPLETED")
        assert (told["id"], told["status"], told["why"]) == (self.workflow, "COMPLETED", None)

    def test_a_failed_workflow_publishes_an_event(self, harness: Harness) -> None:
        (told,) = self.ended(harness, "FAILED")
        assert (told["id"], told["status"]) == (self.workflow, "FAILED")
        assert "bad" in told["why"]

    def test_workflows_without_the_option_publish_no_event(self, harness: Harness) -> None:
        assert self.ended(harness, "COMPLETED", listened=False) == []


class TestActions:
    def test_start_a_workflow_with_what_the_event_says(self, harness: Harness) -> None:
        add(harness, starts(version=1, correlationId="${order.id}", input={"order": "${order}", "text": "n${order.n}"}))
        publish(harness, order={"id": "o-1", "n": 2})
        tick(harness)
        (workflow,) = started(harness)
        assert workflow["correlationId"] == "o-1"
        assert workflow["input"] == {
            "order": {"id": "o-1", "n": 2},
            "text": "n2",
            "conductor.event.messageId": "1",
            "conductor.event.name": EVENT,
        }

    def test_a_definition_that_comes_with_a_start_is_checked(
        self, harness: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        add(harness, starts(workflowDef={"tasks": [task("k", "KAFKA_PUBLISH")]}))
        publish(harness)
        tick(harness)
        assert started(harness) == []
        assert "KAFKA_PUBLISH" in caplog.text

    @pytest.mark.parametrize(("action", "status"), [("complete_task", "COMPLETED"), ("fail_task", "FAILED")])
    def test_actions_end_a_task_by_workflow_and_name(self, harness: Harness, action: str, status: str) -> None:
        workflow_id = harness.start("waiting")
        add(
            harness, {"action": action, action: {"workflowId": "${id}", "taskRefName": "w", "output": {"by": "${who}"}}}
        )
        publish(harness, id=workflow_id, who="ann")
        tick(harness)
        (found,) = harness.workflow(workflow_id)["tasks"]
        assert (found["status"], found["outputData"]["by"]) == (status, "ann")
        assert found["outputData"]["conductor.event.name"] == EVENT
        assert harness.workflow(workflow_id)["status"] == status

    def test_actions_end_a_task_by_its_id(self, harness: Harness) -> None:
        workflow_id = harness.start("waiting")
        (found,) = harness.workflow(workflow_id)["tasks"]
        add(harness, {"action": "complete_task", "complete_task": {"taskId": "${task}"}})
        publish(harness, task=found["taskId"])
        tick(harness)
        assert harness.workflow(workflow_id)["status"] == "COMPLETED"

    def test_actions_terminate_a_workflow(self, harness: Harness) -> None:
        workflow_id = harness.start("waiting")
        asked = {"workflowId": "${id}", "terminationReason": "because ${why}"}
        add(harness, {"action": "terminate_workflow", "terminate_workflow": asked})
        publish(harness, id=workflow_id, why="rain")
        tick(harness)
        found = harness.workflow(workflow_id)
        assert (found["status"], found["reasonForIncompletion"]) == ("TERMINATED", "because rain")

    @pytest.mark.parametrize(("append", "expected"), [(True, [1, 2]), (False, [2])])
    def test_actions_set_variables(self, harness: Harness, *, append: bool, expected: list[int]) -> None:
        workflow_id = harness.start("waiting")
        asked = {"workflowId": "${id}", "variables": {"list": [2], "new": "${x}"}, "appendArray": append}
        add(harness, {"action": "update_workflow_variables", "update_workflow_variables": asked})
        publish(harness, id=workflow_id, x=7)
        tick(harness)
        assert harness.workflow(workflow_id)["variables"] == {"list": expected, "old": 1, "new": 7}

    def test_actions_read_json_in_texts_if_asked_to(self, harness: Harness) -> None:
        add(harness, {**starts(input={"id": "${body.id}"}), "expandInlineJSON": True})
        publish(harness, body='{"id": 5}', broken="{")
        tick(harness)
        assert started(harness)[0]["input"]["id"] == 5

    def test_an_action_that_fails_stops_no_other_action(
        self, harness: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        gone = {"action": "complete_task", "complete_task": {"workflowId": "nope", "taskRefName": "w"}}
        add(harness, gone, {"action": "start_workflow", "start_workflow": {"name": "nowhere"}}, starts())
        publish(harness)
        with caplog.at_level(logging.WARNING):
            tick(harness)
        assert len(started(harness)) == 1
        assert "handler=h action=complete_task error='there is no open task w to update'" in caplog.text
        assert "action=start_workflow error='No such workflow defined. name=nowhere" in caplog.text


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "applies"),
        [("$.go == 'yes'", True), ("$.go == 'no'", False), ("$.n > 3", True), ("", True), ("$.a.b.c == 1", False)],
    )
    def test_conditions_say_whether_a_handler_applies(self, harness: Harness, condition: str, *, applies: bool) -> None:
        add(harness, starts(), condition=condition)
        publish(harness, go="yes", n=5)
        tick(harness)
        assert len(started(harness)) == applies


class TestOnce:
    def test_an_event_survives_the_process_and_is_acted_on_once(self, harness: Harness) -> None:
        add(harness, starts())
        publish(harness)
        harness.restart()
        assert tick(harness) is None
        tick(harness)
        assert len(started(harness)) == 1

    def test_an_error_in_the_middle_leaves_the_event_for_the_next_run(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add(harness, starts())
        publish(harness)
        with monkeypatch.context() as broken:
            broken.setattr("conductor.coordinator.events.event_handler_loop.find_handlers", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                tick(harness)
        tick(harness)
        assert len(started(harness)) == 1

    def test_an_event_of_a_transaction_that_fails_was_never_published(self, harness: Harness) -> None:
        add(harness, starts())

        def failing(tx: Any) -> None:
            event_handlers.publish_event(tx, EVENT, {})
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            harness.store.call(failing)
        tick(harness)
        assert started(harness) == []

    def test_many_are_handled_a_few_at_a_time_and_in_order(self, harness: Harness) -> None:
        add(harness, starts(input={"n": "${n}"}))
        for n in range(50):
            publish(harness, n=n)
        ticks = 0
        while tick(harness) is not None:
            ticks += 1
        assert ticks >= 2
        assert [workflow["input"]["n"] for workflow in started(harness)] == list(range(50))

    def test_the_actions_of_one_event_take_turns_with_other_callers_a09(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rest of them survives the process, and a handler that was changed meanwhile does not change it."""
        monkeypatch.setattr("conductor.coordinator.events.event_handler_loop.TURN_S", -1)  # one action per transaction
        add(harness, *(starts(input={"n": n, "who": "${who}"}) for n in range(5)))
        publish(harness, who="ada")
        tick(harness)
        assert [workflow["input"]["n"] for workflow in started(harness)] == [0]
        harness.restart()
        harness.store.call(lambda tx: event_handlers.update_handler(tx, handler(starts(input={"n": 99}))))
        assert harness.settle() == 4
        inputs = [workflow["input"] for workflow in started(harness)]
        assert [(given["n"], given["who"]) for given in inputs] == [(n, "ada") for n in range(1, 5)]
        harness.settle()
        assert started(harness) == []

    def test_the_alarm_rings_at_once_when_somebody_listens_and_not_at_all_otherwise(self, harness: Harness) -> None:
        harness.notes.clear()
        publish(harness)
        assert harness.notes == []
        add(harness, starts())
        publish(harness)
        assert harness.notes[-1].wake_at_ms == harness.clock.wall_ms()


class TestHandlers:
    def test_event_handlers_that_are_not_active_do_nothing(self, harness: Harness) -> None:
        add(harness, starts(), active=False)
        publish(harness)
        tick(harness)
        assert started(harness) == []

    def test_event_handlers_of_other_events_do_nothing(self, harness: Harness) -> None:
        add(harness, starts())
        publish(harness, "conductor:orders:cancelled")
        tick(harness)
        assert started(harness) == []

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"name": ""}, "Missing event handler name"),
            ({"event": ""}, "Missing event location"),
            ({"actions": []}, "No actions specified"),
            ({"event": "kafka:x"}, "event 'kafka:x' is not supported by the coordinator"),
            ({"actions": [{"action": "start_agent"}]}, "action 'start_agent' of an event handler is not supported"),
            ({"actions": [{"action": "start_workflow"}]}, "needs name"),
            ({"actions": [{"action": "fail_task", "fail_task": {"workflowId": "x"}}]}, "needs taskRefName or taskId"),
            ({"condition": "((("}, "the condition of event handler h"),
            ({"evaluatorType": "python"}, "evaluatorType 'python'"),
            ({"actions": [starts()] * 101}, "at most 100 actions"),
        ],
    )
    def test_event_handlers_that_could_never_act_are_refused_by_name(
        self, harness: Harness, fields: dict[str, Any], why: str
    ) -> None:
        given = {"actions": [starts()], **fields}
        with pytest.raises(ApiError) as refused:
            add(harness, *given.pop("actions"), **given)
        assert refused.value.status == 400
        assert why in f"{refused.value.message} {refused.value.problems}"
