"""What happened in the last hours: counts over time, samples, and the length of the queues."""

from __future__ import annotations

import msgspec
import pytest

from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.statements import FIRST_WORKFLOW_FROM
from conductor.coordinator.views import activity
from conductor.coordinator.views.activity import BUCKETS, find_first_key, read_activity
from conductor.coordinator.views.load_history import LoadHistory
from conductor.protocol.views import Activity
from tests.unit.coordinator.core_harness import Harness

MINUTE_S = 60


def read(harness: Harness, hours: int = 1, history: LoadHistory | None = None) -> Activity:
    kept = history or LoadHistory(harness.store)
    return harness.store.call(lambda tx: read_activity(tx, kept, hours))


def end(harness: Harness, task: str, status: str = "COMPLETED") -> None:
    (polled,) = harness.poll(task)
    harness.report(polled, status)


def remove(harness: Harness, pk: int) -> None:
    harness.store.call(lambda tx: tx.select("DELETE FROM workflow WHERE pk = ?", [pk]))


class TestCounts:
    def test_starts_and_ends_are_counted_per_time_span(self, harness: Harness) -> None:
        harness.start_one()
        harness.clock.advance(2 * MINUTE_S)
        harness.start_one()
        end(harness, "work")
        harness.clock.advance(MINUTE_S)
        end(harness, "work", "FAILED_WITH_TERMINAL_ERROR")
        found = read(harness)
        assert len(found.started) == len(found.finished) == len(found.failed) == BUCKETS
        assert (found.started[-4:], found.finished[-4:], found.failed[-4:]) == (
            [1, 0, 1, 0],
            [0, 0, 1, 0],
            [0, 0, 0, 1],
        )
        assert not found.is_partial

    def test_starts_are_counted_after_the_workflow_is_removed(self, harness: Harness) -> None:
        workflow_id = harness.start_one()
        harness.start_one()
        remove(harness, harness.store.ids.workflow_pk(workflow_id) or 0)
        assert read(harness).started[-1] == 2

    def test_older_ends_are_not_counted_beyond_the_limit(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(activity, "MAX_ENDED", 2)
        for _ in range(2):
            harness.start_one()
            end(harness, "work")
            harness.clock.advance(MINUTE_S)
        harness.start_one()
        end(harness, "work")
        found = read(harness)
        assert (found.finished[-1], found.finished[-2], found.is_partial) == (1, None, True)

    def test_the_first_key_after_a_time_is_found_between_gaps(self, harness: Harness) -> None:
        keys = []
        for _ in range(20):
            keys.append(harness.store.ids.workflow_pk(harness.start_one()) or 0)
            harness.clock.advance(1)
        began_ms = harness.clock.wall_ms() - 20_000
        for pk in keys[3:9]:
            remove(harness, pk)

        def first(at_ms: int) -> int:
            return harness.store.call(lambda tx: find_first_key(tx, FIRST_WORKFLOW_FROM, at_ms, 1, keys[-1] + 1))

        assert first(0) == 1
        assert first(began_ms + 1000) == keys[1]
        assert keys[2] < first(began_ms + 5000) <= keys[9]
        assert first(began_ms + 60_000) == keys[-1] + 1

    @pytest.mark.parametrize("hours", [0, activity.MAX_HOURS + 1])
    def test_a_time_that_is_too_short_or_too_long_is_rejected(self, harness: Harness, hours: int) -> None:
        with pytest.raises(ApiError, match="hours must be between 1 and 168"):
            read(harness, hours)


class TestTaskTypes:
    def test_attempts_are_summarized_by_type(self, harness: Harness) -> None:
        for status in ("COMPLETED", "FAILED_WITH_TERMINAL_ERROR"):
            harness.start_one()
            harness.clock.advance(3)
            (polled,) = harness.poll("work")
            harness.clock.advance(7)
            harness.report(polled, status)
        (found,) = read(harness).task_types
        assert (found.name, found.attempts, found.failed) == ("work", 2, 1)
        wire = msgspec.to_builtins(found)
        assert (wire["waitP95Ms"], wire["runP50Ms"], wire["runP95Ms"]) == (3000, 7000, 7000)

    def test_many_attempts_are_sampled_from_the_whole_time(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(activity, "SAMPLED_ATTEMPTS", 10)
        monkeypatch.setattr(activity, "SAMPLE_BLOCKS", 5)
        for number in range(40):
            harness.start_one(f"work_{number}")
        found = read(harness)
        assert (found.sampled_attempts, found.attempts) == (10, 40)
        names = {one.name for one in found.task_types}
        assert {"work_0", "work_1", "work_38", "work_39"} <= names


class TestLoadHistory:
    def test_the_largest_queue_of_each_time_span_is_kept(self, harness: Harness) -> None:
        history = LoadHistory(harness.store)
        harness.store.call(history.add)
        harness.start_one()
        harness.start_one()
        harness.store.call(history.add)
        harness.poll("work")
        harness.clock.advance(MINUTE_S)
        harness.store.call(history.add)
        found = read(harness, history=history)
        assert (found.waiting[-2:], found.in_hand[-2:]) == ([2, 1], [0, 1])
        assert found.waiting[:-2] == [None] * (BUCKETS - 2)
