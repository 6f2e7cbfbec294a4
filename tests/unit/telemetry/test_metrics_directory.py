"""The directory of metric files: shared by processes, and swept after they die."""

from __future__ import annotations

import os
import pickle
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conductor.client.telemetry.metrics_directory import MetricsDirectory, MetricsDirectoryError, private_directory

from .conftest import Child

KEY = ("c", "t")


@pytest.fixture
def directory(tmp_path: Path) -> MetricsDirectory:
    return MetricsDirectory(tmp_path)


def test_processes_are_added_up(directory: MetricsDirectory) -> None:
    for count in (1, 2, 3):
        file = directory.place.new_file()
        file.counter(*KEY).add(count)
        file.gauge("g", "t").set(count)
        file.summary("s", ("t",)).observe(count)
    totals = directory.totals()
    assert totals.counters[KEY] == 6
    assert totals.gauges["g", "t"] == 6
    assert totals.counters["s_sum", "t"] == 6
    assert sum(totals.merge_minutes(("s", "t"), 0).values()) == 3


def test_an_ended_process_is_folded_in_and_its_file_removed(directory: MetricsDirectory, tmp_path: Path) -> None:
    ended, live = directory.place.new_file(), directory.place.new_file()
    for file in (ended, live):
        file.counter(*KEY).add(5)
        file.gauge("g", "t").set(1)
        file.summary("s", ("t",)).observe(1.0)
    ended.close()
    for _ in range(3):
        totals = directory.totals()
        assert totals.counters[KEY] == 10
        assert totals.gauges["g", "t"] == 1, "a gauge ends with its process"
        assert sum(totals.merge_minutes(("s", "t"), 0).values()) == 2
    assert list(tmp_path.glob("*.db")) == [live.path]


def test_a_hundred_restarts_leave_no_file(directory: MetricsDirectory, tmp_path: Path) -> None:
    """P22: files of dead processes were never cleaned."""
    for _ in range(100):
        file = directory.place.new_file()
        file.counter(*KEY).add()
        file.close()
        directory.collect_ended()
    assert list(tmp_path.glob("*.db")) == []
    assert directory.totals().counters[KEY] == 100


def test_old_minutes_of_ended_processes_are_forgotten(tmp_path: Path) -> None:
    now_s = 5000.0
    directory = MetricsDirectory(tmp_path, lambda: now_s)
    file = directory.place.new_file(lambda: now_s)
    file.summary("s", ("t",)).observe(1.0)
    file.close()
    assert sum(directory.totals().merge_minutes(("s", "t"), 0).values()) == 1
    now_s += 600
    assert sum(directory.totals().merge_minutes(("s", "t"), 0).values()) == 0
    assert directory.totals().counters["s_count", "t"] == 1


def test_kill_9_loses_nothing_that_was_counted(directory: MetricsDirectory, child: Callable[..., Child]) -> None:
    killed = child(directory.place, 'collector.file.counter("c", "t").add(7); say("counted"); told()')
    assert killed.heard() == "counted"
    killed.kill()
    assert directory.totals().counters[KEY] == 7
    assert directory.read_processes() == []


def test_a_file_that_somebody_removed_harms_nobody(directory: MetricsDirectory) -> None:
    file = directory.place.new_file()
    file.counter(*KEY).add()
    assert file.path is not None
    file.path.unlink()
    assert directory.totals().counters == {}
    file.counter(*KEY).add()


def test_closing_leaves_nothing_behind(directory: MetricsDirectory, tmp_path: Path) -> None:
    directory.place.new_file().counter(*KEY).add()
    (tmp_path / "metrics.prom").write_text("somebody's")
    directory.close()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.prom"]
    assert directory.totals().counters[KEY] == 1, "what was counted is still known"


def test_handlers_that_share_a_directory_count_apart(tmp_path: Path) -> None:
    one, other = MetricsDirectory(tmp_path), MetricsDirectory(tmp_path)
    one.place.new_file().counter(*KEY).add(1)
    other.place.new_file().counter(*KEY).add(10)
    assert one.totals().counters[KEY] == 1
    one.close()
    assert other.totals().counters[KEY] == 10
    other.close()


def test_files_of_a_killed_handler_are_removed_by_the_next(tmp_path: Path) -> None:
    parent = os.fork()
    if parent == 0:  # a handler that dies without a word
        MetricsDirectory(tmp_path).place.new_file().counter(*KEY).add()
        os._exit(0)
    os.waitpid(parent, 0)
    assert len(list(tmp_path.glob("*.db"))) == 1
    living = MetricsDirectory(tmp_path)
    mine = living.place.new_file()
    assert list(tmp_path.glob("*.db")) == [mine.path]
    after = MetricsDirectory(tmp_path)
    assert list(tmp_path.glob("*.db")) == [mine.path], "a living handler's files are not touched"
    assert living.totals().counters == after.totals().counters == {}


def test_the_default_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = private_directory()
    assert path == private_directory(), "one for all of a user's handlers"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    path.chmod(0o777)
    elsewhere = private_directory()
    assert elsewhere != path
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MetricsDirectoryError, match=r"file/metrics cannot be used .*MetricsSettings\(directory="):
        MetricsDirectory(tmp_path / "file" / "metrics")


def test_a_metrics_directory_can_be_pickled(directory: MetricsDirectory) -> None:
    assert pickle.loads(pickle.dumps(directory.place)) == directory.place
