"""Results on disk: kept until their verdict, whatever happens to the file."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.client.automator import journal as module
from conductor.client.automator.adopted_journal import AdoptedJournal, adopt_files
from conductor.client.automator.journal import (
    _MARK,
    HeldTask,
    Journal,
    JournalContents,
    PendingReport,
    ReportAdded,
    encode_records,
    read_contents,
)
from conductor.common.machine import state_directory

URL = "http://127.0.0.1:1/api"


def entry(number: int, size: int = 20) -> PendingReport:
    return PendingReport(
        report_id=f"r{number}",
        task_id=f"t{number}",
        task_type="job",
        status="COMPLETED",
        written_ms=1,
        body=b'{"n":%d,"x":"%s"}' % (number, b"x" * size),
    )


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "state" / "journal", URL, max_bytes=1 << 20)
    made.open()
    yield made
    made.close()


def kept(journal: Journal) -> list[PendingReport]:
    return list(read_contents(journal.path.read_bytes()).reports.values())


def test_a_result_is_there_until_it_is_struck_out(journal: Journal) -> None:
    assert journal.add(entry(1))
    assert journal.add(entry(2))
    assert journal.count_reports() == {"job": 2}
    journal.remove(entry(1))
    assert kept(journal) == [entry(2)]
    assert journal.count_reports() == {"job": 1}


async def test_entries_of_one_tick_are_one_write(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    writes, write = [], os.write

    def counted(file: int, data: bytes) -> int:
        writes.append(len(data))
        return write(file, data)

    monkeypatch.setattr("os.write", counted)
    for number in range(3):
        journal.add_soon(entry(number))
    assert kept(journal) == []
    journal.flush()
    assert kept(journal) == [entry(0), entry(1), entry(2)]
    for number in range(2):
        journal.remove_soon(entry(number))
    await asyncio.sleep(0)  # the end of the tick
    assert kept(journal) == [entry(2)]
    assert len(writes) == 2


def test_the_directory_and_the_file_are_for_their_owner_only(journal: Journal) -> None:
    assert journal.directory.stat().st_mode & 0o777 == 0o700
    assert journal.path.stat().st_mode & 0o777 == 0o600


def test_an_empty_journal_leaves_no_file(journal: Journal) -> None:
    journal.add(entry(1))
    journal.remove(entry(1))
    journal.close()
    assert list(journal.directory.iterdir()) == []


def test_a_file_with_an_owner_is_not_adopted(journal: Journal) -> None:
    journal.add(entry(1))
    other = Journal(journal.directory, URL, max_bytes=1 << 20)
    assert list(adopt_files(other)) == []
    journal.close()
    (adopted,) = adopt_files(other)
    assert adopted.reports == [entry(1)]
    assert list(adopt_files(Journal(journal.directory, URL, max_bytes=1 << 20))) == [], "one adopts, not two"
    adopted.remove_file()
    assert list(journal.directory.iterdir()) == []


def test_a_file_of_another_server_is_not_adopted_o11(journal: Journal) -> None:
    journal.add(entry(1))
    journal.close()
    assert list(adopt_files(Journal(journal.directory, "http://127.0.0.1:2/api", max_bytes=1 << 20))) == []


def _write_and_die(directory: Path) -> None:
    journal = Journal(directory, URL, max_bytes=1 << 20)
    journal.open()
    for number in range(100):
        journal.add(entry(number))
        if number % 2:
            journal.remove(entry(number))
    os.kill(os.getpid(), signal.SIGKILL)


def test_entries_and_removals_survive_the_death_of_the_process(tmp_path: Path) -> None:
    child = multiprocessing.get_context("forkserver").Process(target=_write_and_die, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    (adopted,) = adopt_files(Journal(tmp_path, URL, max_bytes=1 << 20))
    assert adopted.reports == [entry(number) for number in range(0, 100, 2)]
    adopted.close_file()


def test_a_long_life_does_not_make_a_large_file(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COMPACT_BYTES", 20_000)
    journal.add(entry(0))
    for number in range(1, 2000):
        journal.add(entry(number))
        journal.remove(entry(number))
        assert journal.path.stat().st_size < 25_000
    assert kept(journal) == [entry(0)]
    assert len(list(journal.directory.glob("*.journal"))) == 1


def test_a_full_journal_keeps_what_it_has_and_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(tmp_path, URL, max_bytes=1000)
    journal.open()
    results = [journal.add(entry(number, 200)) for number in range(10)]
    held = results.index(False)
    assert held >= 2
    assert not any(results[held:])
    assert kept(journal) == [entry(number, 200) for number in range(held)]
    loud = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(loud) == 1
    assert "limit of 1000 bytes" in loud[0].getMessage()
    for number in range(held):
        journal.remove(entry(number, 200))
    assert journal.add(entry(99)), "there is room again"
    journal.close()


def test_a_directory_that_cannot_be_written_stops_no_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    journal = Journal(blocked / "journal", URL, max_bytes=1 << 20)
    journal.open()
    assert not journal.add(entry(1))
    journal.remove(entry(1))
    journal.close()
    assert "workers continue" in caplog.text


def _fill_the_disk(directory: Path, answers: object) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    journal = Journal(directory, URL, max_bytes=1 << 20)
    journal.open()
    answers.send([journal.add(entry(number, 500)) for number in range(20)])  # type: ignore[attr-defined]
    journal._contents = JournalContents()
    os._exit(0)


def test_a_full_disk_keeps_every_record_that_was_promised(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("forkserver").Process(target=_fill_the_disk, args=(tmp_path, theirs))
    child.start()
    promised = ours.recv()
    child.join()
    assert True in promised
    assert False in promised
    (adopted,) = adopt_files(Journal(tmp_path, URL, max_bytes=1 << 20))
    assert adopted.reports == [entry(number, 500) for number, kept in enumerate(promised) if kept]
    adopted.close_file()


def _finish_on_a_full_disk(directory: Path, left: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
    journal = Journal(directory, URL, max_bytes=1 << 20)
    journal.open()
    numbers = [number for number in range(500) if journal.add(entry(number))]
    for number in numbers[: len(numbers) - left]:
        journal.remove(entry(number))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    if left:
        journal.add(entry(1000))
    os._exit(0)


@pytest.mark.parametrize(("left", "there"), [(0, 0), (3, 4)])
def test_a_report_with_a_verdict_on_a_full_disk_is_not_sent_again(left: int, there: int, tmp_path: Path) -> None:
    """The process dies afterwards: with nothing left at once, else after the next result that can be written again."""
    child = multiprocessing.get_context("forkserver").Process(target=_finish_on_a_full_disk, args=(tmp_path, left))
    child.start()
    child.join()
    (adopted,) = adopt_files(Journal(tmp_path, URL, max_bytes=1 << 20))
    assert len(adopted.reports) == there
    adopted.close_file()


def _file_of(count: int) -> tuple[bytes, list[int]]:
    frames = [encode_records([ReportAdded(entry(number))]) for number in range(count)]
    ends = [sum(map(len, frames[: index + 1])) for index in range(count)]
    return b"".join(frames), ends


@given(count=st.integers(1, 6), cut=st.integers(0, 2000))
def test_a_torn_tail_costs_only_the_record_that_was_torn(count: int, cut: int) -> None:
    data, ends = _file_of(count)
    cut = min(cut, len(data))
    whole = sum(end <= cut for end in ends)
    assert list(read_contents(data[:cut]).reports.values()) == [entry(number) for number in range(whole)]


@given(
    count=st.integers(1, 6),
    damage=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 255)), min_size=1, max_size=5),
    zeros=st.tuples(st.integers(0, 2000), st.integers(0, 100)),
)
def test_damage_never_crashes_never_invents_and_never_takes_an_intact_record(
    count: int, damage: list[tuple[int, int]], zeros: tuple[int, int]
) -> None:
    data, ends = _file_of(count)
    damaged = bytearray(data)
    for at, bits in damage:
        damaged[at % len(data)] ^= bits
    start = zeros[0] % len(data)
    damaged[start : start + zeros[1]] = bytes(len(damaged[start : start + zeros[1]]))
    begins = [0, *ends[:-1]]
    intact = [
        number
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
        if damaged[begin:end] == data[begin:end]
    ]
    assert list(read_contents(bytes(damaged)).reports.values()) == [entry(number) for number in intact]


@given(st.binary(max_size=300))
def test_anything_may_stand_in_the_file(data: bytes) -> None:
    assert list(read_contents(data).reports.values()) == []


def test_a_user_without_a_name_or_a_home_has_a_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As containers run that are given any number for a user."""

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert state_directory().is_relative_to(tmp_path)


def taken(number: int, *, poll_count: int = 1) -> HeldTask:
    return HeldTask(f"t{number}", f"w{number}", "job", "me", poll_count, until_ms=1_000)


def held_tasks(journal: Journal) -> list[HeldTask]:
    return list(read_contents(journal.path.read_bytes()).tasks.values())


def _say_and_wait(pipe: Connection) -> None:
    pipe.send(None)
    pipe.recv()


class TestRunningTasks:
    """Polled tasks are in the journal until there is a result or the task needs no report."""

    def test_a_batch_is_one_record(self, journal: Journal) -> None:
        journal.add_tasks([taken(1), taken(2)])
        assert held_tasks(journal) == [taken(1), taken(2)]
        assert journal.path.read_bytes().count(_MARK) == 1

    def test_a_result_takes_the_place_of_its_task(self, journal: Journal) -> None:
        journal.add_tasks([taken(1, poll_count=0), taken(2)])
        journal.add(entry(1))
        assert held_tasks(journal) == [taken(2)]
        assert kept(journal) == [entry(1)]
        before = journal.path.stat().st_size
        journal.remove_task("t1", 0)
        assert journal.path.stat().st_size == before, "its verdict costs no second word"

    def test_a_task_that_ended_without_a_result_is_removed(self, journal: Journal) -> None:
        journal.add_tasks([taken(1)])
        journal.remove_task("t1", 1)
        assert held_tasks(journal) == []
        journal.close()
        assert list(journal.directory.iterdir()) == []

    def test_the_end_of_an_earlier_delivery_is_not_the_end_of_this_one(self, journal: Journal) -> None:
        journal.add_tasks([taken(1, poll_count=1)])
        journal.add_tasks([taken(1, poll_count=2)])
        journal.remove_task("t1", 1)
        assert held_tasks(journal) == [taken(1, poll_count=2)]

    def test_a_heartbeat_is_remembered(self, journal: Journal) -> None:
        journal.add_tasks([taken(1)])
        journal.extend_lease("t1", 5_000)
        journal.extend_lease("another", 5_000)
        assert [task.until_ms for task in held_tasks(journal)] == [5_000]

    def test_running_tasks_stay_in_a_journal_that_is_rewritten(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_COMPACT_BYTES", 20_000)
        journal.add_tasks([taken(0)])
        for number in range(1, 1000):
            journal.add(entry(number))
            journal.remove(entry(number))
        assert journal.path.stat().st_size < 25_000
        assert held_tasks(journal) == [taken(0)]

    def test_a_process_with_work_in_hand_leaves_its_file(self, journal: Journal) -> None:
        journal.add_tasks([taken(1)])
        journal.close()
        (adopted,) = adopt_files(Journal(journal.directory, URL, max_bytes=1 << 20))
        assert adopted.tasks == [taken(1)]
        adopted.remove(taken(1).make_requeue_report(0))
        adopted.close_file()
        (again,) = adopt_files(Journal(journal.directory, URL, max_bytes=1 << 20))
        assert again.tasks == []
        again.close_file()

    def test_every_process_gives_a_task_back_with_the_same_body(self) -> None:
        assert taken(1).make_requeue_report(1).body == taken(1).make_requeue_report(2).body

    def test_a_forked_child_does_not_keep_the_file_of_its_dead_parent(self, journal: Journal) -> None:
        journal.add_tasks([taken(1)])
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=_say_and_wait, args=(theirs,), daemon=True)
        child.start()
        ours.recv()
        journal.close()
        adopted = list(adopt_files(Journal(journal.directory, URL, max_bytes=1 << 20)))
        ours.send(None)
        child.join()
        assert [file.tasks for file in adopted] == [[taken(1)]]
        adopted[0].close_file()


def _tidy_on_a_full_disk(directory: Path) -> None:
    module._COMPACT_BYTES = 1 << 20
    journal = Journal(directory, URL, max_bytes=1 << 20)
    journal.open()
    for number in range(100):
        journal.add(entry(number, 500))
        if number >= 30:
            journal.remove(entry(number, 500))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))
    module._COMPACT_BYTES = 1
    journal.add(entry(99))
    os._exit(0)


def test_on_a_full_disk_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    child = multiprocessing.get_context("forkserver").Process(target=_tidy_on_a_full_disk, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 0
    found = [
        entry.report_id for path in tmp_path.iterdir() for entry in read_contents(path.read_bytes()).reports.values()
    ]
    assert [f"r{number}" for number in range(30)] == found


class TestRemoved:
    """The directory is cleared while workers run."""

    def test_a_removed_journal_is_written_again(self, journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
        journal.add(entry(1))
        journal.add_tasks([taken(2)])
        shutil.rmtree(journal.directory.parent)
        assert journal.add(entry(3))
        assert kept(journal) == [entry(1), entry(3)]
        assert held_tasks(journal) == [taken(2)]
        assert "was removed" in caplog.text

    def test_a_removed_journal_that_cannot_be_rewritten_is_logged_as_critical(
        self, journal: Journal, caplog: pytest.LogCaptureFixture
    ) -> None:
        journal.add(entry(1))
        shutil.rmtree(journal.directory.parent)
        journal.directory.parent.write_text("not a directory")
        assert not journal.add(entry(2))
        assert [record.levelno for record in caplog.records] == [logging.CRITICAL]
        journal.directory.parent.unlink()
        assert journal.add(entry(3)), "there is a place again"
        assert kept(journal) == [entry(1), entry(3)]


class TestForeignFiles:
    """Entries of a journal are sent with the worker's credentials, so foreign files must not be read."""

    def _left(self, journal: Journal) -> Path:
        journal.add(entry(1))
        journal.close()
        return journal.path

    def _adopted(self, journal: Journal) -> list[AdoptedJournal]:
        return list(adopt_files(Journal(journal.directory, URL, max_bytes=1 << 20)))

    @pytest.mark.parametrize("mode", [0o620, 0o602])
    def test_a_file_that_others_can_write_is_left_alone(
        self, journal: Journal, mode: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        self._left(journal).chmod(mode)
        assert self._adopted(journal) == []
        assert self._adopted(journal) == []
        assert caplog.text.count("is not adopted") == 1

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_a_file_of_another_user_is_left_alone(self, journal: Journal) -> None:
        os.chown(self._left(journal), 12345, -1)
        assert self._adopted(journal) == []

    def test_a_link_to_a_file_elsewhere_is_left_alone(self, journal: Journal, tmp_path: Path) -> None:
        path = self._left(journal)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        assert self._adopted(journal) == []

    def test_a_directory_that_others_can_write_is_worth_a_warning(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        tmp_path.chmod(0o777)
        journal = Journal(tmp_path, URL, max_bytes=1 << 20)
        assert journal.open()
        journal.add(entry(1))
        journal.add(entry(2))
        journal.close()
        assert caplog.text.count("Other users can write to the journal directory") == 1

    def test_without_a_home_a_directory_that_others_can_write_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        self._without_home(monkeypatch, tmp_path)
        (tmp_path / f"state-{os.getuid()}").mkdir()
        (tmp_path / f"state-{os.getuid()}").chmod(0o777)
        with pytest.raises(PermissionError, match="XDG_STATE_HOME"):
            state_directory()

    def test_without_a_home_a_link_is_refused(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self._without_home(monkeypatch, tmp_path)
        (tmp_path / "mine").mkdir()
        (tmp_path / f"state-{os.getuid()}").symlink_to(tmp_path / "mine")
        with pytest.raises(PermissionError, match="XDG_STATE_HOME"):
            state_directory()

    def test_without_a_home_the_journal_directory_is_private(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        self._without_home(monkeypatch, tmp_path)
        assert state_directory().parent.stat().st_mode & 0o777 == 0o700

    def _without_home(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def nobody() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", nobody)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("size", [3 << 20, 5 << 30], ids=["3 MB", "5 GB"])
def test_a_file_of_absurd_size_is_set_aside_a12(journal: Journal, size: int, caplog: pytest.LogCaptureFixture) -> None:
    """The file is neither read nor removed, and one line says where it is. Other files are adopted."""
    journal.add(entry(1))
    journal.close()
    os.truncate(journal.path, size)
    other = Journal(journal.directory, URL, max_bytes=1 << 20)
    other.open()
    other.add(entry(2))
    other.close()
    for _ in range(2):  # the second start says nothing more
        adopted = list(adopt_files(Journal(journal.directory, URL, max_bytes=1 << 20)))
        assert [kept.report_id for file in adopted for kept in file.reports] == ["r2"]
        for file in adopted:
            file.close_file()
    aside = journal.path.with_name(f"{journal.path.name}.too-large")
    assert aside.stat().st_size == size
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
    assert str(aside) in line
