"""Lets Litestream reset the write-ahead log while the writer is busy.

Litestream holds a read transaction, so only Litestream can reset the log. For that it needs SQLite's write lock. Under
load the writer takes the lock again right after each commit, and SQLite has no queue for the lock: Litestream asks at
intervals of up to 100 ms, and can fail for seconds, while the log grows by tens of megabytes. So after a commit that
leaves a long log, the writer waits until the log is reset, for at most `MAX_GAP_S`.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable

#: The writer waits after a commit if the log has more pages than this. A page has 4 KB.
LONG_LOG_PAGES = 2500
#: The longest wait. It lets Litestream try twice, because SQLite's busy handler tries at least every 100 ms.
MAX_GAP_S = 0.25
#: After a wait in which the log was not reset, the writer does not wait again during this pause. Each further wait
#: without a reset doubles the pause, up to the maximum. A short pause keeps the log short if Litestream is only slow,
#: and a long pause costs little if Litestream does not run.
FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 8.0
_STEP_S = 0.002
#: Format and offset of the number of valid log pages in the header of SQLite's shared memory file (`-shm`).
_MAX_FRAME, _OFFSET = struct.Struct("=I"), 16
_HEADER_BYTES = 48


class WalGap:
    """Makes the writer wait while the log is long. `ask_for_sync` asks Litestream to copy the log without blocking."""

    def __init__(self, database: str, ask_for_sync: Callable[[], None]) -> None:
        self._ask_for_sync = ask_for_sync
        # The file stays open until SQLite has closed the database, because closing any handle of the file would
        # release SQLite's own locks.
        self._file = os.open(f"{database}-shm", os.O_RDONLY | os.O_CLOEXEC)
        self._header = mmap.mmap(self._file, _HEADER_BYTES, prot=mmap.PROT_READ)
        self._not_before = 0.0
        self._pause_s = FIRST_PAUSE_S
        #: The number of waits, and their total duration.
        self.count = 0
        self.total_s = 0.0

    @property
    def pages(self) -> int:
        """The current length of the log, in pages."""
        return int(_MAX_FRAME.unpack_from(self._header, _OFFSET)[0])

    def wait_for_reset(self) -> None:
        """Wait until Litestream has reset a long log, at most `MAX_GAP_S`. The writer calls this after each commit."""
        if self.pages <= LONG_LOG_PAGES:
            return
        began = time.monotonic()
        if began < self._not_before:
            return
        self._ask_for_sync()
        while self.pages > LONG_LOG_PAGES:
            waited_s = time.monotonic() - began
            if waited_s >= MAX_GAP_S:
                self._not_before = began + self._pause_s
                self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s)
                break
            time.sleep(_STEP_S)
        else:
            self._pause_s = FIRST_PAUSE_S
        self.count += 1
        self.total_s += time.monotonic() - began

    def close(self) -> None:
        """Close the file. Call this only after SQLite has closed the database."""
        self._header.close()
        os.close(self._file)
