"""Results on disk: kept until their verdict, whatever happens to the file."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.client.automator import journal as module
from conductor.client.automator.journal import Entry, Journal, default_directory, read_entries

URL = "http://127.0.0.1:1/api"


def entry(number: int, size: int = 20) -> Entry:
    return Entry(
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


def kept(journal: Journal) -> list[Entry]:
    return list(read_entries(journal.path.read_bytes()))


def test_a_result_is_there_until_it_is_struck_out(journal: Journal) -> None:
    assert journal.put(entry(1))
    assert journal.put(entry(2))
    journal.done(entry(1))
    assert kept(journal) == [entry(2)]


def test_the_directory_and_the_file_are_for_their_owner_only(journal: Journal) -> None:
    assert journal.directory.stat().st_mode & 0o777 == 0o700
    assert journal.path.stat().st_mode & 0o777 == 0o600


def test_an_empty_journal_leaves_no_file(journal: Journal) -> None:
    journal.put(entry(1))
    journal.done(entry(1))
    journal.close()
    assert list(journal.directory.iterdir()) == []


def test_a_file_with_an_owner_is_not_adopted(journal: Journal) -> None:
    journal.put(entry(1))
    other = Journal(journal.directory, URL, max_bytes=1 << 20)
    assert list(other.adopt()) == []
    journal.close()
    (adopted,) = other.adopt()
    assert adopted.entries == [entry(1)]
    assert list(Journal(journal.directory, URL, max_bytes=1 << 20).adopt()) == [], "one adopts, not two"
    adopted.remove()
    assert list(journal.directory.iterdir()) == []


def test_a_file_of_another_server_is_not_adopted(journal: Journal) -> None:
    journal.put(entry(1))
    journal.close()
    assert list(Journal(journal.directory, "http://127.0.0.1:2/api", max_bytes=1 << 20).adopt()) == []


def _write_and_die(directory: Path) -> None:
    journal = Journal(directory, URL, max_bytes=1 << 20)
    journal.open()
    for number in range(100):
        journal.put(entry(number))
        if number % 2:
            journal.done(entry(number))
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_was_put_down_survives_the_death_of_the_process(tmp_path: Path) -> None:
    child = multiprocessing.get_context("forkserver").Process(target=_write_and_die, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    (adopted,) = Journal(tmp_path, URL, max_bytes=1 << 20).adopt()
    assert adopted.entries == [entry(number) for number in range(0, 100, 2)]
    adopted.release()


def test_a_long_life_does_not_make_a_large_file(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIDY_BYTES", 20_000)
    journal.put(entry(0))
    for number in range(1, 2000):
        journal.put(entry(number))
        journal.done(entry(number))
        assert journal.path.stat().st_size < 25_000
    assert kept(journal) == [entry(0)]
    assert len(list(journal.directory.iterdir())) == 1


def test_a_full_journal_keeps_what_it_has_and_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(tmp_path, URL, max_bytes=1000)
    journal.open()
    results = [journal.put(entry(number, 200)) for number in range(10)]
    held = results.index(False)
    assert held >= 2
    assert not any(results[held:])
    assert kept(journal) == [entry(number, 200) for number in range(held)]
    loud = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(loud) == 1
    assert "limit of 1000 bytes" in loud[0].getMessage()
    for number in range(held):
        journal.done(entry(number, 200))
    assert journal.put(entry(99)), "there is room again"
    journal.close()


def test_a_directory_that_cannot_be_written_stops_no_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    journal = Journal(blocked / "journal", URL, max_bytes=1 << 20)
    journal.open()
    assert not journal.put(entry(1))
    journal.done(entry(1))
    journal.close()
    assert "work goes on" in caplog.text


def _fill_the_disk(directory: Path, answers: object) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    journal = Journal(directory, URL, max_bytes=1 << 20)
    journal.open()
    answers.send([journal.put(entry(number, 500)) for number in range(20)])  # type: ignore[attr-defined]
    journal._kept.clear()
    os._exit(0)


def test_a_full_disk_keeps_every_record_that_was_promised(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("forkserver").Process(target=_fill_the_disk, args=(tmp_path, theirs))
    child.start()
    promised = ours.recv()
    child.join()
    assert True in promised
    assert False in promised
    (adopted,) = Journal(tmp_path, URL, max_bytes=1 << 20).adopt()
    assert adopted.entries == [entry(number, 500) for number, kept in enumerate(promised) if kept]
    adopted.release()


def _file_of(count: int) -> tuple[bytes, list[int]]:
    frames = [module._frame(module._Kept(entry(number))) for number in range(count)]
    ends = [sum(map(len, frames[: index + 1])) for index in range(count)]
    return b"".join(frames), ends


@given(count=st.integers(1, 6), cut=st.integers(0, 2000))
def test_a_torn_tail_costs_only_the_record_that_was_torn(count: int, cut: int) -> None:
    data, ends = _file_of(count)
    cut = min(cut, len(data))
    whole = sum(end <= cut for end in ends)
    assert list(read_entries(data[:cut])) == [entry(number) for number in range(whole)]


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
    assert list(read_entries(bytes(damaged))) == [entry(number) for number in intact]


@given(st.binary(max_size=300))
def test_anything_may_stand_in_the_file(data: bytes) -> None:
    assert list(read_entries(data)) == []


def test_a_user_without_a_name_or_a_home_has_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """As containers run that are given any number for a user."""

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    assert default_directory().is_relative_to(tempfile.gettempdir())
