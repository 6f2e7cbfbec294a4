"""Results on disk until their verdict.

A file belongs to one server and one process, which holds a lock on it. Records are framed (length, checksum, JSON):
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
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from conductor.wire import TERMINAL_TASK_STATUSES

logger = logging.getLogger(__name__)

_MAGIC = b"CWJ1"
_FRAME = struct.Struct("<II")  # length, CRC-32 of the payload
#: A struck-out file is emptied when it is empty of results, and rewritten when it is this large and mostly struck out.
_COMPACT_BYTES = 1 << 20


class Entry(msgspec.Struct, frozen=True, rename="camel"):
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

    @property
    def terminal(self) -> bool:
        """Whether the report ends the task."""
        return self.status in TERMINAL_TASK_STATUSES


class _Struck(msgspec.Struct, frozen=True, tag="struck"):
    report_id: str


class _Kept(msgspec.Struct, frozen=True, tag="kept"):
    entry: Entry


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Struck | _Kept)


def default_directory() -> Path:
    """Where journals live unless told otherwise: the user's state directory."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "conductor-worker" / "journal"


class Journal:
    """The journal of this process for one server. Trouble with the disk costs its protection, never the work."""

    def __init__(self, directory: Path, server_url: str, *, max_bytes: int) -> None:
        self.directory = directory
        self._server = hashlib.sha256(server_url.encode()).hexdigest()[:16]
        self._max_bytes = max_bytes
        self._file: int | None = None
        self.path = directory / f"{self._server}-{os.getpid()}-{os.urandom(4).hex()}.journal"
        self._kept: dict[str, Entry] = {}
        self._size = 0
        self._live = 0
        self._broken = False
        #: Results that were given up by their report, to be sent again in the background.
        self.waiting: asyncio.Queue[Entry] = asyncio.Queue()

    def open(self) -> None:
        """Make the file and lock it. A directory that cannot be written is said once, loudly."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(_MAGIC)
        except OSError as error:
            self._break(error)

    def put(self, entry: Entry) -> bool:
        """Keep the result. False: it could not be kept, and lives in memory only."""
        if self._file is None:
            return False
        frame = _frame(_encoder.encode(_Kept(entry)))
        if self._size + len(frame) > self._max_bytes and not self._make_room(len(frame)):
            return False
        try:
            self._write(frame)
        except OSError as error:
            self._break(error)
            return False
        self._kept[entry.report_id] = entry
        self._live += len(frame)
        if self._broken:
            self._broken = False
            logger.warning("The result journal %s can be written again", self.path)
        return True

    def done(self, entry: Entry) -> None:
        """Strike the result out: it has its verdict."""
        if self._file is None or self._kept.pop(entry.report_id, None) is None:
            return
        try:
            if not self._kept and self._size > _COMPACT_BYTES:
                self._empty()
            else:
                self._write(_frame(_encoder.encode(_Struck(entry.report_id))))
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

    def _write(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101
        written = os.write(self._file, data)
        self._size += written
        if written != len(data):  # a full disk may take half a record
            os.ftruncate(self._file, self._size - written)
            self._size -= written
            raise OSError(28, "No space left on device")

    def _empty(self) -> None:
        assert self._file is not None  # noqa: S101
        os.ftruncate(self._file, len(_MAGIC))
        self._size = len(_MAGIC)
        self._live = 0

    def _make_room(self, needed: int) -> bool:
        """Rewrite the file without what is struck out, if that makes room."""
        live = b"".join(_frame(_encoder.encode(_Kept(entry))) for entry in self._kept.values())
        if len(_MAGIC) + len(live) + needed > self._max_bytes or self._file is None:
            logger.error(
                "The result journal %s is full (%d bytes): new results are not kept on disk", self.path, self._max_bytes
            )
            return False
        try:
            self._empty()
            self._write(live)
        except OSError as error:
            self._break(error)
            return False
        return True

    def _break(self, error: OSError) -> None:
        if not self._broken:
            logger.critical(
                "The result journal %s cannot be written (%s): work goes on, but results are not safe on disk. "
                "Free the disk, or name another directory with CONDUCTOR_WORKER_JOURNAL_DIR",
                self.path,
                error,
            )
        self._broken = True


class AdoptedFile:
    """A dead process's journal, under our lock."""

    def __init__(self, path: Path, file: int, entries: list[Entry]) -> None:
        self.path = path
        self.entries = entries
        self._file = file

    @classmethod
    def take(cls, path: Path) -> AdoptedFile | None:
        """Lock and read it. None: it has an owner, or is gone."""
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
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
        """All its results have their verdict, or are in our own journal now."""
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Give it back untouched."""
        os.close(self._file)


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
    at = len(_MAGIC)
    if data[:at] != _MAGIC:
        at = 0  # a damaged head does not take the records with it
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        payload = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(payload) == length and length and zlib.crc32(payload) == checksum:
            yield payload
            at += _FRAME.size + length
        else:
            at += 1  # look for the next whole record


def _frame(payload: bytes) -> bytes:
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
