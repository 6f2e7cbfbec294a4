"""Which tasks are blamed for the death of a process, and what is reported about them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from conductor.client.automator.adopted_journal import AdoptedJournal, adopt_files
from conductor.client.automator.execution_marks import ExecutionMarks, read_marks
from conductor.client.automator.journal import HeldTask, Journal
from conductor.client.automator.process_deaths import DeathRecord, DeathRecords, describe_exit, judge, read_records
from conductor.client.automator.recovery import list_judged_files
from conductor.client.event.task_runner_events import TaskProcessDied
from conductor.testing import FakeClock

URL = "http://server/api"
NOW_MS = 1_000_000
SEGFAULT, KILLED = -signal.SIGSEGV, -signal.SIGKILL


def task(name: str, *, poll_count: int = 1, attempt: int = 0) -> HeldTask:
    return HeldTask(f"{name}-{attempt}", "workflow", "job", "worker", poll_count, NOW_MS + 60_000, reference_name=name)


class Dead:
    """Processes that die one after the other, and what is decided about their tasks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.records = DeathRecords.of(Journal(directory, URL, max_bytes=1 << 20))

    def leave(self, held: list[HeldTask], executing: list[HeldTask], *, on_probation: str = "", limit: int = 3) -> None:
        """Leave the files of a process that has died."""
        journal = Journal(self._directory, URL, max_bytes=1 << 20)
        journal.open()
        journal.add_tasks(held)
        assert journal.marks is not None
        for one in executing:
            journal.marks.begin(one.task_id, limit)
        journal.marks.set_probation(on_probation)
        journal.close_file()

    def adopt(self) -> AdoptedJournal:
        (file,) = adopt_files(Journal(self._directory, URL, max_bytes=1 << 20))
        return file

    def die(self, held: list[HeldTask], executing: list[HeldTask], status: int | None, **options: object) -> list[str]:
        """Let one more process die. Return the reports about its tasks as pairs of task id and status."""
        self.leave(held, executing, **options)  # type: ignore[arg-type]
        file = self.adopt()
        self.events: list[TaskProcessDied] = judge(file, self.records, NOW_MS, status)
        bodies = [json.loads(entry.body) for entry in file.reports]
        blamed = [body for body in bodies if not body.get("neverStarted")]
        reports = [f"{body['taskId']} {body['status']}" for body in blamed]
        reports += [f"{one.task_id} given back" for one in file.tasks]
        reports += [f"{body['taskId']} never started" for body in bodies if body.get("neverStarted")]
        self.reasons = [body.get("reasonForIncompletion") for body in blamed]
        file.remove_file()
        return reports


@pytest.fixture
def dead(tmp_path: Path) -> Dead:
    return Dead(tmp_path)


def test_the_only_task_that_was_executing_fails_and_the_others_are_given_back_a14(dead: Dead) -> None:
    a, b = task("a"), task("b")
    assert dead.die([a, b], [a], 3) == ["a-0 FAILED", "b-0 never started"]
    assert dead.reasons == [
        "the worker process exited with status 3 while it executed this task (death 1; poison_limit=3)"
    ]
    (event,) = dead.events
    assert (event.cause, event.exit_status, event.deaths) == ("the worker process exited with status 3", 3, 1)


def test_deaths_are_counted_over_retries_up_to_the_poison_limit_a14(dead: Dead) -> None:
    assert dead.die([task("a")], [task("a")], SEGFAULT) == ["a-0 FAILED"]
    retries = [task("a", attempt=1), task("a", attempt=2), task("a", attempt=3)]
    assert dead.die([retries[0]], [retries[0]], SEGFAULT) == ["a-1 FAILED"]
    assert dead.die([retries[1]], [retries[1]], SEGFAULT) == ["a-2 FAILED_WITH_TERMINAL_ERROR"]
    assert dead.die([retries[2]], [retries[2]], SEGFAULT) == ["a-3 FAILED"], "retried by hand: counted from zero"


@pytest.mark.parametrize(("limit", "status"), [(1, "FAILED_WITH_TERMINAL_ERROR"), (0, "FAILED")])
def test_the_poison_limit_is_the_workers_own_a14(dead: Dead, limit: int, status: str) -> None:
    assert dead.die([task("a")], [task("a")], 1, limit=limit) == [f"a-0 {status}"]


@pytest.mark.parametrize("status", [KILLED, -signal.SIGTERM, None])
def test_the_first_death_that_may_come_from_outside_costs_no_attempt_a14(dead: Dead, status: int | None) -> None:
    first, second = task("a"), task("a", poll_count=2)
    assert dead.die([first], [first], status) == ["a-0 IN_PROGRESS"]
    assert dead.die([second], [second], status) == ["a-0 FAILED"]


def test_several_that_were_executing_are_suspects_and_do_not_count_a14(dead: Dead) -> None:
    tasks = [task(name) for name in "abc"]
    assert dead.die(tasks, tasks[:2], 3) == ["a-0 IN_PROGRESS", "b-0 IN_PROGRESS", "c-0 never started"]
    assert [(event.deaths, event.suspicions) for event in dead.events] == [(0, 1), (0, 1)]
    assert sorted(record.reference_name for record in read_records(dead._directory)) == ["a", "b"]
    again = task("a", poll_count=2)
    assert dead.die([again], [again], 3) == ["a-0 FAILED"]


def test_a_task_on_probation_is_the_culprit_whatever_else_is_executing_a14(dead: Dead) -> None:
    a, b = task("a"), task("b")
    assert dead.die([a, b], [a, b], 3, on_probation="b-0") == ["b-0 FAILED", "a-0 given back"]


def test_a_death_is_counted_once_even_if_the_judge_dies_too_a14(dead: Dead) -> None:
    a = task("a")
    before = DeathRecord(
        workflow_instance_id="workflow", reference_name="a", task_type="job", task_id="a-0", poll_count=1, deaths=1
    )
    dead.records.save(before)
    dead.die([a], [a], SEGFAULT)
    assert dead.events[0].deaths == 1


def test_a_process_that_was_told_to_end_blames_no_task_a14(dead: Dead) -> None:
    a = task("a")
    journal = Journal(dead._directory, URL, max_bytes=1 << 20)
    journal.open()
    journal.add_tasks([a])
    assert journal.marks is not None
    journal.marks.begin(a.task_id, 3)
    journal.close()
    file = dead.adopt()
    assert judge(file, dead.records, NOW_MS) == []
    assert file.tasks == [a]
    file.remove_file()
    assert list(dead._directory.iterdir()) == []


def test_old_records_are_forgotten_a14(dead: Dead) -> None:
    dead.die([task("a")], [task("a")], 3)
    dead.records.forget_old(NOW_MS + 1000, max_age_s=2)
    assert len(read_records(dead._directory)) == 1
    dead.records.forget_old(NOW_MS + 3000, max_age_s=2)
    assert read_records(dead._directory) == []


def test_the_cause_of_a_death_is_named_a14() -> None:
    assert describe_exit(0) == "the worker process exited with status 0"
    assert describe_exit(SEGFAULT) == "the worker process was killed by SIGSEGV"
    assert describe_exit(KILLED) == "the worker process was killed by SIGKILL (out of memory?)"
    assert describe_exit(-40) == "the worker process was killed by signal 40"
    assert describe_exit(None) == "the worker process died"


class TestMarks:
    """The notes of what a process is executing."""

    @pytest.fixture
    def marks(self, tmp_path: Path) -> ExecutionMarks:
        return ExecutionMarks(tmp_path / "one.executing", FakeClock())

    def _executing(self, marks: ExecutionMarks) -> list[str]:
        found = read_marks(marks.path)
        assert found is not None
        return sorted(mark.task_id.decode() for mark in found.executing)

    def test_marks_may_take_more_than_a_page_a14(self, marks: ExecutionMarks) -> None:
        slots = [marks.begin(f"task-{number:03}", 3) for number in range(200)]
        assert self._executing(marks) == [f"task-{number:03}" for number in range(200)]
        for slot in slots[1:]:
            marks.end(slot)
        assert self._executing(marks) == ["task-000"]
        marks.begin("another", 3)
        assert self._executing(marks) == ["another", "task-000"]

    @pytest.mark.parametrize("damage", [b"", b"x" * 64, b"CWE1"])
    def test_a_file_that_says_nothing_a14(self, tmp_path: Path, damage: bytes) -> None:
        (tmp_path / "damaged").write_bytes(damage)
        (tmp_path / "damaged").chmod(0o600)
        assert read_marks(tmp_path / "damaged") is None
        assert read_marks(tmp_path / "missing") is None

    def test_a_file_that_others_can_write_is_not_believed_a14(self, marks: ExecutionMarks) -> None:
        marks.begin("task", 3)
        marks.path.chmod(0o666)
        assert read_marks(marks.path) is None

    @pytest.mark.parametrize("is_removed", [False, True])
    def test_marks_follow_the_journal_a14(self, marks: ExecutionMarks, tmp_path: Path, is_removed: bool) -> None:
        old = marks.begin("old", 3)
        if is_removed:
            marks.path.unlink()
        marks.move(tmp_path / "two.executing")
        marks.begin("new", 3)
        assert self._executing(marks) == (["new"] if is_removed else ["new", "old"])
        marks.end(old)
        assert self._executing(marks) == ["new"]

    def test_a_full_disk_costs_the_mark_and_not_the_work_a14(
        self, marks: ExecutionMarks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("conductor.client.automator.execution_marks.os.pwrite", full)
        slots = [marks.begin(f"{number}", 3) for number in range(100)]
        assert slots[-1] is None
        marks.end(slots[-1])


def test_a_death_that_the_program_has_not_judged_yet_is_left_to_it_a14(dead: Dead) -> None:
    """Only the program knows the exit status; the process that sends reports may start at the very moment."""
    a = task("a")
    dead.leave([a], [a])
    journal = Journal(dead._directory, URL, max_bytes=1 << 20)
    assert list_judged_files(journal) == []
    file = dead.adopt()
    judge(file, dead.records, NOW_MS, 3)
    file.close_file()
    (judged,) = list_judged_files(journal)
    assert [entry.status for entry in judged.reports] == ["FAILED"]
    judged.close_file()
