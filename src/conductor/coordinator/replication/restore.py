"""Makes a database from a copy or from a replica, so that a coordinator can serve it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sqlite3
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from conductor.common.machine import try_lock
from conductor.coordinator.replication.litestream import (
    LitestreamFailed,
    NothingToRestore,
    download,
    find_program,
    has_files,
)
from conductor.coordinator.replication.replica_url import ReplicaUrl
from conductor.coordinator.replication.replicator import DIRECTORY_SUFFIX, LOCK, STOP_TIMEOUT_S
from conductor.coordinator.store.database_file import (
    APPLICATION_ID,
    StoreRefused,
    begin_restored_epoch,
    check,
    refusal,
)
from conductor.coordinator.store.online_backup import SIDE_FILE_SUFFIXES
from conductor.coordinator.store.statements import RESTORED_STATE, SECRET, RestoredState

#: The suffix of the database that a restore replaces. Further restores use `.replaced.1`, `.replaced.2` and so on.
REPLACED_SUFFIX = ".replaced"
_WORK_SUFFIX = ".restoring"
_COPIED_AT_ONCE = 1 << 20
#: The magic string, the page size and the number of pages in the header of a SQLite file. A size of 1 means 65,536.
_HEADER, _MAGIC, _LARGEST_PAGE_BYTES = struct.Struct(">16sH10xI"), b"SQLite format 3\0", 65_536
#: The search for replicas in an object store looks at this many numbers at a time. After a block with replicas, it ends
#: with the first block without any. If the first `MAX_UNUSED` numbers have no replica, it ends without a result.
SEARCHED_AT_ONCE = 32
MAX_UNUSED = 512
#: How many commands of Litestream run in parallel during the search.
PARALLEL_SEARCHES = 8
#: Counts the rows of the attached database `old` that are missing or unfinished in the main database.
_LOST_SINCE_COPY = """
SELECT (SELECT count(*) FROM old.workflow
        WHERE pk > coalesce((SELECT seq FROM main.sqlite_sequence WHERE name = 'workflow'), 0)),
       (SELECT count(*) FROM old.workflow AS o JOIN main.workflow AS n USING (pk)
        WHERE o.ended_ms IS NOT NULL AND n.ended_ms IS NULL),
       (SELECT count(*) FROM old.task AS o JOIN main.task AS n USING (pk) WHERE o.ended_ms > 0 AND n.ended_ms = 0)
"""


class LostSinceCopy(NamedTuple):
    """Numbers of starts and ends that the replaced database records and the restored one does not."""

    started_workflows: int
    ended_workflows: int
    ended_tasks: int


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    #: The copy, or the replica without its password.
    source: str
    size: int
    state: RestoredState
    #: Work that only the replaced database records. None if no database was replaced, or it cannot be compared.
    lost: LostSinceCopy | None
    #: The new name of the replaced database; None if no database was replaced.
    replaced: Path | None
    #: Replicas that are newer than the restored one, with the reason why they were not used.
    skipped: list[tuple[str, str]]


def restore(source: str, database: Path, *, timestamp_ms: int | None = None, force: bool = False) -> Restored:
    """Restore a database, and describe what was restored.

    Args:
        source: The file of a copy, the URL or directory of replicas, or that of one replica.
        database: The file to create.
        timestamp_ms: Restore the state at this time. This needs a replica: a copy has only one state.
        force: Replace an existing file, which is renamed.

    Raises:
        StoreRefused: The file is in use, the source is unusable or damaged, or the file cannot be written.
        InvalidReplicaUrl: The source is not a valid URL.
    """
    if database.is_symlink():
        database = database.resolve()  # the link stays, and the database stays on its disk
    with contextlib.ExitStack() as stack:
        try:
            work = _make_work_directory(database, stack)
            _check_target(database, stack, force=force)
            _wait_for_litestream(database, stack)
            found = work / "database"
            copy = Path(source)
            skipped: list[tuple[str, str]] = []
            if "://" not in source and not copy.is_dir():
                shown = _copy(copy, found, timestamp_ms)
            else:
                shown, skipped = _fetch(ReplicaUrl.parse(source), found, timestamp_ms)
            found.chmod(0o600)
            return _install(found, database, shown, skipped)
        except sqlite3.Error as error:
            raise refusal(source, error) from error
        except OSError as error:
            raise StoreRefused(
                f"cannot write {database}: {error.strerror}; make room or choose another file"
            ) from error


def _make_work_directory(database: Path, stack: contextlib.ExitStack) -> Path:
    """Create a directory next to the database and return it. Remove the files that a killed restore left in it."""
    work = database.with_name(database.name + _WORK_SUFFIX)
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(work, os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, handle)
    if not try_lock(handle):
        raise StoreRefused(f"another restore to {database} is running; wait until it ends")
    stack.callback(shutil.rmtree, work, ignore_errors=True)
    for left in work.iterdir():
        left.unlink()
    return work


def _check_target(database: Path, stack: contextlib.ExitStack, *, force: bool) -> None:
    """Reject a file that is in use, and lock an existing one until the restore has ended."""
    try:
        handle = os.open(database, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    stack.callback(os.close, handle)
    if not database.is_file():
        raise StoreRefused(f"{database} is not a file; choose another name")
    if not try_lock(handle):
        raise StoreRefused(f"{database} is in use by a coordinator; stop the coordinator first, or choose another file")
    if not force and database.stat().st_size:
        raise StoreRefused(
            f"{database} already exists; choose another file, or replace it with --force, "
            f"which renames it to {_find_replaced_name(database).name}"
        )


def _wait_for_litestream(database: Path, stack: contextlib.ExitStack) -> None:
    """Wait until the Litestream of a killed coordinator has ended. Lock its directory, so that no other one starts.

    Otherwise Litestream could add pages of the restored database to the replica of the old database.
    """
    try:
        handle = os.open(Path(f"{database}{DIRECTORY_SUFFIX}") / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    stack.callback(os.close, handle)
    deadline = time.monotonic() + STOP_TIMEOUT_S + 2
    while not try_lock(handle):
        if time.monotonic() > deadline:
            raise StoreRefused(f"Litestream still copies {database}; stop it first, or choose another file")
        time.sleep(0.1)


def _find_replaced_name(database: Path) -> Path:
    """Return an unused name, because a second restore must not overwrite the database that the first one replaced."""
    name, number = database.with_name(database.name + REPLACED_SUFFIX), 0
    while name.exists():
        number += 1
        name = database.with_name(f"{database.name}{REPLACED_SUFFIX}.{number}")
    return name


def _copy(copy: Path, target: Path, timestamp_ms: int | None) -> str:
    if not copy.is_file():
        raise StoreRefused(f"there is no copy {copy}; name the file of a copy, or the URL of a replica")
    if timestamp_ms is not None:
        raise StoreRefused(f"{copy} is a copy of one point in time; --timestamp needs a replica")
    if Path(f"{copy}-wal").exists() and Path(f"{copy}-wal").stat().st_size:
        raise StoreRefused(f"{copy} has a -wal file, so it is a database and not a copy; copy it with 'backup' first")
    with copy.open("rb") as source:
        # Some network file systems raise an OSError, because they lock only files that are open for writing. No
        # coordinator has its database on such a file system, so the copy is not in use.
        with contextlib.suppress(OSError):
            if not try_lock(source.fileno()):
                raise StoreRefused(
                    f"{copy} is in use by a coordinator, so it is not a copy; copy it with 'backup' first"
                )
        with target.open("xb") as file:
            shutil.copyfileobj(source, file, _COPIED_AT_ONCE)
    return str(copy)


def _fetch(url: ReplicaUrl, target: Path, timestamp_ms: int | None) -> tuple[str, list[tuple[str, str]]]:
    """Restore the newest usable replica. Return its URL, and the newer replicas with the errors that ruled them out."""
    program, skipped = find_program(), list[tuple[str, str]]()
    at = None if timestamp_ms is None else datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    timestamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None
    try:
        replicas = [url] if url.has_number else _list_replicas(program, url)
    except LitestreamFailed as error:
        raise StoreRefused(f"{url.shown} cannot be read: {error}") from error
    for index, replica in enumerate(replicas):
        try:
            download(program, replica, target, timestamp)
        except NothingToRestore as error:
            skipped.append((replica.shown, str(error)))
            for left in target.parent.iterdir():
                left.unlink()
        except LitestreamFailed as error:
            # An older replica could lack days of work, so it does not silently replace one that cannot be read now.
            older = f", or restore an older state from {replicas[index + 1].shown}" if replicas[index + 1 :] else ""
            raise StoreRefused(f"{replica.shown} cannot be restored: {error}; try again{older}") from error
        else:
            return replica.shown, skipped
    if not skipped:
        raise StoreRefused(f"there is no replica at {url.shown}; check that it is the URL of --replicate")
    tried = "; ".join(f"{shown}: {reason}" for shown, reason in skipped[:5])
    state = f" to the state of {timestamp}" if timestamp else ""
    raise StoreRefused(f"no replica at {url.shown} can be restored{state}: {tried}")


def _list_replicas(program: str, url: ReplicaUrl) -> list[ReplicaUrl]:
    """Return the replicas below a URL, the newest first."""
    numbers = _search_numbers(program, url) if url.directory is None else url.list_numbers()
    return [url.with_number(number) for number in sorted(numbers, reverse=True)]


def _search_numbers(program: str, url: ReplicaUrl) -> list[int]:
    """Return the numbers of the replicas in an object store, which Litestream cannot list.

    A number has no replica if its coordinator ended before the first copy, or if the replica was deleted.
    """
    found: list[int] = []
    with ThreadPoolExecutor(PARALLEL_SEARCHES) as threads:
        for first in itertools.count(1, SEARCHED_AT_ONCE):
            if not found and first > MAX_UNUSED:
                break
            block = range(first, first + SEARCHED_AT_ONCE)
            exist = threads.map(lambda number: has_files(program, url.with_number(number)), block)
            existing = [number for number, exists in zip(block, exist, strict=True) if exists]
            if found and not existing:
                break
            found += existing
    return found


def _install(found: Path, database: Path, shown: str, skipped: list[tuple[str, str]]) -> Restored:
    _refuse_truncated(found, shown)
    with contextlib.closing(sqlite3.connect(found)) as db:
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreRefused(f"{shown} is not the database of a coordinator")
        check(db, shown, completely=True)
    begin_restored_epoch(str(found))
    with contextlib.closing(sqlite3.connect(found)) as db:
        state = RestoredState(*db.execute(RESTORED_STATE.sql).fetchone())
    lost = _find_lost(database, found)
    _sync(found)
    replaced = _move_aside(database)
    found.rename(database)
    _sync(database.parent.absolute())
    return Restored(shown, database.stat().st_size, state, lost, replaced, skipped)


def _refuse_truncated(found: Path, shown: str) -> None:
    """Reject a file that is shorter than its header says. SQLite would read the missing part as zeros."""
    with found.open("rb") as file:
        header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return
    magic, page_bytes, pages = _HEADER.unpack(header)
    expected = pages * (_LARGEST_PAGE_BYTES if page_bytes == 1 else page_bytes)
    if magic == _MAGIC and found.stat().st_size < expected:
        raise StoreRefused(
            f"{shown} is damaged (it has {found.stat().st_size} of {expected} bytes); choose another copy"
        )


def _find_lost(old: Path, new: Path) -> LostSinceCopy | None:
    """Count the work that only the replaced database records.

    Return None if that database cannot be read or has another origin.
    """
    if not old.exists() or not old.stat().st_size:
        return None
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(new)) as db:
        db.execute("ATTACH ? AS old", (f"{old.absolute()}",))
        (secret,) = db.execute(SECRET.sql).fetchone()
        if db.execute("SELECT value FROM old.meta WHERE key = 'secret'").fetchone() == (secret,):
            return LostSinceCopy(*db.execute(_LOST_SINCE_COPY).fetchone())
    return None


def _move_aside(database: Path) -> Path | None:
    """Rename an existing database and its -wal file, and remove other files that belong to it.

    Return the new name; None if there was no database.
    """
    has_old = database.exists() and database.stat().st_size > 0
    replaced = _find_replaced_name(database)
    if has_old:
        for suffix in SIDE_FILE_SUFFIXES:
            Path(f"{replaced}{suffix}").unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            Path(f"{database}-wal").rename(f"{replaced}-wal")
        database.rename(replaced)
    for suffix in SIDE_FILE_SUFFIXES:
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    return replaced if has_old else None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
