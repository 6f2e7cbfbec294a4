"""Keeps held tasks and unconfirmed reports on disk until their verdict. `journal_records` has the file format.

A journal file belongs to one server and one process, which holds a lock on it. The tasks of a poll are added with one
`write`, which survives the death of the process. A report takes the place of its task, and is removed after its
verdict. The reports and verdicts of one tick of the event loop share one `write`. A file without an owner is adopted by
the next process for the same server, which sends the reports and requeues the tasks. Beside the file are marks of the
tasks whose functions are being called: see `execution_marks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet

from conductor.client.automator.execution_marks import SUFFIX, ExecutionMarks, MarksOfDeadProcess, read_marks
from conductor.client.automator.journal_records import (
    HeldTask,
    JournalContents,
    LeaseExtended,
    PendingReport,
    Record,
    ReportAdded,
    ReportRemoved,
    TaskRemoved,
    TasksAdded,
    encode_records,
    read_contents,
)
from conductor.common.clock import SYSTEM_CLOCK
from conductor.common.machine import is_writable_by_others, try_lock

logger = logging.getLogger(__name__)

#: A file that reaches this size is rewritten without removed entries.
_COMPACT_BYTES = 8 << 20
#: The file of a dead process may be this many times `journal_max_bytes`: removals are written beyond the limit.
MAX_FILE_SHARE = 2


class Journal:
    """The journal of this process for one server. A failing disk costs the protection, never the work."""

    def __init__(self, directory: Path, server_url: str, *, max_bytes: int) -> None:
        self.directory = directory
        #: The first part of the names of all files for this server.
        self.server = hashlib.sha256(server_url.encode()).hexdigest()[:16]
        self._max_bytes = max_bytes
        self.path = self._new_path()
        self._file: int | None = None
        #: Marks of the tasks that this process executes; None while the file is closed, or without room for marks.
        self.marks: ExecutionMarks | None = None
        #: The contents of the file once the waiting removals are written.
        self._contents = JournalContents()
        #: Reports that the next write adds, and removals that it contains.
        self._new_reports: list[PendingReport] = []
        self._removals: list[ReportRemoved] = []
        self._flush_is_scheduled = False
        self._size = 0
        #: The file is not compacted below this size: the last attempt did not make it smaller.
        self._compact_after = 0
        self._is_broken = False
        #: Reports to send again in the background, each with the seconds to wait before the first attempt.
        self.undelivered: asyncio.Queue[tuple[PendingReport, float]] = asyncio.Queue()

    def open(self) -> bool:
        """Create and lock the file. Return False if the directory is not writable, after logging that."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_writable_by_others(self.directory.stat()):
                logger.warning(
                    "Others can write to the journal directory %s, and remove results there. Make it yours alone "
                    "(chmod 700), or name another with CONDUCTOR_WORKER_JOURNAL_DIR",
                    self.directory,
                )
            self._file = _create(self.path)
            _open_journals.add(self)
        except OSError as error:
            self._on_write_error(error)
            return False
        try:
            self.marks = ExecutionMarks(self.path.with_suffix(SUFFIX), SYSTEM_CLOCK)
        except OSError as error:
            logger.warning("Executing tasks are not noted, so a task that kills its process is not found: %s", error)
        return True

    def add_tasks(self, tasks: list[HeldTask]) -> None:
        """Add the tasks of a poll: if this process dies, the process that adopts the file requeues them."""
        if tasks:
            self._write(TasksAdded(tasks))

    def extend_lease(self, task_id: str, until_ms: int) -> None:
        """Note that a heartbeat was accepted."""
        if task_id in self._contents.tasks:
            self._write(LeaseExtended(task_id, until_ms))

    def remove_task(self, task_id: str, poll_count: int, lease_id: str | None = None) -> None:
        """Remove a task that ended without a result of this process."""
        if self._contents.holds(task_id, poll_count, lease_id):
            self._write(TaskRemoved(task_id, poll_count, lease_id))

    @property
    def held_tasks(self) -> list[HeldTask]:
        """The tasks without a report."""
        self.flush()
        return list(self._contents.tasks.values())

    def add(self, report: PendingReport) -> bool:
        """Add a report in place of its task. Return False if the report is in memory only."""
        self.add_soon(report)
        self.flush()
        return self.has(report)

    def add_soon(self, report: PendingReport) -> None:
        """Add a report with the next `flush`, which `Delivery` calls before it sends anything."""
        self._new_reports.append(report)

    def has(self, report: PendingReport) -> bool:
        """Return whether the report is on disk."""
        return report.report_id in self._contents.reports

    def remove(self, report: PendingReport) -> None:
        """Remove a report that has its verdict, or the task that the report requeues."""
        self.flush()
        if self._contents.reports.pop(report.report_id, None) is None:
            self.remove_task(report.task_id, report.poll_count)
            return
        self._removals.append(ReportRemoved(report.report_id))
        self.flush()

    def remove_soon(self, report: PendingReport) -> None:
        """As `remove`, at the end of this tick. If the process dies before, the server recognizes the report."""
        if self._contents.reports.pop(report.report_id, None) is None:
            self.remove(report)
            return
        self._removals.append(ReportRemoved(report.report_id))
        if not self._flush_is_scheduled:
            self._flush_is_scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write waiting reports and removals at once; if that fails, the reports one by one."""
        self._flush_is_scheduled = False
        reports, self._new_reports = self._new_reports, []
        if reports and not self._write_reports(reports) and len(reports) > 1:
            for report in reports:
                self._write_reports([report])
        if self._removals and not self._write() and not self._contents:
            self._truncate()

    def _write_reports(self, reports: list[PendingReport]) -> bool:
        if not self._write(*map(ReportAdded, reports)):
            return False
        if self._is_broken:
            self._is_broken = False
            logger.warning("The result journal %s is writable again", self.path)
        return True

    async def sync(self) -> None:
        """Let the written records survive a failure of the machine."""
        if self._file is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, os.fsync, self._file)
            except OSError as error:
                self._on_write_error(error)

    def redeliver(self, report: PendingReport, wait_s: float) -> None:
        """Send a report again in the background, after `wait_s`: all its attempts have failed."""
        self.undelivered.put_nowait((report, wait_s))

    def adopt_files(self) -> Iterator[AdoptedJournal]:
        """Lock and yield the files of dead processes for the same server."""
        try:
            paths = sorted(self.directory.glob(f"{self.server}-*.journal"))
        except OSError:
            return
        for path in paths:
            if path != self.path and (adopted := AdoptedJournal.lock(path, MAX_FILE_SHARE * self._max_bytes)):
                yield adopted

    def close(self) -> None:
        """Close the file. Remove it if it is empty; otherwise leave it to the next process."""
        if self._file is None:
            return
        self.flush()
        self.remove_marks()
        if not self._contents:
            self.path.unlink(missing_ok=True)
        self.close_file()

    def remove_marks(self) -> None:
        """Remove the execution marks: the process ends on request, so no task is blamed."""
        if self.marks is not None:
            self.marks.remove()
            self.marks = None

    def close_file(self) -> None:
        """Close the file and leave it as it is."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            _open_journals.discard(self)

    def _new_path(self) -> Path:
        return self.directory / f"{self.server}-{os.getpid()}-{os.urandom(4).hex()}.journal"

    def _write(self, *records: Record) -> bool:
        """Write the waiting removals and these records at once. Return False if that fails, after logging it."""
        if self._file is None:
            return False
        data = encode_records((*self._removals, *records))
        try:
            if not self._is_in_place():
                self._move()
            if self._size + len(data) > min(self._max_bytes, max(_COMPACT_BYTES, self._compact_after)):
                self._compact()
            is_removal = all(isinstance(record, ReportRemoved | TaskRemoved) for record in records)
            if self._size + len(data) > self._max_bytes and not is_removal:
                raise OSError(errno.EFBIG, f"it has reached its limit of {self._max_bytes} bytes")
            written = os.write(self._file, data)
            if written != len(data):  # a full disk may accept half a record
                os.ftruncate(self._file, self._size)
                raise OSError(errno.ENOSPC, "No space left on device")
            self._size += written
        except OSError as error:
            self._on_write_error(error)
            return False
        self._removals.clear()
        for record in records:
            self._contents.apply(record)
        return True

    def _truncate(self) -> None:
        """Empty the file, which also works on a full disk."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
                self._size = 0
                self._removals.clear()

    def _is_in_place(self) -> bool:
        """Return whether the open file is still the one at `path`, where other processes look for it."""
        assert self._file is not None  # noqa: S101
        ours = os.fstat(self._file)
        try:
            there = os.stat(self.path)  # noqa: PTH116 (once per write; Path.stat takes three times as long)
        except FileNotFoundError:
            return False
        return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)

    def _move(self) -> None:
        """Write the contents to a new file: the file or its directory was removed."""
        removed = self.path
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._replace_file()
        logger.warning("The result journal %s was removed; its contents are now in %s", removed, self.path)

    def _compact(self) -> None:
        """Continue in a new file without removed entries if that at least halves the size."""
        if len(self._contents.encode()) <= self._size // 2:
            try:
                self._replace_file()
            except OSError as error:
                logger.debug("The result journal %s was not compacted: %s", self.path, error)
        self._compact_after = self._size + _COMPACT_BYTES // 4

    def _replace_file(self) -> None:
        """Write the contents to a new file. The old file is removed after the new one is complete and synced."""
        path = self._new_path()
        file = _create(path)
        data = self._contents.encode()
        try:
            _write_all(file, data)
            os.fsync(file)
        except OSError:
            path.unlink(missing_ok=True)
            os.close(file)
            raise
        if self.marks is not None:
            with contextlib.suppress(OSError):
                self.marks.move(path.with_suffix(SUFFIX))
        self.path.unlink(missing_ok=True)
        if self._file is not None:
            os.close(self._file)
        self.path, self._file, self._size = path, file, len(data)

    def _on_write_error(self, error: OSError) -> None:
        if not self._is_broken:
            logger.critical(
                "The result journal %s cannot be written (%s): work goes on, but new results are not safe on disk. "
                "Free the disk, or name another directory with CONDUCTOR_WORKER_JOURNAL_DIR",
                self.path,
                error,
            )
        self._is_broken = True


class AdoptedJournal:
    """The journal of a dead process, locked by this one."""

    def __init__(self, path: Path, file: int, contents: JournalContents) -> None:
        self.path = path
        #: When the process last wrote to the file, in epoch milliseconds.
        self.written_ms = os.fstat(file).st_mtime_ns // 1_000_000
        self._contents = contents
        self._file: int | None = file
        _open_journals.add(self)

    @classmethod
    def lock(cls, path: Path, max_bytes: int) -> AdoptedJournal | None:
        """Lock and read a file. Return None if it has an owner, is gone or too large, or others may have written it."""
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            # A file without a link was removed between `open` and the lock.
            if try_lock(file) and (found := os.fstat(file)).st_nlink > 0 and _is_trusted(path, found):
                if found.st_size > max_bytes:
                    _set_aside(path, found.st_size, max_bytes)
                    raise OSError(errno.EFBIG, "File too large")
                with open(file, "rb", closefd=False) as reader:
                    return cls(path, file, read_contents(reader.read()))
        except OSError:
            pass
        os.close(file)
        return None

    @property
    def reports(self) -> list[PendingReport]:
        """The reports that have no verdict yet."""
        return list(self._contents.reports.values())

    @property
    def tasks(self) -> list[HeldTask]:
        """The tasks that the process held when it died."""
        return list(self._contents.tasks.values())

    @property
    def process_id(self) -> int:
        """The id of the process that wrote the file."""
        return int(self.path.name.split("-")[1])

    @property
    def marks(self) -> MarksOfDeadProcess | None:
        """The tasks that the process was executing; None if they are not known, or were judged before."""
        return read_marks(self.path.with_suffix(SUFFIX))

    def replace_tasks(self, reports: list[PendingReport]) -> None:
        """Replace tasks by reports about them, and remove the execution marks."""
        for report in reports:
            self._write(ReportAdded(report))
        self.path.with_suffix(SUFFIX).unlink(missing_ok=True)

    def remove(self, report: PendingReport) -> None:
        """Remove a report or a task that has its verdict, so that it is not sent again if this process dies."""
        if report.report_id in self._contents.reports:
            self._write(ReportRemoved(report.report_id))
        elif self._contents.holds(report.task_id, report.poll_count):
            self._write(TaskRemoved(report.task_id, report.poll_count))

    def _write(self, record: Record) -> None:
        self._contents.apply(record)
        if self._file is None:
            return
        try:
            _write_all(self._file, encode_records([record]))
        except OSError as error:
            logger.warning("%s cannot be written (%s): what is in it may be sent again", self.path, error)

    def remove_file(self) -> None:
        """Remove the file: all its entries have their verdict."""
        self.path.with_suffix(SUFFIX).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        self.close_file()

    def close_file(self) -> None:
        """Close the file. The next process adopts the rest."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            _open_journals.discard(self)


#: Journals that this process has locked. A forked child must close them, or the locks would outlive this process.
_open_journals: WeakSet[Journal | AdoptedJournal] = WeakSet()


def _close_all_files() -> None:
    for journal in list(_open_journals):
        journal.close_file()


os.register_at_fork(after_in_child=_close_all_files)

#: Files that are not adopted, and that a warning has named.
_untrusted: set[Path] = set()


def _is_trusted(path: Path, found: os.stat_result) -> bool:
    """Return whether only this user can have written the file: its reports are sent with this user's credentials."""
    if stat.S_ISREG(found.st_mode) and not is_writable_by_others(found):
        return True
    if path not in _untrusted:
        _untrusted.add(path)
        logger.warning(
            "The journal %s is left alone: it belongs to another user, or others can write it. If it is yours, "
            "`chown` it to you and `chmod 600` it",
            path,
        )
    return False


def _set_aside(path: Path, size: int, max_bytes: int) -> None:
    """Rename a file that is larger than any journal: reading it could exhaust the memory."""
    aside = path.with_name(f"{path.name}.too-large")
    path.rename(aside)
    logger.critical(
        "The journal %s has %d bytes, more than the %d that are read: it is now %s, and results in it are not sent. "
        "To send them, allow more with CONDUCTOR_WORKER_JOURNAL_MAX_BYTES and give the file its name back",
        path,
        size,
        max_bytes,
        aside,
    )


def _create(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try_lock(file)  # succeeds: no other process knows the file yet
    return file


def _write_all(file: int, data: bytes) -> None:
    """Write all of the data, or raise: a full disk may accept a part of it without an error."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
