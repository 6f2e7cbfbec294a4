"""Schedules on a clock that the tests turn."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.coordinator.http.routes.metrics import LATE_AFTER_MS
from conductor.coordinator.limits import MAX_MISSED_COUNTED
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.schedules import schedule_store
from conductor.coordinator.schedules.cron_schedule import Schedule, next_due_times
from conductor.coordinator.schedules.schedule_views import list_schedule_entries
from conductor.coordinator.schedules.schedule_warnings import find_schedule_warnings
from conductor.coordinator.server_metrics import MISSED_TOTAL
from conductor.coordinator.store.sql import SCHEMA_VERSION
from conductor.coordinator.store.statements import LATE_DUE_TIMES, PAUSE_SCHEDULES
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views import search_query
from conductor.testing import FakeClock
from tests.unit.coordinator.core_harness import Harness, simple

#: 2027-06-01 12:00:00 UTC
NOON_MS = 1_811_851_200_000
MINUTE_MS = 60_000


class WallClock(FakeClock):
    """Shows noon at first, and can be set."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead_ms = NOON_MS - super().wall_ms()

    def wall_ms(self) -> int:
        return super().wall_ms() + self._ahead_ms

    def set_by(self, seconds: float) -> None:
        self._ahead_ms += int(seconds * 1000)


class Board:
    """A coordinator with a workflow to start and schedules that start it. Its clock begins at noon."""

    def __init__(self, database: Path | str = ":memory:") -> None:
        self.clock = WallClock()
        self.harness = Harness(database, self.clock)
        self.harness.workflow_def("report", simple("work"))

    def save(self, name: str = "s", cron: str | None = "0 * * * * *", **fields: Any) -> dict[str, Any]:
        body = {"name": name, "cronExpression": cron, "startWorkflowRequest": {"name": "report"}, **fields}
        asked = msgspec.convert(body, Schedule)
        asked.check()
        return self.harness.store.call(lambda tx: schedule_store.save(tx, asked))

    def get(self, name: str = "s") -> dict[str, Any]:
        return self.harness.store.call(lambda tx: schedule_store.get(tx, name))

    def turn_to(self, at_ms: int) -> None:
        """The alarm as the core has it: it wakes up at the nearest moment it knows of, and no other time."""
        while (wake_ms := self.tick()) is not None and wake_ms <= at_ms:
            if wake_ms > self.now_ms:
                self.harness.clock.advance((wake_ms - self.now_ms) / 1000)
        if at_ms > self.now_ms:
            self.harness.clock.advance((at_ms - self.now_ms) / 1000)
        self.tick()

    def turn(self, minutes: float) -> None:
        self.turn_to(self.now_ms + int(minutes * MINUTE_MS))

    def jump(self, minutes: float) -> None:
        """The wall clock is set, and the alarm rings once."""
        self.clock.set_by(minutes * 60)
        self.tick()

    def tick(self) -> int | None:
        return self.harness.store.call(self.harness.core.tick)

    @property
    def now_ms(self) -> int:
        return self.harness.clock.wall_ms()

    def runs(self, **asked: Any) -> list[dict[str, Any]]:
        """Return the runs in the order of events."""
        found = self.harness.store.call(
            lambda tx: search_query.search_schedule_runs(tx, search_query.Search(size=5000, **asked))
        )
        return msgspec.json.decode(msgspec.json.encode(found.results), type=list[dict[str, Any]])[::-1]

    def moments(self) -> list[float]:
        """Which due moments were acted on, in minutes after noon."""
        return [(run["scheduledTime"] - NOON_MS) / MINUTE_MS for run in self.runs()]


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board(tmp_path / "a.db")
    yield board
    board.harness.close()


class TestARun:
    def test_every_due_moment_starts_a_workflow_once(self, board: Board) -> None:
        board.save(cron="0 * * * * *")
        board.turn(3.5)
        assert board.moments() == [1, 2, 3]
        assert [task["workflowType"] for task in board.harness.poll(count=10)] == ["report"] * 3

    def test_a_run_tells_the_workflow_what_started_it(self, board: Board) -> None:
        board.save(startWorkflowRequest={"name": "report", "input": {"a": 1}, "correlationId": "c", "priority": 7})
        board.turn(1)
        (run,) = board.runs()
        workflow = board.harness.workflow(run["workflowId"])
        assert workflow["input"] == {
            "a": 1,
            "_startedByScheduler": "s",
            "_scheduledTime": NOON_MS + MINUTE_MS,
            "_executedTime": NOON_MS + MINUTE_MS,
            "_executionId": run["executionId"],
            "_schedulerCron": "0 * * * * * UTC",
        }
        assert (workflow["correlationId"], workflow["priority"]) == ("c", 7)

    def test_a_run_is_remembered_and_can_be_searched(self, board: Board) -> None:
        board.save("one")
        board.save("two", startWorkflowRequest={"name": "gone"})
        board.turn(2)
        assert len(board.runs(query="scheduleName = 'one' AND state IN (EXECUTED)")) == 2
        assert len(board.runs(free_text="gone")) == 2
        first = board.runs()[0]
        assert board.runs(query=f"executionId = {first['executionId']}") == [first]
        assert board.runs(query=f"workflowId = {first['workflowId']}") == [first]
        assert board.runs(query=f"scheduledTime > {NOON_MS + MINUTE_MS}", sort="scheduledTime:ASC")[0]["state"]

    def test_a_run_of_a_workflow_that_is_gone_fails_and_the_next_moment_is_tried_again(self, board: Board) -> None:
        board.save(startWorkflowRequest={"name": "later"})
        board.turn(1)
        board.harness.workflow_def("later", simple("work"))
        board.turn(1)
        failed, done = board.runs()
        assert (failed["state"], failed["reason"]) == (
            "FAILED",
            "No such workflow defined. name=later, version=null",
        )
        assert "workflowId" not in failed
        assert done["state"] == "EXECUTED"

    def test_a_run_of_a_schedule_that_was_removed_does_not_happen(self, board: Board) -> None:
        board.save()
        board.turn(1)
        board.harness.store.call(lambda tx: schedule_store.remove(tx, "s"))
        assert board.tick() is None
        board.turn(5)
        assert board.moments() == [1]

    def test_a_limited_number_of_runs_is_remembered(self, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("conductor.coordinator.schedules.schedule_runner.RUNS_KEPT_PER_SCHEDULE", 5)
        board.save()
        board.turn(8)
        assert board.moments() == [4, 5, 6, 7, 8]

    def test_idempotency_keys_are_honoured(self, board: Board) -> None:
        board.save(startWorkflowRequest={"name": "report", "idempotencyKey": "k"})
        board.turn(2)
        first, second = board.runs()
        assert first["workflowId"] == second["workflowId"]


class TestTheTimer:
    def test_the_timer_is_set_to_the_next_moment_and_to_nothing_without_schedules(self, board: Board) -> None:
        assert board.tick() is None
        board.save(cron="0 30 14 * * *")
        assert board.tick() == NOON_MS + 150 * MINUTE_MS
        assert board.get()["nextRunTime"] == NOON_MS + 150 * MINUTE_MS

    def test_the_timer_is_told_of_a_schedule_by_the_commit_that_saves_it(self, board: Board) -> None:
        board.harness.notes.clear()
        board.save()
        assert [notes.wake_at_ms for notes in board.harness.notes] == [NOON_MS + MINUTE_MS]


class TestTimeWithoutTheCoordinator:
    def test_with_catch_up_every_missed_moment_runs_later(self, board: Board) -> None:
        board.save(runCatchupScheduleInstances=True)
        board.harness.close()
        board.harness.clock.advance(5.5 * 60)
        board.harness.open()
        board.turn_to(board.now_ms)
        assert board.moments() == [1, 2, 3, 4, 5]
        assert board.get()["nextRunTime"] == NOON_MS + 6 * MINUTE_MS

    def test_without_catch_up_only_the_first_missed_moment_runs_late(self, board: Board) -> None:
        """As Conductor does: what was due lies in its queue, and the next moment is counted from now."""
        board.save()
        board.harness.close()
        board.harness.clock.advance(5.5 * 60)
        board.harness.open()
        board.turn(1)
        assert board.moments() == [1, 6]
        assert board.runs()[0]["executionTime"] == NOON_MS + int(5.5 * MINUTE_MS)

    def test_a_process_that_dies_in_the_middle_leaves_no_part_of_a_run(
        self, board: Board, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        board.save()
        board.harness.clock.advance(60)
        with monkeypatch.context() as broken:
            broken.setattr(schedule_store, "set_due", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                board.tick()
        assert board.runs() == []
        assert board.harness.poll() == []
        board.tick()
        assert board.moments() == [1]


class TestABusyCoordinator:
    """Due times are made up for when they are a little late, and counted and logged when they are not."""

    def missed(self, board: Board) -> int:
        return board.harness.store.counts.copy().get((MISSED_TOTAL.name,), 0)

    def late(self, board: Board, seconds: float) -> None:
        """Let the timer fire `seconds` too late."""
        board.harness.clock.advance(seconds)
        board.turn_to(board.now_ms)

    def test_a_busy_coordinator_makes_up_for_times_that_are_a_little_late_a06(
        self, board: Board, caplog: pytest.LogCaptureFixture
    ) -> None:
        board.save(cron="* * * * * *")
        self.late(board, 10)
        assert board.moments() == [pytest.approx(n / 60) for n in range(1, 11)]
        assert (self.missed(board), caplog.messages) == (0, [])

    def test_a_busy_coordinator_counts_and_logs_times_that_are_later_a06(
        self, board: Board, caplog: pytest.LogCaptureFixture
    ) -> None:
        board.save(cron="* * * * * *")
        self.late(board, 31)
        # The first one, and those of the last ten seconds; 20 are missed.
        seconds = [round(moment * 60) for moment in board.moments()]
        assert seconds == [1, *range(22, 32)]
        assert self.missed(board) == 20
        assert [message.partition(";")[0] for message in caplog.messages] == [
            "Scheduled times missed: count=20 schedules=1 first='s'"
        ]

    def test_scheduled_starts_take_turns_with_other_callers_and_none_is_missed_a06(
        self, board: Board, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("conductor.coordinator.schedules.schedule_runner.TURN_S", -1)  # one start per transaction
        for name in ("a", "b", "c"):
            board.save(name)
        board.harness.clock.advance(60)
        assert [len(board.runs()) for _ in range(3) if board.tick()] == [1, 2, 3]
        assert self.missed(board) == 0

    def test_logs_at_most_a_line_per_minute_a06(self, board: Board, caplog: pytest.LogCaptureFixture) -> None:
        board.save(cron="* * * * * *")
        for _ in range(3):
            self.late(board, 31)
        assert len(caplog.messages) == 2
        assert "count=40" in caplog.messages[1]  # 20 each of the second and the third time

    def test_a_busy_coordinator_counts_up_to_a_bound_after_a_long_time_a06(self, board: Board) -> None:
        board.save(cron="* * * * * *")
        self.late(board, 365 * 86400)
        assert self.missed(board) == MAX_MISSED_COUNTED

    def test_a_busy_coordinator_misses_nothing_with_catch_up_or_after_a_pause_a06(self, board: Board) -> None:
        board.save(cron="* * * * * *", runCatchupScheduleInstances=True)
        self.late(board, 31)
        assert len(board.runs()) == 31
        board.harness.store.call(lambda tx: schedule_store.pause(tx, "s", None))
        self.late(board, 31)
        board.harness.store.call(lambda tx: schedule_store.resume(tx, "s"))
        self.late(board, 1)
        assert (len(board.runs()), self.missed(board)) == (32, 0)


class TestAClockThatIsSet:
    def test_a_clock_that_is_set_back_starts_nothing_twice(self, board: Board) -> None:
        board.save()
        board.turn(3)
        board.jump(-2.5)
        board.turn(4)
        assert board.moments() == [1, 2, 3, 4]

    def test_forward_skips_what_lies_between_but_for_one(self, board: Board) -> None:
        board.save()
        board.turn(1)
        board.jump(100.5)
        board.turn(1)
        assert board.moments() == [1, 2, 102]


class TestPauses:
    def test_a_paused_schedule_starts_nothing_and_goes_on_from_now(self, board: Board) -> None:
        board.save(runCatchupScheduleInstances=True)
        board.turn(1)
        board.harness.store.call(lambda tx: schedule_store.pause(tx, "s", "holiday"))
        assert (board.get()["paused"], board.get()["pausedReason"]) == (True, "holiday")
        assert "nextRunTime" not in board.get()
        board.turn(5)
        board.harness.store.call(lambda tx: schedule_store.resume(tx, "s"))
        assert "pausedReason" not in board.get()
        board.turn(1)
        assert board.moments() == [1, 7]

    def test_a_schedule_that_is_saved_paused_is_not_due(self, board: Board) -> None:
        board.save(paused=True)
        assert board.tick() is None

    def test_all_paused_schedules_stay_paused_over_a_restart(self, board: Board) -> None:
        board.save(runCatchupScheduleInstances=True)
        board.harness.store.call(schedule_store.pause_all)
        board.harness.restart()
        assert board.tick() is None
        board.turn(2.5)
        assert board.moments() == []
        board.harness.notes.clear()
        board.harness.store.call(schedule_store.resume_all)
        assert board.harness.notes[0].wake_at_ms == NOON_MS + MINUTE_MS
        board.turn_to(board.now_ms)
        assert board.moments() == [1, 2]

    def test_a_schedule_that_is_not_paused_cannot_be_resumed(self, board: Board) -> None:
        board.save()
        with pytest.raises(ApiError, match="is not paused"):
            board.harness.store.call(lambda tx: schedule_store.resume(tx, "s"))


class TestBounds:
    @pytest.mark.parametrize("catch_up", [True, False])
    def test_nothing_is_started_before_the_start_or_after_the_end(self, board: Board, *, catch_up: bool) -> None:
        board.save(
            scheduleStartTime=NOON_MS + 2 * MINUTE_MS,
            scheduleEndTime=NOON_MS + 4 * MINUTE_MS,
            runCatchupScheduleInstances=catch_up,
        )
        board.turn(10)
        assert board.moments() == [2, 3, 4]
        assert "nextRunTime" not in board.get()
        assert board.tick() is None

    def test_an_end_that_has_passed_is_taken_and_never_due(self, board: Board) -> None:
        board.save(scheduleEndTime=1)
        assert board.tick() is None


class TestSeveralExpressions:
    def test_each_is_due_for_itself_in_its_own_zone(self, board: Board) -> None:
        crons = [
            {"cronExpression": "0 1/2 * * * *"},
            {"cronExpression": "0 2 21 * * *", "zoneId": "Asia/Tokyo"},
            {"cronExpression": "0 2 14 * * *", "zoneId": "Europe/Berlin"},
        ]
        shown = board.save(cron=None, cronSchedules=crons)
        assert shown["cronSchedules"][0] == {"cronExpression": "0 1/2 * * * *", "zoneId": "UTC"}
        board.turn(3)
        assert [(run["scheduledTime"] - NOON_MS) // MINUTE_MS for run in board.runs()] == [1, 2, 2, 3]
        assert [run["zoneId"] for run in board.runs()] == ["UTC", "Asia/Tokyo", "Europe/Berlin", "UTC"]

    def test_fewer_of_them_leave_nothing_of_the_others(self, board: Board) -> None:
        board.save(cronSchedules=[{"cronExpression": f"{second} * * * * *"} for second in range(3)])
        board.save(cronSchedules=[{"cronExpression": "5 * * * * *"}])
        board.turn(1.5)
        assert board.moments() == [5 / 60, 1 + 5 / 60]


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"cronExpression": "nonsense"}, "has 1 fields, not 6"),
            ({"cronExpression": "* * * * *"}, "has 5 fields, not 6"),
            ({"cronExpression": "0 0 0 30 2 *"}, "is never due"),
            ({"cronExpression": "0 0 25 * * *"}, "hour must be from 0 to 23"),
            ({"cronExpression": None}, "needs a cronExpression"),
            ({"cronSchedules": [{"cronExpression": "bad"}]}, "has 1 fields, not 6"),
            ({"cronSchedules": [{"cronExpression": "* * * * * *"}] * 101}, "at most 100 cronSchedules"),
            ({"zoneId": "Mars/One"}, "unknown time zone 'Mars/One'"),
            ({"name": " "}, "needs a name"),
            ({"startWorkflowRequest": {}}, "needs startWorkflowRequest.name"),
            ({"startWorkflowRequest": {"name": "x", "priority": 2**70}}, "priority must be from 0 to 99"),
            ({"startWorkflowRequest": None}, "needs startWorkflowRequest.name"),
            ({"scheduleStartTime": 2, "scheduleEndTime": 1}, "is before scheduleStartTime"),
            ({"startWorkflowRequest": {"name": "x", "workflowDef": {"tasks": "no"}}}, "."),
        ],
    )
    def test_name_what_is_wrong(self, board: Board, fields: dict[str, Any], why: str) -> None:
        with pytest.raises(ApiError) as refused:
            board.save(
                **{"name": "s", **fields} if "cronExpression" not in fields else {"cron": fields["cronExpression"]}
            )
        assert refused.value.status == 400
        assert why in f"{refused.value.message} {refused.value.problems}"


class TestNextFew:
    def test_next_few_tells_the_next_moments_within_bounds(self) -> None:
        found = next_due_times("0 0 0 * * *", NOON_MS, None, None, 3)
        assert [datetime.fromtimestamp(at_ms / 1000, UTC).isoformat() for at_ms in found] == [
            "2027-06-02T00:00:00+00:00",
            "2027-06-03T00:00:00+00:00",
            "2027-06-04T00:00:00+00:00",
        ]
        assert next_due_times("0 0 0 * * *", NOON_MS, 1_900_000_000_000, 1_900_100_000_000, 5) == [1_900_022_400_000]


class TestASchedule:
    def test_a_schedule_that_is_saved_again_keeps_when_and_by_whom_it_was_made(self, board: Board) -> None:
        board.save(createdBy="ann")
        board.turn(1.5)
        shown = board.save(createdBy="bob", cron="0 0 * * * *")
        assert (shown["createTime"], shown["updatedTime"]) == (NOON_MS, NOON_MS + int(1.5 * MINUTE_MS))
        assert (shown["createdBy"], shown["nextRunTime"]) == ("ann", NOON_MS + 60 * MINUTE_MS)


def test_a_definition_that_comes_with_a_schedule_is_started(board: Board) -> None:
    board.save(startWorkflowRequest={"name": "own", "workflowDef": {"tasks": [simple("work")]}})
    board.turn(1)
    assert [run["state"] for run in board.runs()] == ["EXECUTED"]


def test_a_payload_that_lies_elsewhere_is_refused(board: Board) -> None:
    with pytest.raises(ApiError, match="externalInputPayloadStoragePath"):
        board.save(startWorkflowRequest={"name": "report", "externalInputPayloadStoragePath": "s3"})


def test_a_file_of_the_version_before_gets_the_tables(tmp_path: Path) -> None:
    with Board(tmp_path / "a.db").harness:
        pass
    db = sqlite3.connect(tmp_path / "a.db")
    new = (
        "schedule",
        "schedule_due",
        "schedule_run",
        "secret",
        "event_handler",
        "event",
        "turn",
        "termination",
        "epoch",
        "workflow_message",
        "step",
        "api_key_secret",
        "api_key",
        "audit",
    )
    tables = "".join(f"DROP TABLE {table};" for table in new)
    tasks = "DROP INDEX task_sub_workflow; ALTER TABLE task_data DROP COLUMN definition;"
    tasks += "ALTER TABLE workflow DROP COLUMN traceparent; ALTER TABLE task DROP COLUMN granted_for;"
    tasks += "ALTER TABLE workflow DROP COLUMN has_calls; ALTER TABLE workflow_data DROP COLUMN started_by;"
    for column in ("step_line", "step_count", "step_bytes", "suspended"):
        tasks += f"ALTER TABLE task DROP COLUMN {column};"
    db.executescript(f"{tables} {tasks} PRAGMA user_version = 2;")
    db.close()
    board = Board(tmp_path / "a.db")
    board.save()
    board.turn(1)
    assert board.moments() == [1]
    board.harness.close()
    db = sqlite3.connect(tmp_path / "a.db")
    assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    db.close()


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("turn"), st.floats(0.1, 5)),
            st.tuples(st.just("jump"), st.floats(-5, 5)),
            st.tuples(st.just("restart"), st.floats(0, 5)),
        ),
        max_size=12,
    ),
    catch_up=st.booleans(),
)
def test_no_moment_is_acted_on_twice_whatever_happens_to_clock_and_process(
    steps: list[tuple[str, float]], *, catch_up: bool
) -> None:
    """And with catch-up none is left out, up to the latest that was acted on."""
    board = Board()
    board.save(runCatchupScheduleInstances=catch_up)
    for what, minutes in steps:
        if what == "turn":
            board.turn(minutes)
        elif what == "jump":
            board.jump(minutes)
        else:
            board.harness.clock.advance(minutes * 60)
            board.turn_to(board.now_ms)
    found = board.moments()
    board.harness.close()
    assert found == sorted(set(found))
    if catch_up:
        assert found == list(range(1, len(found) + 1))


def test_a_schedule_that_is_probably_a_mistake_is_accepted_with_a_warning_u1_12_u4_78() -> None:
    board = Board()

    def save(name: str, **fields: Any) -> list[str]:
        board.save(name, **fields)
        return board.harness.store.call(lambda tx: find_schedule_warnings(tx, schedule_store.load(tx, name)))

    assert save("good") == []
    (unknown,) = save("misspelt", startWorkflowRequest={"name": "reprot"})
    assert unknown.startswith("schedule misspelt: there is no workflow 'reprot', so every run fails")
    assert unknown.endswith("did you mean 'report'?")
    assert save("newer", startWorkflowRequest={"name": "report", "version": 7}) == [
        "schedule newer: workflow 'report' has no version 7, so every run fails until it is registered"
    ]
    inline = {"name": "own", "tasks": [simple("work")]}
    assert save("inline", startWorkflowRequest={"name": "own", "workflowDef": inline}) == []
    assert save("twin", cron="0  * * * * *") == [
        "schedule twin: schedule 'good' starts workflow 'report' with the same input at the same times"
    ]
    assert save("other input", startWorkflowRequest={"name": "report", "input": {"a": 1}}) == []
    assert save("both", cron="0 0 3 * * *", cronSchedules=[{"cronExpression": "0 0 4 * * *"}]) == [
        "schedule both: cronExpression '0 0 3 * * *' has no effect, because cronSchedules is set"
    ]


def test_the_list_of_schedules_reads_each_schedule_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule for each customer starts the same workflow, and each could equal each other one."""
    board, load, loaded = Board(), schedule_store.load, list[str]()
    for number in range(20):
        start = {"name": "report", "input": {"customer": min(number, 18)}}
        board.save(f"s{number:02}", startWorkflowRequest=start)

    def count_and_load(tx: Tx, name: str) -> Schedule:
        loaded.append(name)
        return load(tx, name)

    monkeypatch.setattr(schedule_store, "load", count_and_load)
    found = board.harness.store.call(lambda tx: list_schedule_entries(tx, name=None, workflow=None)).schedules
    warned = {entry.schedule["name"]: entry.warnings for entry in found if entry.warnings}
    assert warned == {
        one: [f"schedule '{other}' starts workflow 'report' with the same input at the same times"]
        for one, other in (("s18", "s19"), ("s19", "s18"))
    }
    assert len(loaded) <= 3 * len(found)


def test_due_times_without_a_start_are_late_unless_all_schedules_are_paused_o08() -> None:
    board = Board()
    board.save("first")
    board.save("second", "0 0 * * * *")
    store = board.harness.store

    def count_late() -> int | None:
        return store.call(lambda tx: tx.first(LATE_DUE_TIMES, tx.now_ms - LATE_AFTER_MS))

    board.clock.advance(70)
    assert count_late() == 0
    board.clock.advance(1)
    assert count_late() == 1
    board.clock.advance(3600)
    assert count_late() == 2
    store.call(lambda tx: tx.run(PAUSE_SCHEDULES))
    assert count_late() == 0
