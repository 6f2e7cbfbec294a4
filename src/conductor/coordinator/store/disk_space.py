"""Watches the free space of the disk with the database, and keeps some of it for reports and `purge`.

Starts are refused while less than the reserve is free, because a workflow needs space until it ends. Reports need
little space and are still accepted. Another program can still fill the disk. So a reserve file beside the database is
removed when a commit fails for lack of space, and `purge` can write again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path

from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.database_file import MEMORY

logger = logging.getLogger(__name__)

#: The default reserve is `RESERVE_SHARE` of the disk, but at most `MAX_RESERVE_BYTES`.
RESERVE_SHARE, MAX_RESERVE_BYTES = 0.02, 256 << 20
#: If more than this share of the disk is used, the coordinator logs a warning.
WARN_SHARE = 0.8
#: The maximum size of the reserve file, which is removed when the disk is full.
MAX_FILE_BYTES = 8 << 20
#: The free space is read again only after this time.
READ_AGAIN_S = 1.0
_REMEDY = (
    "remove finished workflows with `conductor-worker purge --older-than 7d --vacuum` or --keep-days, "
    "or enlarge the disk"
)


class DiskSpace:
    """The free space of the disk that holds one database.

    Args:
        database: The file.
        reserve_bytes: Starts of workflows are refused while less than this is free; None for the default.
    """

    def __init__(self, database: str, reserve_bytes: int | None = None) -> None:
        self._directory = None if database == MEMORY else Path(database).absolute().parent
        self._file = Path(f"{database}-reserve")
        self._wanted_bytes = reserve_bytes
        self._read_at = 0.0
        self._has_warned = False
        #: The size of the disk and its free space; 0 for a database in memory.
        self.total_bytes = self.free_bytes = 0
        self.reserve_bytes = 0
        self.read()

    def read(self) -> None:
        """Read the free space, unless it was read less than `READ_AGAIN_S` ago."""
        now = time.monotonic()
        if self._directory is None or (self._read_at and now - self._read_at < READ_AGAIN_S):
            return
        try:
            found = os.statvfs(self._directory)
        except OSError:
            return
        self._read_at = now
        self.total_bytes, self.free_bytes = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        default = min(MAX_RESERVE_BYTES, int(self.total_bytes * RESERVE_SHARE))
        self.reserve_bytes = default if self._wanted_bytes is None else self._wanted_bytes
        self._warn()
        self._create_reserve_file()

    @property
    def is_nearly_full(self) -> bool:
        """Whether more than `WARN_SHARE` of the disk is used."""
        return self.free_bytes < self.total_bytes * (1 - WARN_SHARE)

    def find_problem(self) -> str | None:
        """Return why the disk counts as full; None while there is space for commits."""
        self.read()
        if self._directory is None or self.free_bytes >= self.reserve_bytes // 2:
            return None
        return f"the disk is full: {self.free_bytes >> 10} KB of {self._directory} are free; {_REMEDY}"

    def check_start(self) -> None:
        """Raise a 503 if a workflow must not be started, because the free space is reserved."""
        self.read()
        if self._directory is not None and self.free_bytes < self.reserve_bytes:
            raise ApiError(
                503,
                f"no workflow can be started: {self.free_bytes >> 20} MB of {self._directory} are free, and the last "
                f"{self.reserve_bytes >> 20} MB are reserved for reports; {_REMEDY}",
                retryable=True,
            )

    def remove_reserve_file(self) -> None:
        """Remove the reserve file, so that `purge` can write although the disk is full."""
        self._read_at = 0.0
        with contextlib.suppress(OSError):
            if self._file.stat().st_size:
                self._file.unlink()
                logger.warning("Disk is full, so the reserve file was removed: %s", self._file)

    def _warn(self) -> None:
        if self.is_nearly_full and not self._has_warned:
            used = 100 - 100 * self.free_bytes // max(1, self.total_bytes)
            logger.warning(
                "Disk is nearly full: directory=%s used=%d%% free=%d MB; %s",
                self._directory, used, self.free_bytes >> 20, _REMEDY,
            )  # fmt: skip
        self._has_warned = self.is_nearly_full

    def _create_reserve_file(self) -> None:
        """Create the reserve file once the disk is nearly full, while more than the reserve is still free."""
        size = min(MAX_FILE_BYTES, self.reserve_bytes // 4)
        if not self.is_nearly_full or self.free_bytes < self.reserve_bytes or self._file.exists() or not size:
            return
        with contextlib.suppress(OSError), self._file.open("xb") as file:
            file.write(bytes(size))
