"""Results on disk until their verdict.

A file belongs to one server and one process, which holds a lock on it. Records are framed (mark, length, checksum):
a result is put down with one `write`, which survives the death of the process, and struck out by a second record
when its verdict is there. A file without an owner is adopted by the next process of the same server.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from conductor.wire import TERMINAL_TASK_STATUSES

logger = logging.getLogger(__name__)

#: Begins every record. No JSON text contains a byte 0xFF, so a report cannot be taken for a record.
_MARK = b"\xffCWJ"
_FRAME = struct.Struct("<4sII")  # mark, length, CRC-32 of the payload
#: A file of this size is emptied or rewritten without what is struck out.
_TIDY_BYTES = 8 << 20


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

    @property
    def terminal(self) -> bool:
        """Whether the report ends the task."""
        return self.status in TERMINAL_TASK_STATUSES


class _Struck(msgspec.Struct, frozen=True, tag="struck"):
    report_id: str


class _Kept(msgspec.Struct, frozen=True, tag="kept"):
    entry: Entry


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Struck | _Kept)


def default_directory() -> Path:
    """Where journals live unless told otherwise: the user's state directory."""
    try:
        base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    except RuntimeError:  # a container that runs as a number nobody has a name for
        base = str(Path(tempfile.gettempdir()) / f"state-{os.getuid()}")
    return Path(base) / "conductor-worker" / "journal"


class Journal:
    """The journal of this process for one server. Trouble with the disk costs its protection, never the work."""

    def __init__(self, directory: Path, server_url: str, *, max_bytes: int) -> None:
        self.directory = directory
        self._server = hashlib.sha256(server_url.encode()).hexdigest()[:16]
        self._max_bytes = max_bytes
        self.path = self._new_path()
        self._file: int | None = None
        self._kept: dict[str, Entry] = {}
        self._size = 0
        self._broken = False
        #: Results that were given up by their report, to be sent again in the background.
        self.waiting: asyncio.Queue[Entry] = asyncio.Queue()

    def open(self) -> bool:
        """Make the file and lock it. False: the directory cannot be written, which is said once, loudly."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = _create(self.path)
        except OSError as error:
            self._break(error)
        return self._file is not None

    def put(self, entry: Entry) -> bool:
        """Keep the result. False: it could not be kept, and lives in memory only."""
        if self._file is None:
            return False
        frame = _frame(_Kept(entry))
        try:
            if self._size + len(frame) > min(self._max_bytes, _TIDY_BYTES):
                self._tidy()
            if self._size + len(frame) > self._max_bytes:
                raise OSError(27, f"it has reached its limit of {self._max_bytes} bytes")
            self._write(frame)
        except OSError as error:
            self._break(error)
            return False
        self._kept[entry.report_id] = entry
        self._mend()
        return True

    def done(self, entry: Entry) -> None:
        """Strike the result out: it has its verdict."""
        if self._file is None or self._kept.pop(entry.report_id, None) is None:
            return
        try:
            if self._kept or self._size < _TIDY_BYTES:
                self._write(_frame(_Struck(entry.report_id)))
            else:
                os.ftruncate(self._file, 0)
                self._size = 0
        except OSError as error:
            self._break(error)

    async def sync(self) -> None:
        """Make sure that what was put down survives the machine, too."""
        if self._file is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, os.fsync, self._file)
            except OSError as error:
                self._break(error)

    def wait_for_redelivery(self, entry: Entry) -> None:
        """All attempts of a report failed: it is sent again in the background."""
        self.waiting.put_nowait(entry)

    def adopt(self) -> Iterator[AdoptedFile]:
        """The files of dead processes of the same server, each locked while it is ours."""
        try:
            paths = sorted(self.directory.glob(f"{self._server}-*.journal"))
        except OSError:
            return
        for path in paths:
            if path != self.path and (adopted := AdoptedFile.take(path)) is not None:
                yield adopted

    def close(self) -> None:
        """Let go of the file: removed when it is empty of results, else left for the next process."""
        if self._file is None:
            return
        if not self._kept:
            self.path.unlink(missing_ok=True)
        os.close(self._file)
        self._file = None

    def _new_path(self) -> Path:
        return self.directory / f"{self._server}-{os.getpid()}-{os.urandom(4).hex()}.journal"

    def _write(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101
        written = os.write(self._file, data)
        if written != len(data):  # a full disk may take half a record
            os.ftruncate(self._file, self._size)
            raise OSError(28, "No space left on device")
        self._size += written

    def _tidy(self) -> None:
        """Go on in a new file without what is struck out. The old one goes last: nothing is ever in neither."""
        live = b"".join(_frame(_Kept(entry)) for entry in self._kept.values())
        if self._file is None or len(live) > self._size // 2:
            return
        path = self._new_path()
        file = _create(path)
        os.write(file, live)
        self.path.unlink(missing_ok=True)
        os.close(self._file)
        self.path, self._file, self._size = path, file, len(live)

    def _break(self, error: OSError) -> None:
        if not self._broken:
            logger.critical(
                "The result journal %s cannot be written (%s): work goes on, but new results are not safe on disk. "
                "Free the disk, or name another directory with CONDUCTOR_WORKER_JOURNAL_DIR",
                self.path,
                error,
            )
        self._broken = True

    def _mend(self) -> None:
        if self._broken:
            self._broken = False
            logger.warning("The result journal %s is written again", self.path)


def _create(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


class AdoptedFile:
    """A dead process's journal, under our lock."""

    def __init__(self, path: Path, file: int, entries: list[Entry]) -> None:
        self.path = path
        self._entries = {entry.report_id: entry for entry in entries}
        self._file: int | None = file

    @property
    def entries(self) -> list[Entry]:
        """The results in it that have no verdict yet."""
        return list(self._entries.values())

    def done(self, entry: Entry) -> None:
        """Strike the result out: it has its verdict, also if we die before the rest have theirs."""
        if self._file is None or self._entries.pop(entry.report_id, None) is None:
            return
        try:
            os.write(self._file, _frame(_Struck(entry.report_id)))
        except OSError as error:
            logger.warning("%s cannot be written (%s): its results may be sent again", self.path, error)

    @classmethod
    def take(cls, path: Path) -> AdoptedFile | None:
        """Lock and read it. None: it has an owner, or is gone."""
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_nlink == 0:  # removed between our open and our lock
                raise OSError(2, "removed")
            return cls(path, file, list(read_entries(path.read_bytes())))
        except OSError:
            os.close(file)
            return None

    def remove(self) -> None:
        """All its results have their verdict."""
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Let go of it; what is still there is the next process's."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_entries(data: bytes) -> Iterator[Entry]:
    """The results in a file that are not struck out. Torn tails and damaged records are left out, nothing else."""
    kept: dict[str, Entry] = {}
    for payload in _payloads(data):
        try:
            record = _decoder.decode(payload)
        except msgspec.DecodeError:
            continue  # whole by its checksum, but not ours: a newer version's
        if isinstance(record, _Kept):
            kept[record.entry.report_id] = record.entry
        else:
            kept.pop(record.report_id, None)
    yield from kept.values()


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


def _frame(record: _Kept | _Struck) -> bytes:
    payload = _encoder.encode(record)
    return _FRAME.pack(_MARK, len(payload), zlib.crc32(payload)) + payload
