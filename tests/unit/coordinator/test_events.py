"""Event handlers: what is done when a workflow publishes an event, and that it is done once."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from house import House, simple
from workflow_run import task

from conductor.coordinator.definitions import event_handlers
from conductor.coordinator.definitions.event_handlers import EventHandler
from conductor.coordinator.request_errors import ApiError

EVENT = "conductor:orders:placed"
WAIT = task("w", "WAIT")


def handler(*actions: dict[str, Any], **fields: Any) -> EventHandler:
    body = {"name": "h", "event": EVENT, "active": True, "actions": list(actions), **fields}
    return msgspec.convert(body, EventHandler)


def add(house: House, *actions: dict[str, Any], **fields: Any) -> None:
    house.store.call(lambda tx: event_handlers.add_handler(tx, handler(*actions, **fields)))


def publish(house: House, event: str = EVENT, **payload: Any) -> None:
    house.store.call(lambda tx: event_handlers.publish_event(tx, event, payload))


def tick(house: House) -> int | None:
    return house.store.call(house.core.tick)


def starts(**more: Any) -> dict[str, Any]:
    return {"action": "start_workflow", "start_workflow": {"name": "pack", **more}}


def started(house: House) -> list[dict[str, Any]]:
    return [house.workflow(found["workflowInstanceId"]) for found in house.poll("pack", count=100)]


@pytest.fixture(autouse=True)
def defined(house: House) -> None:
    house.workflow_def("pack", simple("pack"))
    house.workflow_def("waiting", WAIT, variables={"list": [1], "old": 1})


class TestEnds:
    """F08: a definition with workflowStatusListenerEnabled tells event handlers how its workflows end."""

    def ended(self, house: House, status: str, *, listened: bool = True) -> list[dict[str, Any]]:
        house.task_def("work", retryCount=0)
        house.workflow_def("flow", simple("work"), workflowStatusListenerEnabled=listened)
        about = {"id": "${workflowId}", "status": "${status}", "why": "${reasonForIncompletion}"}
        add(house, starts(input=about), event=f"conductor:flow:{status}")
        self.workflow = house.start()
        house.report(house.poll_one(), status, reasonForIncompletion="bad")
        tick(house)
        return [one["input"] for one in started(house)]

    def test_f08_a_good_end(self, house: House) -> None:
        (told,) = self.ended(house, "COMPLETED")
        assert (told["id"], told["status"], told["why"]) == (self.workflow, "COMPLETED", None)

    def test_f08_a_bad_end(self, house: House) -> None:
        (told,) = self.ended(house, "FAILED")
        assert (told["id"], told["status"]) == (self.workflow, "FAILED")
        assert "bad" in told["why"]

    def test_f08_nothing_is_said_of_others(self, house: House) -> None:
        assert self.ended(house, "COMPLETED", listened=False) == []


class TestActions:
    def test_start_a_workflow_with_what_the_event_says(self, house: House) -> None:
        add(house, starts(version=1, correlationId="${order.id}", input={"order": "${order}", "text": "n${order.n}"}))
        publish(house, order={"id": "o-1", "n": 2})
        tick(house)
        (workflow,) = started(house)
        assert workflow["correlationId"] == "o-1"
        assert workflow["input"] == {
            "order": {"id": "o-1", "n": 2},
            "text": "n2",
            "conductor.event.messageId": "1",
            "conductor.event.name": EVENT,
        }

    def test_a_definition_that_comes_with_a_start_is_checked(
        self, house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        add(house, starts(workflowDef={"tasks": [task("k", "KAFKA_PUBLISH")]}))
        publish(house)
        tick(house)
        assert started(house) == []
        assert "KAFKA_PUBLISH" in caplog.text

    @pytest.mark.parametrize(("action", "status"), [("complete_task", "COMPLETED"), ("fail_task", "FAILED")])
    def test_end_a_task_by_workflow_and_name(self, house: House, action: str, status: str) -> None:
        workflow_id = house.start("waiting")
        add(house, {"action": action, action: {"workflowId": "${id}", "taskRefName": "w", "output": {"by": "${who}"}}})
        publish(house, id=workflow_id, who="ann")
        tick(house)
        (found,) = house.workflow(workflow_id)["tasks"]
        assert (found["status"], found["outputData"]["by"]) == (status, "ann")
        assert found["outputData"]["conductor.event.name"] == EVENT
        assert house.workflow(workflow_id)["status"] == status

    def test_end_a_task_by_its_id(self, house: House) -> None:
        workflow_id = house.start("waiting")
        (found,) = house.workflow(workflow_id)["tasks"]
        add(house, {"action": "complete_task", "complete_task": {"taskId": "${task}"}})
        publish(house, task=found["taskId"])
        tick(house)
        assert house.workflow(workflow_id)["status"] == "COMPLETED"

    def test_terminate_a_workflow(self, house: House) -> None:
        workflow_id = house.start("waiting")
        asked = {"workflowId": "${id}", "terminationReason": "because ${why}"}
        add(house, {"action": "terminate_workflow", "terminate_workflow": asked})
        publish(house, id=workflow_id, why="rain")
        tick(house)
        found = house.workflow(workflow_id)
        assert (found["status"], found["reasonForIncompletion"]) == ("TERMINATED", "because rain")

    @pytest.mark.parametrize(("append", "expected"), [(True, [1, 2]), (False, [2])])
    def test_set_variables(self, house: House, *, append: bool, expected: list[int]) -> None:
        workflow_id = house.start("waiting")
        asked = {"workflowId": "${id}", "variables": {"list": [2], "new": "${x}"}, "appendArray": append}
        add(house, {"action": "update_workflow_variables", "update_workflow_variables": asked})
        publish(house, id=workflow_id, x=7)
        tick(house)
        assert house.workflow(workflow_id)["variables"] == {"list": expected, "old": 1, "new": 7}

    def test_read_json_in_texts_if_asked_to(self, house: House) -> None:
        add(house, {**starts(input={"id": "${body.id}"}), "expandInlineJSON": True})
        publish(house, body='{"id": 5}', broken="{")
        tick(house)
        assert started(house)[0]["input"]["id"] == 5

    def test_one_that_cannot_be_done_keeps_no_other_from_being_done(
        self, house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        gone = {"action": "complete_task", "complete_task": {"workflowId": "nope", "taskRefName": "w"}}
        add(house, gone, {"action": "start_workflow", "start_workflow": {"name": "nowhere"}}, starts())
        publish(house)
        with caplog.at_level(logging.WARNING):
            tick(house)
        assert len(started(house)) == 1
        assert "event handler h could not complete_task: there is no open task w to update" in caplog.text
        assert "could not start_workflow: No such workflow defined. name=nowhere" in caplog.text


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "applies"),
        [("$.go == 'yes'", True), ("$.go == 'no'", False), ("$.n > 3", True), ("", True), ("$.a.b.c == 1", False)],
    )
    def test_say_whether_a_handler_applies(self, house: House, condition: str, *, applies: bool) -> None:
        add(house, starts(), condition=condition)
        publish(house, go="yes", n=5)
        tick(house)
        assert len(started(house)) == applies


class TestOnce:
    def test_an_event_survives_the_process_and_is_acted_on_once(self, house: House) -> None:
        add(house, starts())
        publish(house)
        house.restart()
        assert tick(house) is None
        tick(house)
        assert len(started(house)) == 1

    def test_what_goes_wrong_in_the_middle_leaves_the_event_for_the_next_time(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add(house, starts())
        publish(house)
        with monkeypatch.context() as broken:
            broken.setattr("conductor.coordinator.events.event_handler_loop.find_handlers", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                tick(house)
        tick(house)
        assert len(started(house)) == 1

    def test_an_event_of_a_transaction_that_fails_was_never_published(self, house: House) -> None:
        add(house, starts())

        def failing(tx: Any) -> None:
            event_handlers.publish_event(tx, EVENT, {})
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            house.store.call(failing)
        tick(house)
        assert started(house) == []

    def test_many_are_handled_a_few_at_a_time_and_in_order(self, house: House) -> None:
        add(house, starts(input={"n": "${n}"}))
        for n in range(50):
            publish(house, n=n)
        ticks = 0
        while tick(house) is not None:
            ticks += 1
        assert ticks >= 2
        assert [workflow["input"]["n"] for workflow in started(house)] == list(range(50))

    def test_the_actions_of_one_event_take_turns_with_other_callers_a09(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rest of them survives the process, and a handler that was changed meanwhile does not change it."""
        monkeypatch.setattr("conductor.coordinator.events.event_handler_loop.TURN_S", -1)  # one action per transaction
        add(house, *(starts(input={"n": n, "who": "${who}"}) for n in range(5)))
        publish(house, who="ada")
        tick(house)
        assert [workflow["input"]["n"] for workflow in started(house)] == [0]
        house.restart()
        house.store.call(lambda tx: event_handlers.update_handler(tx, handler(starts(input={"n": 99}))))
        assert house.settle() == 4
        inputs = [workflow["input"] for workflow in started(house)]
        assert [(given["n"], given["who"]) for given in inputs] == [(n, "ada") for n in range(1, 5)]
        house.settle()
        assert started(house) == []

    def test_the_alarm_rings_at_once_when_somebody_listens_and_not_at_all_otherwise(self, house: House) -> None:
        house.notes.clear()
        publish(house)
        assert house.notes == []
        add(house, starts())
        publish(house)
        assert house.notes[-1].wake_at_ms == house.clock.wall_ms()


class TestHandlers:
    def test_that_are_not_active_do_nothing(self, house: House) -> None:
        add(house, starts(), active=False)
        publish(house)
        tick(house)
        assert started(house) == []

    def test_of_other_events_do_nothing(self, house: House) -> None:
        add(house, starts())
        publish(house, "conductor:orders:cancelled")
        tick(house)
        assert started(house) == []

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"name": ""}, "Missing event handler name"),
            ({"event": ""}, "Missing event location"),
            ({"actions": []}, "No actions specified"),
            ({"event": "kafka:x"}, "event 'kafka:x' comes from elsewhere"),
            ({"actions": [{"action": "start_agent"}]}, "action 'start_agent' of an event handler is not supported"),
            ({"actions": [{"action": "start_workflow"}]}, "needs name"),
            ({"actions": [{"action": "fail_task", "fail_task": {"workflowId": "x"}}]}, "needs taskRefName or taskId"),
            ({"condition": "((("}, "the condition of event handler h"),
            ({"evaluatorType": "python"}, "evaluatorType 'python'"),
            ({"actions": [starts()] * 101}, "at most 100 actions"),
        ],
    )
    def test_that_could_never_act_are_refused_by_name(self, house: House, fields: dict[str, Any], why: str) -> None:
        given = {"actions": [starts()], **fields}
        with pytest.raises(ApiError) as refused:
            add(house, *given.pop("actions"), **given)
        assert refused.value.status == 400
        assert why in f"{refused.value.message} {refused.value.problems}"
