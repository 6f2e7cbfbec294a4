"""Notes which tasks a process is executing, so that the notes can be read after the process has died.

The notes are a file beside the journal, mapped into memory. Each function that is being called has a slot with the
task's id, the time of the call and the worker's `poison_limit`. A slot is written before the call and cleared after it,
by the thread that makes the call: only that thread knows the moment. A store into mapped memory survives the death of
the process, costs no system call and does not let another thread run; a power failure may lose it.

The first slot is a header with the task that is on probation (see `isolation`). A process that stops in an orderly way
removes the file: then no task is blamed. `deaths` reads the file of a dead process.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from conductor.common.clock import Clock
from conductor.common.machine import is_writable_by_others

logger = logging.getLogger(__name__)

#: How the file is called beside its journal.
SUFFIX = ".executing"
SLOT_BYTES = 64
#: Time of the call in epoch milliseconds (0: the slot is free), `poison_limit`, and the first 54 bytes of the task id.
_SLOT = struct.Struct("<QH54s")
#: Mark, and the first 54 bytes of the id of the task on probation.
_HEADER = struct.Struct("<4s54s")
_MARK = b"CWE1"
_ID_BYTES = 54
_PAGE_BYTES = max(4096, mmap.ALLOCATIONGRANULARITY)
#: A file of a dead process that is larger than this is not one of ours.
_MAX_BYTES = 16 << 20

Slot = tuple[mmap.mmap, int]


class ExecutionMarks:
    """The notes of this process. `begin` and `end` may be called by any thread."""

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
        """Note that the function of a task is about to be called. Return its slot; None if there is no room."""
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
        """Note that the function has returned."""
        if slot is not None:
            page, at = slot
            page[at : at + 8] = bytes(8)
            self._free.append(slot)

    def set_probation(self, task_id: str) -> None:
        """Note the task that is blamed if the process dies now; an empty id for none."""
        _HEADER.pack_into(*self._header, _MARK, task_id.encode())

    def around(self, call: Callable[[Any], Any], poison_limit: int) -> Callable[[Any], Any]:
        """Return a function that makes the call on a thread, with a note around it."""

        def noted(task: Any) -> Any:
            slot = self.begin(task.task_id, poison_limit)
            try:
                return call(task)
            finally:
                self.end(slot)

        return noted

    def around_coroutine(self, call: Callable[[Any], Awaitable[Any]], poison_limit: int) -> Callable[[Any], Any]:
        """Return a coroutine function that awaits the call, with a note around it."""

        async def noted(task: Any) -> Any:
            slot = self.begin(task.task_id, poison_limit)
            try:
                return await call(task)
            finally:
                self.end(slot)

        return noted

    async def await_noted(self, value: Awaitable[Any], task_id: str, poison_limit: int) -> Any:
        """Await the rest of a function that has returned an awaitable, with a note around it."""
        slot = self.begin(task_id, poison_limit)
        try:
            return await value
        finally:
            self.end(slot)

    def move(self, path: Path) -> None:
        """Follow the journal to another name. If the file was removed, begin a new one.

        Raises:
            OSError: The file can neither be moved nor created.
        """
        try:
            self.path.rename(path)
        except FileNotFoundError:
            # Executions that have begun keep their slots in the removed file: they are not noted any more.
            os.close(self._file)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._free, self._size = deque(), 0
            self._header = self._grow()
            self.set_probation("")
        self.path = path

    def remove(self) -> None:
        """Remove the file. The mapped memory stays: a function that never returns may still clear its slot."""
        self.path.unlink(missing_ok=True)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _grow(self) -> Slot:
        """Add a page of slots. Return one of them, which is not in `_free`."""
        # Zeros are written before they are mapped: a store into a hole on a full disk would kill the process.
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
    """What the file of a dead process says."""

    executing: list[Mark]
    #: The task that was on probation; empty for none.
    on_probation: bytes


def read_marks(path: Path) -> MarksOfDeadProcess | None:
    """Read the file of a dead process; None if there is none that only this user can have written."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(file, "rb") as reader:
        found = os.fstat(file)
        if is_writable_by_others(found) or found.st_size > _MAX_BYTES:
            logger.warning("Execution marks ignored: path=%s others can write the file, or it is too large", path)
            return None
        data = reader.read()
    if len(data) < SLOT_BYTES or not data.startswith(_MARK):
        return None
    _, on_probation = _HEADER.unpack_from(data)
    slots = [_SLOT.unpack_from(data, at) for at in range(SLOT_BYTES, len(data) - SLOT_BYTES + 1, SLOT_BYTES)]
    marks = [Mark(task_id.rstrip(b"\0"), began_ms, limit) for began_ms, limit, task_id in slots if began_ms]
    return MarksOfDeadProcess(marks, on_probation.rstrip(b"\0"))
