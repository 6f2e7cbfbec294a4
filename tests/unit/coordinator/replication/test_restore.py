"""A restore from a copy or from a replica: what it checks, what it leaves alone, and what it says."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from conductor.coordinator import Coordinator
from conductor.coordinator.replication.replica_url import ReplicaUrl
from conductor.coordinator.replication.restore import _list_replicas, restore
from conductor.coordinator.store.database_file import StoreRefused
from conductor.coordinator.store.online_backup import back_up
from tests.unit.coordinator.replication.replica_fixture import (
    call,
    define,
    needs_litestream,
    start,
    until_replicated,
)

pytestmark = pytest.mark.xdist_group("replication")


def is_known(url: str, workflow: str) -> bool:
    try:
        call(url, "GET", f"/workflow/{workflow}/status")
    except HTTPError as error:
        error.close()
        return False
    return True


def epochs(database: Path) -> list[int]:
    with sqlite3.connect(database) as db:
        found = [number for (number,) in db.execute("SELECT number FROM epoch ORDER BY number")]
    db.close()
    return found


def make_copy(place: Path) -> tuple[Path, str, str]:
    """Return a copy of `a.db`, a workflow in it, and a later workflow that only `a.db` has."""
    with Coordinator(place / "a.db") as coordinator:
        define(coordinator.url)
        first = start(coordinator.url)
        back_up(place / "a.db", place / "copy.db")
        later = start(coordinator.url)
    return place / "copy.db", first, later


def test_a_copy_is_restored_into_a_new_epoch(tmp_path: Path) -> None:
    copy, first, later = make_copy(tmp_path)
    (tmp_path / "b.db-wal").write_bytes(b"of an old database")
    restored = restore(str(copy), tmp_path / "b.db")
    assert restored.state.running_workflows == 1
    assert restored.lost is None
    assert stat.S_IMODE((tmp_path / "b.db").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob("b.db*")) == ["b.db"], "no other file is left"
    assert epochs(tmp_path / "b.db") == [1, 100_001], "restarts of the old coordinator stay below"
    with Coordinator(tmp_path / "b.db") as coordinator:
        assert is_known(coordinator.url, first)
        assert not is_known(coordinator.url, later)


def test_a_replaced_database_is_renamed_and_compared(tmp_path: Path) -> None:
    copy, _, later = make_copy(tmp_path)
    with pytest.raises(StoreRefused, match=r"already exists; .* --force"):
        restore(str(copy), tmp_path / "a.db")
    restored = restore(str(copy), tmp_path / "a.db", force=True)
    assert restored.replaced == tmp_path / "a.db.replaced"
    assert restored.lost is not None
    assert restored.lost._asdict() == {"started_workflows": 1, "ended_workflows": 0, "ended_tasks": 0}
    with Coordinator(tmp_path / "a.db.replaced") as coordinator:
        assert is_known(coordinator.url, later), "nothing of the old database is lost"


def test_a_second_restore_keeps_the_database_that_the_first_one_has_replaced(tmp_path: Path) -> None:
    copy, _, later = make_copy(tmp_path)
    names = [restore(str(copy), tmp_path / "a.db", force=True).replaced for _ in range(3)]
    assert names == [tmp_path / f"a.db.replaced{suffix}" for suffix in ("", ".1", ".2")]
    with Coordinator(tmp_path / "a.db.replaced") as coordinator:
        assert is_known(coordinator.url, later)


def test_a_link_stays_a_link_to_the_restored_database(tmp_path: Path) -> None:
    copy, first, _ = make_copy(tmp_path)
    link = tmp_path / "link.db"
    link.symlink_to("a.db")
    assert restore(str(copy), link, force=True).replaced == tmp_path / "a.db.replaced"
    assert link.is_symlink()
    with Coordinator(tmp_path / "a.db") as coordinator:
        assert is_known(coordinator.url, first)


def test_a_database_that_is_served_is_not_a_copy(tmp_path: Path) -> None:
    """The copied pages could be from different times. An idle coordinator has an empty -wal file."""
    make_copy(tmp_path)
    with Coordinator(tmp_path / "a.db"), pytest.raises(StoreRefused, match=r"is not a copy; copy it with 'backup'"):
        assert not Path(tmp_path / "a.db-wal").stat().st_size
        restore(str(tmp_path / "a.db"), tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()


def test_a_restore_waits_for_the_litestream_of_a_killed_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, _, _ = make_copy(tmp_path)
    (tmp_path / "a.db-replication").mkdir()
    handle = os.open(tmp_path / "a.db-replication" / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    monkeypatch.setattr("conductor.coordinator.replication.restore.STOP_TIMEOUT_S", -1.5)
    with pytest.raises(StoreRefused, match="Litestream still copies"):
        restore(str(copy), tmp_path / "a.db", force=True)
    monkeypatch.undo()
    threading.Timer(0.2, os.close, [handle]).start()
    restore(str(copy), tmp_path / "a.db", force=True)
    assert (tmp_path / "a.db.replaced").exists()


def test_a_database_in_use_is_not_replaced(tmp_path: Path) -> None:
    copy, _, later = make_copy(tmp_path)
    with Coordinator(tmp_path / "a.db") as coordinator:
        with pytest.raises(StoreRefused, match="in use by a coordinator"):
            restore(str(copy), tmp_path / "a.db", force=True)
        assert is_known(coordinator.url, later)
    assert not (tmp_path / "a.db.restoring").exists()


def test_a_second_restore_at_the_same_time_is_refused(tmp_path: Path) -> None:
    copy, _, _ = make_copy(tmp_path)
    work = tmp_path / "b.db.restoring"
    work.mkdir()
    (work / "database").write_bytes(b"left by a killed restore")
    with work.joinpath("database").open("rb"):
        handle = os.open(work, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(StoreRefused, match="another restore"):
            restore(str(copy), tmp_path / "b.db")
        os.close(handle)
    restore(str(copy), tmp_path / "b.db")
    assert not work.exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda copy: copy.unlink(), "there is no copy"),
        (lambda copy: copy.write_bytes(b"x" * 8192), "not a usable database"),
        (lambda copy: copy.write_bytes(copy.read_bytes()[:-4096] + bytes(4096)), "damaged"),
        (lambda copy: copy.write_bytes(copy.read_bytes()[:-100]), "damaged .it has .* bytes"),
        (lambda copy: (copy.unlink(), sqlite3.connect(copy).execute("CREATE TABLE t (x)")), "not the database of"),
        (lambda copy: Path(f"{copy}-wal").write_bytes(b"x"), "so it is a database and not a copy"),
    ],
)
def test_an_unusable_copy_is_refused_and_replaces_nothing(tmp_path: Path, damage: Any, message: str) -> None:
    copy, _, later = make_copy(tmp_path)
    damage(copy)
    with pytest.raises(StoreRefused, match=message):
        restore(str(copy), tmp_path / "a.db", force=True)
    with Coordinator(tmp_path / "a.db") as coordinator:
        assert is_known(coordinator.url, later)


@needs_litestream
def test_the_newest_replica_is_restored_and_older_times_on_request(tmp_path: Path) -> None:
    database, replica = tmp_path / "a.db", tmp_path / "replica"
    with Coordinator(database, replicate=str(replica)) as coordinator:
        define(coordinator.url)
        first = start(coordinator.url)
        until_replicated(database)
        between_ms = call(coordinator.url, "GET", "/view/server")["nowMs"]
    with Coordinator(database, replicate=str(replica)) as coordinator:
        second = start(coordinator.url)
        until_replicated(database)
    newest = restore(str(replica), tmp_path / "b.db")
    assert newest.source == f"file://{replica}/000002"
    older = restore(f"file://{replica}", tmp_path / "c.db", timestamp_ms=between_ms)
    assert older.source == f"file://{replica}/000001"
    assert [shown for shown, _ in older.skipped] == [f"file://{replica}/000002"]
    for restored, has_second in (("b.db", True), ("c.db", False)):
        with Coordinator(tmp_path / restored, replicate=str(replica)) as coordinator:  # its number is known and free
            assert is_known(coordinator.url, first)
            assert is_known(coordinator.url, second) is has_second
    with pytest.raises(
        StoreRefused, match=r"no replica at .* can be restored to the state of 1970-01-01T00:00:00\.001Z"
    ):
        restore(str(replica), tmp_path / "d.db", timestamp_ms=1)
    assert not (tmp_path / "d.db").exists()


@needs_litestream
def test_a_place_without_a_replica_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreRefused, match="there is no replica at"):
        restore(str(tmp_path / "empty"), tmp_path / "b.db")
    with pytest.raises(StoreRefused, match="there is no replica at"):
        restore("file:///nothing/there", tmp_path / "b.db")


@needs_litestream
def test_an_older_replica_does_not_replace_one_that_cannot_be_read(tmp_path: Path) -> None:
    database, replica = tmp_path / "a.db", tmp_path / "replica"
    for _ in range(2):
        with Coordinator(database, replicate=str(replica)):
            until_replicated(database)
    (replica / "000003").mkdir()  # a coordinator that was lost before its first copy
    assert restore(str(replica), tmp_path / "b.db").source.endswith("/000002")
    for file in (replica / "000002").rglob("*.ltx"):
        file.write_bytes(b"damaged")
    with pytest.raises(StoreRefused, match=r"000002 cannot be restored: .* restore an older state from .*/000001"):
        restore(str(replica), tmp_path / "c.db")
    assert not (tmp_path / "c.db").exists()
    assert restore(f"{replica}/000001", tmp_path / "c.db").source.endswith("/000001")


@pytest.mark.parametrize("existing", [[], [1], [1, 3], [2, 9, 40], [70], range(20, 100), range(100, 700)])
def test_the_places_in_an_object_store_are_found_despite_gaps(
    monkeypatch: pytest.MonkeyPatch, existing: Sequence[int]
) -> None:
    url = ReplicaUrl.parse("s3://bucket/path")
    places = [url.with_number(number) for number in existing]
    monkeypatch.setattr(
        "conductor.coordinator.replication.restore.has_files", lambda _program, replica: replica in places
    )
    assert _list_replicas("litestream", url) == places[::-1]


def test_a_killed_backup_leaves_no_file_for_ever(tmp_path: Path) -> None:
    make_copy(tmp_path)
    left, running = tmp_path / "copy.db.unfinished-1", tmp_path / "copy.db.unfinished-2"
    left.write_bytes(b"left by a killed backup")
    Path(f"{left}-journal").write_bytes(b"")
    running.write_bytes(b"of a running backup")
    with running.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(target=back_up, args=(tmp_path / "a.db", tmp_path / "copy.db"), kwargs={"keep": 2})
        thread.start()
        thread.join()
    assert sorted(path.name for path in tmp_path.glob("copy.db*")) == ["copy.db", "copy.db.1", running.name]
