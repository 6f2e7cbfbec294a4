"""The contents of a journal file: held tasks, reports without a verdict, and the records that add and remove them.

A file is a sequence of framed records (mark, length, checksum). Reading it applies one record after the other. The
names of fields and tags are part of the file format: a process may adopt the file of another version.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES

if TYPE_CHECKING:
    from conductor.client.automator.polled_tasks import Grant

#: Begins every record. A report is JSON, which contains no byte 0xFF, so no report looks like a record.
_MARK = b"\xffCWJ"
_FRAME = struct.Struct("<4sII")  # mark, length, CRC-32 of the payload
#: Why a task of a dead process is requeued.
PROCESS_DIED = "worker process died"


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
    #: Whether the server granted a lease: then it judges late reports itself.
    leased: bool = False
    workflow_instance_id: str = ""
    #: When a report about a task of a dead process becomes useless, in epoch milliseconds; None for a result.
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
    #: With the workflow id, identifies all attempts of a task.
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

    def matches(self, poll_count: int, lease_id: str | None) -> bool:
        """Return whether this is the delivery with that poll count and, unless it is None, that lease.

        A delivery that was never started does not raise the poll count; only the lease id differs.
        """
        return self.poll_count == poll_count and lease_id in (None, self.lease_id)

    def make_requeue_report(
        self, now_ms: int, reason: str = PROCESS_DIED, *, never_started: bool = False
    ) -> PendingReport:
        """Return the report that requeues the task."""
        return self.make_report(TaskResultStatus.IN_PROGRESS, reason, now_ms, never_started=never_started)

    def make_report(
        self, status: TaskResultStatus, reason: str, now_ms: int, *, never_started: bool = False
    ) -> PendingReport:
        """Return a report about a task whose process has died.

        The report id depends only on the delivery. If two processes send the report, the server counts it once.
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


class TasksAdded(msgspec.Struct, frozen=True, tag="taken"):
    """A poll brought tasks."""

    tasks: list[HeldTask]


class LeaseExtended(msgspec.Struct, frozen=True, tag="extended"):
    """A heartbeat extended the lease of a task."""

    task_id: str
    until_ms: int


class TaskRemoved(msgspec.Struct, frozen=True, tag="put_down"):
    """A task ended without a result of this process."""

    task_id: str
    poll_count: int
    lease_id: str | None = None


class ReportAdded(msgspec.Struct, frozen=True, tag="kept"):
    """A report takes the place of its task."""

    report: PendingReport = msgspec.field(name="entry")


class ReportRemoved(msgspec.Struct, frozen=True, tag="struck"):
    """A report has its verdict."""

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
            self._remove_task(record.report.task_id, record.report.poll_count)
        elif isinstance(record, ReportRemoved):
            self.reports.pop(record.report_id, None)
        elif isinstance(record, TasksAdded):
            self.tasks.update((task.task_id, task) for task in record.tasks)
        elif isinstance(record, TaskRemoved):
            self._remove_task(record.task_id, record.poll_count, record.lease_id)
        elif (task := self.tasks.get(record.task_id)) is not None:
            self.tasks[record.task_id] = msgspec.structs.replace(task, until_ms=record.until_ms)

    def holds(self, task_id: str, poll_count: int, lease_id: str | None = None) -> bool:
        """Return whether the task is held, and has not been delivered again since."""
        task = self.tasks.get(task_id)
        return task is not None and task.matches(poll_count, lease_id)

    def _remove_task(self, task_id: str, poll_count: int, lease_id: str | None = None) -> None:
        if self.holds(task_id, poll_count, lease_id):
            del self.tasks[task_id]

    def encode(self) -> bytes:
        """Return the shortest file with these contents."""
        records: list[Record] = [ReportAdded(report) for report in self.reports.values()]
        if self.tasks:
            records.append(TasksAdded(list(self.tasks.values())))
        return encode_records(records)


def read_contents(data: bytes) -> JournalContents:
    """Read a file. Damaged records and an incomplete last record are skipped."""
    contents = JournalContents()
    for payload in _find_payloads(data):
        try:
            contents.apply(_decoder.decode(payload))
        except msgspec.DecodeError:
            continue  # the checksum is right: a record of a newer version
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
