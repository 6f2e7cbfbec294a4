"""Events and their listeners."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import pickle
from typing import Any, get_type_hints

import pytest

from conductor.client.event import listeners, task_runner_events
from conductor.client.event.sync_event_dispatcher import EventDispatcher, SyncEventDispatcher
from conductor.client.event.task_runner_events import (
    EVENT_TYPES,
    PollCompleted,
    PollFailure,
    PollStarted,
    TaskExecutionCompleted,
    TaskExecutionFailure,
    TaskExecutionStarted,
    TaskRunnerEventsListener,
    TaskUpdateFailure,
    fields_of,
    handler_name,
)
from conductor.client.http.models.task_result import TaskResult

STARTED = PollStarted("job", "me", 3)

#: The fields that the guides print, in their order; the first positional arguments of each event.
GUIDE = {
    PollStarted: ["task_type", "worker_id", "poll_count"],
    PollCompleted: ["task_type", "duration_ms", "tasks_received"],
    PollFailure: ["task_type", "duration_ms", "cause"],
    TaskExecutionStarted: ["task_type", "task_id", "worker_id", "workflow_instance_id"],
    TaskExecutionCompleted: [
        "task_type",
        "task_id",
        "worker_id",
        "workflow_instance_id",
        "duration_ms",
        "output_size_bytes",
    ],
    TaskExecutionFailure: ["task_type", "task_id", "worker_id", "workflow_instance_id", "cause", "duration_ms"],
    TaskUpdateFailure: [
        "task_type",
        "task_id",
        "worker_id",
        "workflow_instance_id",
        "cause",
        "retry_count",
        "task_result",
    ],
}


class Recorder:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.heard.append(event)


class TestPublish:
    def test_publish_reaches_the_listeners_of_the_type(self) -> None:
        dispatcher, started, completed = SyncEventDispatcher(), Recorder(), Recorder()
        dispatcher.register(PollStarted, started)
        dispatcher.register(PollCompleted, completed)
        dispatcher.publish(STARTED)
        assert started.heard == [STARTED]
        assert not completed.heard

    def test_publish_is_synchronous_and_in_order(self) -> None:
        dispatcher = SyncEventDispatcher()
        order: list[str] = []
        for name in "abc":
            dispatcher.register(PollStarted, lambda _event, name=name: order.append(name))  # type: ignore[misc]
        dispatcher.publish(STARTED)
        order.append("after")
        assert order == ["a", "b", "c", "after"]

    def test_publish_without_listeners_does_nothing(self) -> None:
        SyncEventDispatcher().publish(STARTED)

    def test_the_same_function_twice_hears_twice(self) -> None:
        dispatcher, recorder = SyncEventDispatcher(), Recorder()
        dispatcher.register(PollStarted, recorder)
        dispatcher.register(PollStarted, recorder)
        dispatcher.publish(STARTED)
        assert len(recorder.heard) == 2

    def test_unregister_undoes_one_register(self) -> None:
        dispatcher, recorder = SyncEventDispatcher(), Recorder()
        dispatcher.register(PollStarted, recorder)
        dispatcher.unregister(PollStarted, recorder)
        dispatcher.unregister(PollStarted, recorder)  # unknown by now
        dispatcher.publish(STARTED)
        assert not recorder.heard
        assert not dispatcher.has_listeners(PollStarted)

    def test_emit_builds_no_event_that_nobody_wants(self) -> None:
        dispatcher, recorder = SyncEventDispatcher(), Recorder()

        def explode(*_: object) -> PollStarted:
            raise AssertionError("nobody listens")

        dispatcher.emit(explode, "job", "me", 3)
        dispatcher.register(PollStarted, recorder)
        dispatcher.emit(PollStarted, "job", "me", 3)
        assert recorder.heard[0].poll_count == 3

    def test_publish_has_the_name_of_the_guide_too(self) -> None:
        assert EventDispatcher is SyncEventDispatcher


class TestBrokenListeners:
    @pytest.mark.parametrize(
        "error", [RuntimeError("broken"), SystemExit("broken"), asyncio.CancelledError("broken")], ids=repr
    )
    def test_broken_listeners_are_logged_and_not_felt(
        self, error: BaseException, caplog: pytest.LogCaptureFixture
    ) -> None:
        dispatcher, recorder = SyncEventDispatcher(), Recorder()

        def broken(_: object) -> None:
            raise error

        dispatcher.register(PollStarted, broken)
        dispatcher.register(PollStarted, recorder)
        dispatcher.publish(STARTED)
        assert recorder.heard == [STARTED]
        (record,) = caplog.records
        assert (record.levelno, record.getMessage()) == (logging.ERROR, "Event listener failed: broken")
        assert record.exc_info, "whoever wrote it needs the traceback"

    def test_slow_ones_are_named(self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        dispatcher = SyncEventDispatcher()
        times = iter([0.0, 0.25])
        monkeypatch.setattr("conductor.client.event.sync_event_dispatcher.time.monotonic", lambda: next(times))

        def sluggish(_: object) -> None:
            """Takes a quarter of a second by the clock above."""

        dispatcher.register(PollStarted, sluggish)
        dispatcher.publish(STARTED)
        monkeypatch.undo()
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "sluggish" in record.getMessage()
        assert "250 ms" in record.getMessage()
        assert "PollStarted" in record.getMessage()

    def test_quick_ones_are_not(self, caplog: pytest.LogCaptureFixture) -> None:
        dispatcher = SyncEventDispatcher()
        dispatcher.register(PollStarted, lambda _: None)
        dispatcher.publish(STARTED)
        assert not caplog.records


class TestListenerObjects:
    def test_a_subclass_with_one_method_hears_one_event(self) -> None:
        class Audit(TaskRunnerEventsListener):
            def __init__(self) -> None:
                self.heard: list[PollStarted] = []

            def on_poll_started(self, event: PollStarted) -> None:
                self.heard.append(event)

        audit = Audit()
        dispatcher = SyncEventDispatcher([audit])
        dispatcher.publish(STARTED)
        dispatcher.publish(PollCompleted("job", 1.0, 0))
        assert audit.heard == [STARTED]
        assert [t for t in EVENT_TYPES if dispatcher.has_listeners(t)] == [PollStarted], "empty methods cost nothing"

    def test_any_object_with_some_of_the_methods_will_do(self) -> None:
        class Duck:
            heard = None

            def on_poll_started(self, event: PollStarted) -> None:
                self.heard = event

        duck = Duck()
        SyncEventDispatcher([duck]).publish(STARTED)
        assert duck.heard == STARTED

    def test_an_object_with_none_of_them_hears_nothing(self) -> None:
        dispatcher = SyncEventDispatcher([object()])
        assert not any(dispatcher.has_listeners(event_type) for event_type in EVENT_TYPES)

    def test_every_event_has_a_method(self) -> None:
        for event_type in EVENT_TYPES:
            assert callable(getattr(TaskRunnerEventsListener, handler_name(event_type)))

    def test_the_base_is_at_both_its_places(self) -> None:
        assert listeners.TaskRunnerEventsListener is task_runner_events.TaskRunnerEventsListener

    def test_every_method_of_the_base_can_be_called(self) -> None:
        listener = TaskRunnerEventsListener()
        for event_type in EVENT_TYPES:
            getattr(listener, handler_name(event_type))(object())


class TestEvents:
    @pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda t: t.__name__)
    def test_events_are_frozen_dataclasses_with_a_timestamp(self, event_type: Any) -> None:
        assert dataclasses.is_dataclass(event_type)
        fields = {field.name: field for field in dataclasses.fields(event_type)}
        assert "timestamp" in fields
        event: Any = event_type(  # type: ignore[operator]
            *[
                None
                for field in fields.values()
                if field.default_factory is dataclasses.MISSING and field.default is dataclasses.MISSING
            ]
        )
        with pytest.raises(dataclasses.FrozenInstanceError):
            event.task_type = "other"
        assert event.timestamp.tzinfo is not None

    @pytest.mark.parametrize(("event_type", "names"), GUIDE.items(), ids=lambda value: getattr(value, "__name__", ""))
    def test_events_have_the_fields_of_the_guide_in_their_order(self, event_type: Any, names: list[str]) -> None:
        assert [field.name for field in dataclasses.fields(event_type)][: len(names)] == names

    @pytest.mark.parametrize("event_type", [PollStarted, PollCompleted, PollFailure], ids=lambda t: t.__name__)
    def test_events_have_type_hints(self, event_type: Any) -> None:
        hints = get_type_hints(event_type)
        assert hints["task_type"] is str

    def test_events_can_be_pickled(self) -> None:
        assert pickle.loads(pickle.dumps(STARTED)) == STARTED
        failure = TaskUpdateFailure("job", "t", "me", "w", ValueError("x"), 4, TaskResult(task_id="t"))
        assert pickle.loads(pickle.dumps(failure)).task_result.task_id == "t"

    def test_events_can_be_stored_field_by_field(self) -> None:
        assert fields_of(STARTED) == {
            "task_type": "job",
            "worker_id": "me",
            "poll_count": 3,
            "timestamp": STARTED.timestamp,
        }
