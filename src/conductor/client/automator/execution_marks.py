"""Marks the tasks that a process is executing, so that they are known after the process has died.

The marks are in a file in the directory of the journal. The file is mapped into memory. Each function that is being
called has a slot of the file, with the task's id, the time of the call and the worker's `poison_limit`. The thread that
makes the call writes the slot before the call and clears it after the call. A store into mapped memory survives the
death of the process, but perhaps not a power failure. Such a store needs no system call and does not release the GIL.

The first slot is a header with the task that is on probation (see `isolation`). A process that stops on request removes
the file, so that no task is blamed. `process_deaths` reads the file of a dead process.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
import threading
from collections import deque
from pathlib import Path
from typing import NamedTuple

from conductor.common.clock import Clock
from conductor.common.machine import is_writable_by_others

logger = logging.getLogger(__name__)

#: The suffix of the file, which is otherwise named like the journal.
SUFFIX = ".executing"
SLOT_BYTES = 64
#: Time of the call in epoch milliseconds (0: the slot is free), `poison_limit`, and the first 54 bytes of the task id.
_SLOT = struct.Struct("<QH54s")
#: The content of the first slot: `_MARK`, which identifies the format, and the first 54 bytes of the id of the task on
#: probation.
_HEADER = struct.Struct("<4s54s")
_MARK = b"CWE1"
_ID_BYTES = 54
_PAGE_BYTES = max(4096, mmap.ALLOCATIONGRANULARITY)
#: A larger file of execution marks is not read.
_MAX_BYTES = 16 << 20

Slot = tuple[mmap.mmap, int]


class ExecutionMarks:
    """The marks of this process. Any thread may call `begin` and `end`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Create the file.

        Raises:
            OSError: The file cannot be created, or the disk is full.
        """
        self.path = path
        self._wall_ms = clock.wall_ms
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._free: deque[Slot] = deque()
        self._growing = threading.Lock()
        self._size = 0
        try:
            self._header = self._grow()
        except OSError:
            self.remove()
            raise
        self.set_probation("")

    def begin(self, task_id: str, poison_limit: int) -> Slot | None:
        """Write a task to a free slot before its function is called. Return the slot; None if the disk is full."""
        try:
            slot = self._free.pop()
        except IndexError:
            with self._growing:
                try:
                    slot = self._free.pop() if self._free else self._grow()
                except OSError:
                    return None
        _SLOT.pack_into(*slot, self._wall_ms(), poison_limit, task_id.encode())
        return slot

    def end(self, slot: Slot | None) -> None:
        """Clear the mark of a function that has returned."""
        if slot is not None:
            page, at = slot
            page[at : at + 8] = bytes(8)
            self._free.append(slot)

    def set_probation(self, task_id: str) -> None:
        """Mark the task that is blamed if the process dies now; an empty id marks none."""
        _HEADER.pack_into(*self._header, _MARK, task_id.encode())

    def move(self, path: Path) -> None:
        """Rename the file after its journal was renamed. If the file was removed, create a new one.

        Raises:
            OSError: The file can neither be moved nor created.
        """
        try:
            self.path.rename(path)
        except FileNotFoundError:
            # Functions that are running keep their slots in the removed file, so the new file has no marks for them.
            os.close(self._file)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._free, self._size = deque(), 0
            self._header = self._grow()
            self.set_probation("")
        self.path = path

    def remove(self) -> None:
        """Remove the file. The memory stays mapped, because functions that return later still clear their slots."""
        self.path.unlink(missing_ok=True)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _grow(self) -> Slot:
        """Add a page of slots. Return the first one, which is not in `_free`."""
        # Write zeros before mapping the page. Without them the file has a hole, and a store into a hole on a full disk
        # kills the process.
        if os.pwrite(self._file, bytes(_PAGE_BYTES), self._size) != _PAGE_BYTES:
            raise OSError(28, "No space left on device")
        page = mmap.mmap(self._file, _PAGE_BYTES, offset=self._size)
        self._size += _PAGE_BYTES
        self._free.extend((page, at) for at in range(SLOT_BYTES, _PAGE_BYTES, SLOT_BYTES))
        return page, 0


class Mark(NamedTuple):
    """A function that was being called when its process died."""

    task_id: bytes
    began_ms: int
    poison_limit: int

    def is_of(self, task_id: str) -> bool:
        """Return whether the mark belongs to this task."""
        return self.task_id == task_id.encode()[:_ID_BYTES]


class MarksOfDeadProcess(NamedTuple):
    """The marks in the file of a dead process."""

    executing: list[Mark]
    #: The task that was on probation; empty for none.
    on_probation: bytes


def read_marks(path: Path) -> MarksOfDeadProcess | None:
    """Read the file of a dead process. Return None if it is missing, invalid, too large or writable by other users."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(file, "rb") as reader:
        found = os.fstat(file)
        if is_writable_by_others(found) or found.st_size > _MAX_BYTES:
            logger.warning(
                'Execution marks ignored: path=%s reason="other users can write the file, or it is too large"', path
            )
            return None
        data = reader.read()
    if len(data) < SLOT_BYTES or not data.startswith(_MARK):
        return None
    _, on_probation = _HEADER.unpack_from(data)
    slots = [_SLOT.unpack_from(data, at) for at in range(SLOT_BYTES, len(data) - SLOT_BYTES + 1, SLOT_BYTES)]
    marks = [Mark(task_id.rstrip(b"\0"), began_ms, limit) for began_ms, limit, task_id in slots if began_ms]
    return MarksOfDeadProcess(marks, on_probation.rstrip(b"\0"))
