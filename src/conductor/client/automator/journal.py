"""Tasks in hand and results on disk until their verdict.

A file belongs to one server and one process, which holds a lock on it. Records are framed (mark, length, checksum):
the tasks of a poll are noted with one `write`, which survives the death of the process; a result takes the place of
its task, and is struck out when its verdict is there. Results and verdicts of one tick of the event loop are one
`write` as well. A file without an owner is adopted by the next process of the same server: it sends the results, and
gives the tasks back. Beside the file are notes of the tasks whose functions are being called: see `execution_marks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

import msgspec

from conductor.client.automator.execution_marks import SUFFIX, ExecutionMarks, MarksOfDeadProcess, read_marks
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.common.clock import SYSTEM_CLOCK
from conductor.common.machine import is_writable_by_others, try_lock
from conductor.protocol.statuses import TERMINAL_TASK_STATUSES

if TYPE_CHECKING:
    from conductor.client.automator.polled_tasks import Grant

logger = logging.getLogger(__name__)

#: Begins every record. A report is JSON, and no JSON text contains a byte 0xFF: it cannot be taken for a record.
_MARK = b"\xffCWJ"
_FRAME = struct.Struct("<4sII")  # mark, length, CRC-32 of the payload
#: A file of this size is emptied or rewritten without what is struck out.
_TIDY_BYTES = 8 << 20
#: The file of a dead process is read up to this many times `journal_max_bytes`: verdicts are written beyond the limit.
MAX_FILE_SHARE = 2
#: Why a task is given back that a dead process had in hand.
PROCESS_DIED = "worker process died"


class Entry(msgspec.Struct, frozen=True):
    """A report, and what must be known to send it again."""

    report_id: str
    task_id: str
    task_type: str
    status: str
    written_ms: int
    body: bytes = b""
    worker_id: str | None = None
    poll_count: int = 0
    #: Whether the server gave a lease: then it judges late reports itself.
    leased: bool = False
    workflow_instance_id: str = ""
    #: After this it is of no use to anybody, in epoch milliseconds; None: as long as results are kept.
    until_ms: int | None = None

    @property
    def terminal(self) -> bool:
        """Whether the report ends the task."""
        return self.status in TERMINAL_TASK_STATUSES


class Taken(msgspec.Struct, frozen=True):
    """A task in hand, and what must be known to give it back."""

    task_id: str
    workflow_instance_id: str
    task_type: str
    worker_id: str | None
    poll_count: int
    #: When its lease is over, in epoch milliseconds.
    until_ms: int
    lease_id: str | None = None
    #: Together with the workflow, what all attempts of a task have in common.
    reference_name: str = ""

    @classmethod
    def of(cls, grant: Grant, worker_id: str, now: float, now_ms: int) -> Taken:
        """What is noted of a task that a poll has brought."""
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

    def hand_back(self, now_ms: int, reason: str = PROCESS_DIED, *, never_started: bool = False) -> Entry:
        """The report that gives it back. Whoever makes it makes the same one: sent twice, it counts once."""
        return self.report(TaskResultStatus.IN_PROGRESS, reason, now_ms, never_started=never_started)

    def report(self, status: TaskResultStatus, reason: str, now_ms: int, *, never_started: bool = False) -> Entry:
        """Make the report that a process sends about a task of a dead one."""
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
        return Entry(
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


class _StrikeRecord(msgspec.Struct, frozen=True, tag="struck"):
    report_id: str


class _ResultRecord(msgspec.Struct, frozen=True, tag="kept"):
    entry: Entry


class _TakenRecord(msgspec.Struct, frozen=True, tag="taken"):
    tasks: list[Taken]


class _ExtendedRecord(msgspec.Struct, frozen=True, tag="extended"):
    task_id: str
    until_ms: int


class _PutDownRecord(msgspec.Struct, frozen=True, tag="put_down"):
    task_id: str
    poll_count: int
    lease_id: str | None = None


_Record = _StrikeRecord | _ResultRecord | _TakenRecord | _ExtendedRecord | _PutDownRecord

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Record)


class Contents:
    """What a file says: the results without a verdict, by report id, and the tasks in hand, by task id."""

    def __init__(self) -> None:
        self.results: dict[str, Entry] = {}
        self.in_hand: dict[str, Taken] = {}

    def apply(self, record: _Record) -> None:
        """Go on by one record."""
        if isinstance(record, _ResultRecord):
            self.results[record.entry.report_id] = record.entry
            self.put_down(record.entry.task_id, record.entry.poll_count)
        elif isinstance(record, _StrikeRecord):
            self.results.pop(record.report_id, None)
        elif isinstance(record, _TakenRecord):
            self.in_hand.update((task.task_id, task) for task in record.tasks)
        elif isinstance(record, _PutDownRecord):
            self.put_down(record.task_id, record.poll_count, record.lease_id)
        elif (task := self.in_hand.get(record.task_id)) is not None:
            self.in_hand[record.task_id] = msgspec.structs.replace(task, until_ms=record.until_ms)

    def put_down(self, task_id: str, poll_count: int, lease_id: str | None = None) -> bool:
        """Remove a task. False: it is not here, or it has been delivered again since.

        A delivery that was never started does not count: such deliveries are told apart by their lease ids.
        """
        task = self.in_hand.get(task_id)
        if task is None or task.poll_count != poll_count or lease_id not in (None, task.lease_id):
            return False
        del self.in_hand[task_id]
        return True

    def frames(self) -> bytes:
        """The shortest file that says the same."""
        records: list[_Record] = [_ResultRecord(entry) for entry in self.results.values()]
        if self.in_hand:
            records.append(_TakenRecord(list(self.in_hand.values())))
        return b"".join(map(_frame, records))

    def __bool__(self) -> bool:
        return bool(self.results or self.in_hand)


class Journal:
    """The journal of this process for one server. Trouble with the disk costs its protection, never the work."""

    #: The tasks that this process is executing; None while the file is closed, or if they cannot be noted.
    marks: ExecutionMarks | None = None

    def __init__(self, directory: Path, server_url: str, *, max_bytes: int) -> None:
        self.directory = directory
        #: What the names of all files of this server begin with.
        self.server = hashlib.sha256(server_url.encode()).hexdigest()[:16]
        self._max_bytes = max_bytes
        self.path = self._new_path()
        self._file: int | None = None
        self._contents = Contents()
        #: Results that the next write puts down, and results with a verdict that it strikes out.
        self._unwritten: list[Entry] = []
        self._unstruck: list[_StrikeRecord] = []
        self._flushing = False
        self._size = 0
        #: A file that could not be made smaller is left alone up to this size.
        self._tidy_after = 0
        self._broken = False
        #: Results to send again in the background, each with the seconds to wait before the first try.
        self.waiting: asyncio.Queue[tuple[Entry, float]] = asyncio.Queue()

    def open(self) -> bool:
        """Make the file and lock it. False: the directory cannot be written, which is said once, loudly."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_writable_by_others(self.directory.stat()):
                logger.warning(
                    "Others can write to the journal directory %s, and remove results there. Make it yours alone "
                    "(chmod 700), or name another with CONDUCTOR_WORKER_JOURNAL_DIR",
                    self.directory,
                )
            self._file = _create(self.path)
            _open_files.add(self)
        except OSError as error:
            self._break(error)
            return False
        try:
            self.marks = ExecutionMarks(self.path.with_suffix(SUFFIX), SYSTEM_CLOCK)
        except OSError as error:
            logger.warning("Executing tasks are not noted, so a task that kills its process is not found: %s", error)
        return True

    def put(self, entry: Entry) -> bool:
        """Keep the result, in place of its task. False: it could not be kept, and lives in memory only."""
        self.put_soon(entry)
        self.flush()
        return self.keeps(entry)

    def put_soon(self, entry: Entry) -> None:
        """As `put`, with the next `flush`: before it is sent."""
        self._unwritten.append(entry)

    def keeps(self, entry: Entry) -> bool:
        """Whether the result is on disk."""
        return entry.report_id in self._contents.results

    def flush(self) -> None:
        """Write what waits to be written, all at once; if that is too much, one by one."""
        self._flushing = False
        entries, self._unwritten = self._unwritten, []
        if entries and not self._put_all(entries) and len(entries) > 1:
            for entry in entries:
                self._put_all([entry])
        if self._unstruck and not self._append():
            self._empty_if_nothing_is_left()

    def _put_all(self, entries: list[Entry]) -> bool:
        if not self._append(*map(_ResultRecord, entries)):
            return False
        if self._broken:
            self._broken = False
            logger.warning("The result journal %s is written again", self.path)
        return True

    def take(self, tasks: list[Taken]) -> None:
        """Note the tasks that a poll has brought, so that whoever finds this file gives them back."""
        if tasks:
            self._append(_TakenRecord(tasks))

    def extend(self, task_id: str, until_ms: int) -> None:
        """A heartbeat was accepted."""
        if task_id in self._contents.in_hand:
            self._append(_ExtendedRecord(task_id, until_ms))

    def put_down(self, task_id: str, poll_count: int, lease_id: str | None = None) -> None:
        """The task has ended without a result of ours: there is nothing to give back."""
        task = self._contents.in_hand.get(task_id)
        if task is not None and task.poll_count == poll_count and lease_id in (None, task.lease_id):
            self._append(_PutDownRecord(task_id, poll_count, lease_id))

    @property
    def in_hand(self) -> list[Taken]:
        """The tasks that were taken and have no result."""
        self.flush()
        return list(self._contents.in_hand.values())

    def strike(self, entry: Entry) -> None:
        """Strike the result, or the task that it gives back, out: it has its verdict."""
        self.flush()
        if not self.keeps(entry):
            self.put_down(entry.task_id, entry.poll_count)
            return
        del self._contents.results[entry.report_id]
        self._unstruck.append(_StrikeRecord(entry.report_id))
        self.flush()

    def strike_soon(self, entry: Entry) -> None:
        """As `strike`, at the end of this tick: should the process die before, the server knows the report already."""
        # What has its verdict is not written anew either.
        if self._contents.results.pop(entry.report_id, None) is None:
            self.strike(entry)
            return
        self._unstruck.append(_StrikeRecord(entry.report_id))
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    async def sync(self) -> None:
        """Make sure that what was put down survives the machine, too."""
        if self._file is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, os.fsync, self._file)
            except OSError as error:
                self._break(error)

    def wait_for_redelivery(self, entry: Entry, wait_s: float) -> None:
        """All attempts of a report failed: it is sent again in the background, for the first time after `wait_s`."""
        self.waiting.put_nowait((entry, wait_s))

    def adopt(self) -> Iterator[AdoptedFile]:
        """The files of dead processes of the same server, each locked while it is ours."""
        try:
            paths = sorted(self.directory.glob(f"{self.server}-*.journal"))
        except OSError:
            return
        for path in paths:
            if path != self.path and (adopted := AdoptedFile.take(path, MAX_FILE_SHARE * self._max_bytes)) is not None:
                yield adopted

    def close(self) -> None:
        """Let go of the file: removed when nothing is left in it, else left for the next process."""
        if self._file is None:
            return
        self.flush()
        self.blame_none()
        if not self._contents:
            self.path.unlink(missing_ok=True)
        self.let_go()

    def blame_none(self) -> None:
        """Remove the execution marks: the process ends because it was told to, not because of its tasks."""
        if self.marks is not None:
            self.marks.remove()
            self.marks = None

    def let_go(self) -> None:
        """Close the file, and leave it as it is."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            _open_files.discard(self)

    def _new_path(self) -> Path:
        return self.directory / f"{self.server}-{os.getpid()}-{os.urandom(4).hex()}.journal"

    def _append(self, *records: _Record) -> bool:
        """These records, after the verdicts that wait, with one write. False: not on disk, and that has been said."""
        if self._file is None:
            return False
        frame = b"".join([_frame(record) for record in (*self._unstruck, *records)])
        try:
            if not self._in_place():
                self._go_on_elsewhere()
            if self._size + len(frame) > min(self._max_bytes, max(_TIDY_BYTES, self._tidy_after)):
                self._tidy()
            if self._size + len(frame) > self._max_bytes and any(map(_takes_room, records)):
                raise OSError(27, f"it has reached its limit of {self._max_bytes} bytes")
            written = os.write(self._file, frame)
            if written != len(frame):  # a full disk may take half a record
                os.ftruncate(self._file, self._size)
                raise OSError(28, "No space left on device")
            self._size += written
        except OSError as error:
            self._break(error)
            return False
        self._unstruck.clear()
        for record in records:
            self._contents.apply(record)
        return True

    def _empty_if_nothing_is_left(self) -> None:
        """That takes no room on a full disk."""
        if self._file is None or self._contents:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            self._size = 0
            self._unstruck.clear()

    def _in_place(self) -> bool:
        """Whether our file is still where others look for it."""
        assert self._file is not None  # noqa: S101
        ours = os.fstat(self._file)
        try:
            there = os.stat(self.path)  # noqa: PTH116 (for each write; the method takes three times as long)
        except FileNotFoundError:
            return False
        return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)

    def _go_on_elsewhere(self) -> None:
        """Somebody has removed the file, or its whole directory: what is in it is written anew."""
        lost = self.path
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._replace()
        logger.warning("The result journal %s was removed; what was in it is now in %s", lost, self.path)

    def _tidy(self) -> None:
        """Go on in a new file without what is struck out, if that is worth it; if it fails, in the old one."""
        if len(self._contents.frames()) <= self._size // 2:
            try:
                self._replace()
            except OSError as error:
                logger.debug("The result journal %s stays as large as it is: %s", self.path, error)
        self._tidy_after = self._size + _TIDY_BYTES // 4

    def _replace(self) -> None:
        """A new file that says the same. The old one goes last, when the new one is whole and safe."""
        path = self._new_path()
        file = _create(path)
        try:
            size = _write_all(file, self._contents.frames())
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
        self.path, self._file, self._size = path, file, size

    def _break(self, error: OSError) -> None:
        if not self._broken:
            logger.critical(
                "The result journal %s cannot be written (%s): work goes on, but new results are not safe on disk. "
                "Free the disk, or name another directory with CONDUCTOR_WORKER_JOURNAL_DIR",
                self.path,
                error,
            )
        self._broken = True


def _create(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try_lock(file)  # nobody else knows it yet
    return file


def _write_all(file: int, data: bytes) -> int:
    """Write all of it, or raise: a full disk may take a part of it without a word."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
    return len(data)


class AdoptedFile:
    """A dead process's journal, under our lock."""

    def __init__(self, path: Path, file: int, contents: Contents) -> None:
        self.path = path
        #: When the process last wrote to it, in epoch milliseconds.
        self.written_ms = os.fstat(file).st_mtime_ns // 1_000_000
        self._contents = contents
        self._file: int | None = file
        _open_files.add(self)

    @property
    def entries(self) -> list[Entry]:
        """The results in it that have no verdict yet."""
        return list(self._contents.results.values())

    @property
    def in_hand(self) -> list[Taken]:
        """The tasks that the process had in hand when it died."""
        return list(self._contents.in_hand.values())

    @property
    def process_id(self) -> int:
        """The id of the process that wrote it."""
        return int(self.path.name.split("-")[1])

    @property
    def marks(self) -> MarksOfDeadProcess | None:
        """The tasks that the process was executing when it died; None if that is not known, or was judged before."""
        return read_marks(self.path.with_suffix(SUFFIX))

    def judge(self, reports: list[Entry]) -> None:
        """Replace tasks by these reports about them, and remove the execution marks."""
        for entry in reports:
            self._append(_ResultRecord(entry))
        self.path.with_suffix(SUFFIX).unlink(missing_ok=True)

    def strike(self, entry: Entry) -> None:
        """Strike the result or the task out: it has its verdict, also if we die before the rest have theirs."""
        if entry.report_id in self._contents.results:
            self._append(_StrikeRecord(entry.report_id))
        elif self._contents.put_down(entry.task_id, entry.poll_count):
            self._append(_PutDownRecord(entry.task_id, entry.poll_count))

    def _append(self, record: _Record) -> None:
        self._contents.apply(record)
        if self._file is None:
            return
        try:
            _write_all(self._file, _frame(record))
        except OSError as error:
            logger.warning("%s cannot be written (%s): what is in it may be sent again", self.path, error)

    @classmethod
    def take(cls, path: Path, max_bytes: int) -> AdoptedFile | None:
        """Lock and read it. None: it has an owner, is gone, is too large, or others may have written it."""
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            # Without a link it was removed between our open and our lock.
            if try_lock(file) and (found := os.fstat(file)).st_nlink > 0 and _is_ours(path, found):
                if found.st_size > max_bytes:
                    _set_aside(path, found.st_size, max_bytes)
                    raise OSError(27, "File too large")
                with open(file, "rb", closefd=False) as reader:
                    return cls(path, file, read_contents(reader.read()))
        except OSError:
            pass
        os.close(file)
        return None

    def remove(self) -> None:
        """All that was in it has its verdict."""
        self.path.with_suffix(SUFFIX).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        self.let_go()

    def let_go(self) -> None:
        """Close it; what is still there is the next process's."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            _open_files.discard(self)


#: What holds a lock in this process. The lock would outlive it in the children that it forks.
_open_files: WeakSet[Journal | AdoptedFile] = WeakSet()


def _let_go_of_all() -> None:
    for held in list(_open_files):
        held.let_go()


os.register_at_fork(after_in_child=_let_go_of_all)

#: Files that are not taken, and have been complained about.
_suspicious: set[Path] = set()


def _is_ours(path: Path, found: os.stat_result) -> bool:
    """Whether nobody else can have written the file: what is in it is sent with our credentials."""
    if stat.S_ISREG(found.st_mode) and not is_writable_by_others(found):
        return True
    if path not in _suspicious:
        _suspicious.add(path)
        logger.warning(
            "The journal %s is left alone: it belongs to another user, or others can write it. If it is yours, "
            "`chown` it to you and `chmod 600` it",
            path,
        )
    return False


def _set_aside(path: Path, size: int, max_bytes: int) -> None:
    """Rename a file that no journal of this size can have written: reading it could take all memory."""
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


def read_contents(data: bytes) -> Contents:
    """What a file says. Torn tails and damaged records are left out, nothing else."""
    contents = Contents()
    for payload in _payloads(data):
        try:
            contents.apply(_decoder.decode(payload))
        except msgspec.DecodeError:
            continue  # whole by its checksum, but not ours: a newer version's
    return contents


def read_entries(data: bytes) -> Iterator[Entry]:
    """The results in a file that are not struck out."""
    yield from read_contents(data).results.values()


def _payloads(data: bytes) -> Iterator[bytes]:
    at = data.find(_MARK)
    while at >= 0 and at + _FRAME.size <= len(data):
        _, length, checksum = _FRAME.unpack_from(data, at)
        begin = at + _FRAME.size
        payload = data[begin : begin + length]
        whole = len(payload) == length and zlib.crc32(payload) == checksum
        if whole:
            yield payload
        at = data.find(_MARK, begin + length if whole else at + 1)


def _takes_room(record: _Record) -> bool:
    """Whether it may be refused for want of room; one that makes room is not."""
    return not isinstance(record, _StrikeRecord | _PutDownRecord)


def _frame(record: _Record) -> bytes:
    payload = _encoder.encode(record)
    return _FRAME.pack(_MARK, len(payload), zlib.crc32(payload)) + payload
