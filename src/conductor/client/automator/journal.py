"""Keeps held tasks and unconfirmed reports on disk until their verdict.

A journal file belongs to one server and one process, which holds a lock on it. The file is a sequence of framed records
(mark, length, checksum). A reader applies one record after the other. The tasks of a poll are added with one `write`,
which survives the death of the process. A report takes the place of its task, and is removed after its verdict. The
reports and verdicts of one tick of the event loop share one `write`.

`adopted_journal` reads the file of a dead process. A second file marks the tasks whose functions are being called: see
`execution_marks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

import msgspec

from conductor.client.automator.execution_marks import SUFFIX, ExecutionMarks
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.common.clock import SYSTEM_CLOCK
from conductor.common.machine import is_writable_by_others, try_lock
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES

if TYPE_CHECKING:
    from conductor.client.automator.polled_tasks import Grant

logger = logging.getLogger(__name__)

#: The first bytes of every record. Encoded JSON has no byte 0xFF, so no report contains these bytes.
_MARK = b"\xffCWJ"
_FRAME = struct.Struct("<4sII")  # mark, length, CRC-32 of the payload
#: Why a task of a dead process is requeued.
PROCESS_DIED = "worker process died"
#: A file that reaches this size is rewritten without removed entries.
_COMPACT_BYTES = 8 << 20


class PendingReport(msgspec.Struct, frozen=True):
    """A report without a verdict, with everything that is needed to send it again."""

    report_id: str
    task_id: str
    task_type: str
    status: str
    written_ms: int
    body: bytes = b""
    worker_id: str | None = None
    poll_count: int = 0
    #: Whether the server granted a lease. A server that grants leases decides itself whether a late report counts.
    leased: bool = False
    workflow_instance_id: str = ""
    #: For a report about a task that its process did not finish: when the lease of the task ends, in epoch
    #: milliseconds. After that, the report is useless. None for the report of a result.
    until_ms: int | None = None

    @property
    def terminal(self) -> bool:
        """Whether the report ends the task."""
        return self.status in TERMINAL_TASK_STATUSES


class HeldTask(msgspec.Struct, frozen=True):
    """A task that a process holds without a result, with everything that is needed to requeue it."""

    task_id: str
    workflow_instance_id: str
    task_type: str
    worker_id: str | None
    poll_count: int
    #: When the lease ends, in epoch milliseconds.
    until_ms: int
    lease_id: str | None = None
    #: Identifies a task in its workflow, and is the same for all of its attempts.
    reference_name: str = ""

    @classmethod
    def of(cls, grant: Grant, worker_id: str, now: float, now_ms: int) -> HeldTask:
        """Return the entry for a granted task."""
        task = grant.task
        return cls(
            task_id=task.task_id,
            workflow_instance_id=task.workflow_instance_id,
            task_type=task.task_def_name or task.task_type,
            worker_id=worker_id,
            poll_count=task.poll_count,
            until_ms=now_ms + int((grant.sent_at + grant.response_timeout_s - now) * 1000),
            lease_id=task.lease_id,
            reference_name=task.reference_task_name,
        )

    def make_requeue_report(
        self, now_ms: int, reason: str = PROCESS_DIED, *, never_started: bool = False
    ) -> PendingReport:
        """Return the report that requeues the task."""
        return self.make_report(TaskResultStatus.IN_PROGRESS, reason, now_ms, never_started=never_started)

    def make_report(
        self, status: TaskResultStatus, reason: str, now_ms: int, *, never_started: bool = False
    ) -> PendingReport:
        """Return a report about a task whose process has died.

        The report id depends only on the delivery, so the server counts the report once even if two processes send it.
        """
        report_id = f"died-{self.task_id}-{self.poll_count}"
        result = TaskResult(
            task_id=self.task_id,
            workflow_instance_id=self.workflow_instance_id,
            worker_id=self.worker_id,
            status=status,
            reason_for_incompletion=reason,
            callback_after_seconds=0,
            lease_id=self.lease_id,
            report_id=report_id,
            never_started=never_started or None,
        )
        return PendingReport(
            report_id=report_id,
            task_id=self.task_id,
            task_type=self.task_type,
            status=str(status),
            written_ms=now_ms,
            body=result.encode(),
            worker_id=self.worker_id,
            poll_count=self.poll_count,
            leased=self.lease_id is not None,
            workflow_instance_id=self.workflow_instance_id,
            until_ms=self.until_ms,
        )


# The names of fields and tags are part of the file format, because a process may adopt a file that another version has
# written.


class TasksAdded(msgspec.Struct, frozen=True, tag="taken"):
    """A poll returned tasks."""

    tasks: list[HeldTask]


class LeaseExtended(msgspec.Struct, frozen=True, tag="extended"):
    """A heartbeat extended the lease of a task."""

    task_id: str
    until_ms: int


class TaskRemoved(msgspec.Struct, frozen=True, tag="put_down"):
    """A task was removed without a report in its place."""

    task_id: str
    poll_count: int
    lease_id: str | None = None


class ReportAdded(msgspec.Struct, frozen=True, tag="kept"):
    """A report was added, and its task was removed."""

    report: PendingReport = msgspec.field(name="entry")


class ReportRemoved(msgspec.Struct, frozen=True, tag="struck"):
    """A report was removed after its verdict."""

    report_id: str


Record = TasksAdded | LeaseExtended | TaskRemoved | ReportAdded | ReportRemoved

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


def encode_records(records: Iterable[Record]) -> bytes:
    """Return the records as they are written to the file."""
    payloads = map(_encoder.encode, records)
    return b"".join([_FRAME.pack(_MARK, len(payload), zlib.crc32(payload)) + payload for payload in payloads])


class JournalContents:
    """Reports without a verdict, by report id, and held tasks, by task id."""

    def __init__(self) -> None:
        self.reports: dict[str, PendingReport] = {}
        self.tasks: dict[str, HeldTask] = {}

    def __bool__(self) -> bool:
        return bool(self.reports or self.tasks)

    def apply(self, record: Record) -> None:
        """Apply one record."""
        if isinstance(record, ReportAdded):
            self.reports[record.report.report_id] = record.report
            if self.holds(record.report.task_id, record.report.poll_count):
                del self.tasks[record.report.task_id]
        elif isinstance(record, ReportRemoved):
            self.reports.pop(record.report_id, None)
        elif isinstance(record, TasksAdded):
            self.tasks.update((task.task_id, task) for task in record.tasks)
        elif isinstance(record, TaskRemoved):
            if self.holds(record.task_id, record.poll_count, record.lease_id):
                del self.tasks[record.task_id]
        elif (task := self.tasks.get(record.task_id)) is not None:
            self.tasks[record.task_id] = msgspec.structs.replace(task, until_ms=record.until_ms)

    def holds(self, task_id: str, poll_count: int, lease_id: str | None = None) -> bool:
        """Return whether the journal holds the task from this delivery, and not from a later one.

        A task that was requeued before its function began is delivered again with the same poll count. Only the lease
        id of the new delivery differs, so callers that know the lease id pass it.
        """
        task = self.tasks.get(task_id)
        return task is not None and task.poll_count == poll_count and lease_id in (None, task.lease_id)

    def encode(self) -> bytes:
        """Return a file with these contents and without removed entries."""
        records: list[Record] = [ReportAdded(report) for report in self.reports.values()]
        if self.tasks:
            records.append(TasksAdded(list(self.tasks.values())))
        return encode_records(records)


def read_contents(data: bytes) -> JournalContents:
    """Return the contents of a file. Damaged records and an incomplete last record are skipped."""
    contents = JournalContents()
    for payload in _find_payloads(data):
        try:
            contents.apply(_decoder.decode(payload))
        except msgspec.DecodeError:
            continue  # the checksum is right, so a newer version has written this record
    return contents


def _find_payloads(data: bytes) -> Iterator[bytes]:
    at = data.find(_MARK)
    while at >= 0 and at + _FRAME.size <= len(data):
        _, length, checksum = _FRAME.unpack_from(data, at)
        begin = at + _FRAME.size
        payload = data[begin : begin + length]
        is_whole = len(payload) == length and zlib.crc32(payload) == checksum
        if is_whole:
            yield payload
        at = data.find(_MARK, begin + length if is_whole else at + 1)


class Journal:
    """The journal of this process for one server. If the disk fails, workers continue without a journal."""

    def __init__(self, directory: Path, server_url: str, *, max_bytes: int) -> None:
        self.directory = directory
        #: The first part of the names of all files for this server.
        self.server = hashlib.sha256(server_url.encode()).hexdigest()[:16]
        self.max_bytes = max_bytes
        self.path = self._new_path()
        self._file: int | None = None
        #: Marks of the tasks that this process executes. None while the journal is closed, or if marks have no file.
        self.marks: ExecutionMarks | None = None
        #: The contents of the file. Removals of reports apply at once, all other records after they are written.
        self._contents = JournalContents()
        #: Reports and removals that are not written yet.
        self._new_reports: list[PendingReport] = []
        self._removals: list[ReportRemoved] = []
        self._flush_is_scheduled = False
        self._size = 0
        #: Set by each compaction attempt: the next attempt waits until the file is larger than this.
        self._compact_after = 0
        self._is_broken = False
        #: Reports to send again in the background, each with the seconds to wait before the first attempt.
        self.undelivered: asyncio.Queue[tuple[PendingReport, float]] = asyncio.Queue()

    def open(self) -> bool:
        """Create and lock the file.

        If that fails, for example in a read-only directory, log the error and return False.
        """
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_writable_by_others(self.directory.stat()):
                logger.warning(
                    "Other users can write to the journal directory %s and remove results. Restrict it (chmod 700), or "
                    "set CONDUCTOR_WORKER_JOURNAL_DIR to another directory",
                    self.directory,
                )
            self._file = _create(self.path)
            open_journals.add(self)
        except OSError as error:
            self._on_write_error(error)
            return False
        try:
            self.marks = ExecutionMarks(self.path.with_suffix(SUFFIX), SYSTEM_CLOCK)
        except OSError as error:
            logger.warning(
                "Running tasks are not recorded, so a task that kills its process is not identified: %s", error
            )
        return True

    def add_tasks(self, tasks: list[HeldTask]) -> None:
        """Add the tasks of a poll: if this process dies, the process that adopts the file requeues them."""
        if tasks:
            self._write(TasksAdded(tasks))

    def extend_lease(self, task_id: str, until_ms: int) -> None:
        """Record the new end of a task's lease, after a heartbeat was accepted."""
        if task_id in self._contents.tasks:
            self._write(LeaseExtended(task_id, until_ms))

    def remove_task(self, task_id: str, poll_count: int, lease_id: str | None = None) -> None:
        """Remove a task that this process no longer holds and has no report for."""
        if self._contents.holds(task_id, poll_count, lease_id):
            self._write(TaskRemoved(task_id, poll_count, lease_id))

    @property
    def held_tasks(self) -> list[HeldTask]:
        """The tasks without a report."""
        self.flush()
        return list(self._contents.tasks.values())

    def count_reports(self) -> Counter[str]:
        """Return the number of reports without a verdict, by task type."""
        return Counter(report.task_type for report in self._contents.reports.values())

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
        """Remove a report from the journal.

        If the journal has only the task, as for a report that requeues the task, remove the task.
        """
        self.flush()
        if self._contents.reports.pop(report.report_id, None) is None:
            self.remove_task(report.task_id, report.poll_count)
            return
        self._removals.append(ReportRemoved(report.report_id))
        self.flush()

    def remove_soon(self, report: PendingReport) -> None:
        """Do the same as `remove`, but at the end of this tick of the event loop.

        If the process dies before that, the report is sent again, and the server recognizes it.
        """
        if self._contents.reports.pop(report.report_id, None) is None:
            self.remove(report)
            return
        self._removals.append(ReportRemoved(report.report_id))
        if not self._flush_is_scheduled:
            self._flush_is_scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write pending reports and removals in one call. If that fails, write the reports one by one."""
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
        """Sync the file, so that the written records survive a failure of the machine."""
        if self._file is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, _sync_and_close, os.dup(self._file))
            except OSError as error:
                self._on_write_error(error)

    def redeliver(self, report: PendingReport, wait_s: float) -> None:
        """Queue a report whose attempts have all failed, to be sent again in the background after `wait_s` seconds."""
        self.undelivered.put_nowait((report, wait_s))

    def close(self) -> None:
        """Close the file. Remove it if it is empty; otherwise another process adopts it."""
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
        """Close the file without writing to it or removing it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            open_journals.discard(self)

    def _new_path(self) -> Path:
        return self.directory / f"{self.server}-{os.getpid()}-{os.urandom(4).hex()}.journal"

    def _write(self, *records: Record) -> bool:
        """Write the pending removals and these records in one call. Return False if that fails, after logging it."""
        if self._file is None:
            return False
        data = encode_records((*self._removals, *records))
        try:
            if not self._is_in_place():
                self._move()
            if self._size + len(data) > min(self.max_bytes, max(_COMPACT_BYTES, self._compact_after)):
                self._compact()
            is_full = self._size + len(data) > self.max_bytes
            if is_full and not all(isinstance(record, ReportRemoved | TaskRemoved) for record in records):
                raise OSError(errno.EFBIG, f"it has reached its limit of {self.max_bytes} bytes")
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
        """Write the contents to a new file, because the old file or its directory was removed."""
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
            write_all(file, data)
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
                "The result journal %s cannot be written (%s): workers continue, but new results are not safe on disk. "
                "Free disk space, or set CONDUCTOR_WORKER_JOURNAL_DIR to another directory",
                self.path,
                error,
            )
        self._is_broken = True


def _create(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try_lock(file)  # always succeeds, because no other process knows the file yet
    return file


def write_all(file: int, data: bytes) -> None:
    """Write all of the data, or raise. A single `os.write` to a full disk may write only a part without an error."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


class _LockedFile(Protocol):
    def close_file(self) -> None: ...


#: Journals that this process has locked. A forked child must close them, or the locks would outlive this process.
open_journals: WeakSet[_LockedFile] = WeakSet()


def _close_all_files() -> None:
    for journal in list(open_journals):
        journal.close_file()


os.register_at_fork(after_in_child=_close_all_files)


def _sync_and_close(file: int) -> None:
    """Sync and close a copy of the journal's descriptor. The journal may close the original during the sync."""
    try:
        os.fsync(file)
    finally:
        os.close(file)
