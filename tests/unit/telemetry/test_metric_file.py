"""The metric file of a process: written by one process, read by others, and kept after its death."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conductor.client.telemetry.metric_file import (
    CHUNK_BYTES,
    LABEL_CHARS,
    MetricFile,
    Payload,
    Record,
    read_records,
)
from conductor.client.telemetry.metric_values import WINDOW_S, WINDOWS


def records(file: MetricFile) -> dict[tuple[str, ...], Record]:
    assert file.path is not None
    return {record.key: record for record in read_records(file.path.read_bytes())}


def test_a_metric_file_reads_back_its_values(tmp_path: Path) -> None:
    file = MetricFile(tmp_path / "a.db")
    file.counter("polls", 'täsk "quoted"\n').add(2.5)
    file.gauge("slots").set(-3)
    file.text("error").set("kaputt: ü")
    file.summary("time", ("t",)).observe(0.25)
    found = records(file)
    assert found["polls", 'täsk "quoted"\n'].number() == 2.5
    assert (found["slots",].kind, found["slots",].number()) == (Payload.GAUGE, -3)
    assert found["error",].text() == "kaputt: ü"
    assert found["time_count", "t"].number() == 1
    assert found["time_sum", "t"].number() == 0.25
    assert [sum(window.values()) for _, window in found["time", "t"].windows()] == [1]


def test_two_objects_for_one_key_share_the_record(tmp_path: Path) -> None:
    file = MetricFile(tmp_path / "a.db")
    file.counter("a").add()
    file.counter("a").add()
    assert file.counter("a").value == 2
    for status in ("OK", "BAD", "OK"):
        file.summary("s", ("x",), (status,)).observe(1.0)
    assert file.counter("s_count", "x", "OK").value == 2
    assert [sum(counts.values()) for _, counts in records(file)["s", "x"].windows()] == [3]


def test_a_file_grows_chunk_by_chunk(tmp_path: Path) -> None:
    file = MetricFile(tmp_path / "a.db")
    for i in range(40):
        file.summary("time", (str(i),)).observe(i)
    assert file.path is not None
    assert file.path.stat().st_size > CHUNK_BYTES
    assert file.path.stat().st_size % CHUNK_BYTES == 0
    assert {records(file)["time_sum", str(i)].number() for i in range(40)} == set(map(float, range(40)))


def test_old_minutes_make_room_for_new_ones(tmp_path: Path) -> None:
    now_s = 5000.0
    file = MetricFile(tmp_path / "a.db", lambda: now_s)
    summary = file.summary("time", ("t",))
    for _ in range(2 * WINDOWS):
        summary.observe(1.0)
        now_s += WINDOW_S
    windows = dict(records(file)["time", "t"].windows())
    assert len(windows) == WINDOWS
    assert max(windows) - min(windows) == WINDOWS - 1
    assert all(sum(window.values()) == 1 for window in windows.values())
    assert records(file)["time_count", "t"].number() == 2 * WINDOWS


def test_a_minute_that_has_just_begun_is_empty(tmp_path: Path) -> None:
    file = MetricFile(tmp_path / "a.db")
    file.summary("time", ("t",))._sketch.start_minute(7)
    assert [counts for _, counts in records(file)["time", "t"].windows()] == [{}]


def test_threads_lose_no_count(tmp_path: Path) -> None:
    file = MetricFile(tmp_path / "a.db")
    counter, summary = file.counter("c"), file.summary("s", ("t",))

    def count() -> None:
        for _ in range(20_000):
            counter.add()
            summary.observe(0.5)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    found = records(file)
    assert found["c",].number() == found["s_count", "t"].number() == 80_000
    assert sum(sum(window.values()) for _, window in found["s", "t"].windows()) == 80_000


def test_long_texts_and_labels_are_cut(tmp_path: Path) -> None:
    file = MetricFile(tmp_path / "a.db")
    file.text("error").set("ü" * 10_000)
    file.text("error").set("short")
    file.counter("c", "x" * 10_000).add()
    found = records(file)
    assert found["error",].text() == "short"
    assert found["c", "x" * LABEL_CHARS].number() == 1


def test_a_file_that_is_not_ours_has_no_records(tmp_path: Path) -> None:
    assert list(read_records(b"")) == []
    assert list(read_records(b"\0" * CHUNK_BYTES)) == []
    assert list(read_records(b"SQLite format 3\0" * (CHUNK_BYTES // 16))) == []


def test_a_directory_that_cannot_be_written_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    file = MetricFile(tmp_path / "file" / "a.db")
    file.counter("c").add()
    assert file.counter("c").value == 1
    assert [r.levelname for r in caplog.records] == ["ERROR"]
    assert "the worker continues without them" in caplog.text


def test_a_full_disk_is_one_line_and_no_crash(tmp_path: Path) -> None:
    """The limit on file size stands in for the disk's: setting space aside fails in the same call."""
    script = f"""
import resource
from pathlib import Path
from conductor.client.telemetry.metric_file import CHUNK_BYTES, MetricFile
resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK_BYTES, CHUNK_BYTES))
file = MetricFile(Path({str(tmp_path)!r}) / "a.db")
for i in range(100):
    file.summary("time", (str(i),)).observe(1.0)
    file.counter("first").add()
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("Metrics cannot be written") == 1
    found = {record.key: record for record in read_records((tmp_path / "a.db").read_bytes())}
    assert found["first",].number() == 100
