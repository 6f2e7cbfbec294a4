"""Disks that can be full: a small mounted file system if the user may mount one, else a size limit of the process."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psutil

#: How large a small disk may become while it is not full. It lives in memory, and takes only what is on it.
ROOM_BYTES = 4 << 30
PAGE_BYTES = 4096


class Disk(Protocol):
    """A disk that can be full for a while."""

    how: str

    def fill(self) -> None: ...
    def free(self) -> None: ...
    def remove(self) -> None: ...


class SmallDisk:
    """A file system in memory. Full is: as large as what is on it."""

    how = "a small disk in memory"

    def __init__(self, path: Path) -> None:
        self._path = path
        _mount("-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "chaos", str(path))

    def fill(self) -> None:
        for _ in range(20):  # what is written meanwhile makes the size too small
            found = os.statvfs(self._path)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            try:
                return self._resize(max(used, PAGE_BYTES))
            except OSError:
                continue
        raise OSError(f"{self._path} could not be filled")

    def free(self) -> None:
        self._resize(ROOM_BYTES)

    def remove(self) -> None:
        self.free()
        subprocess.run(["umount", str(self._path)], check=True)

    def _resize(self, size_bytes: int) -> None:
        _mount("-o", f"remount,size={size_bytes}", str(self._path))


class SizeLimit:
    """No file of a process may grow, nor be written beyond its first page: what any user may do to a process."""

    how = "a limit on the size of files"

    def __init__(self, pid: Callable[[], int]) -> None:
        self._pid = pid

    def fill(self) -> None:
        process = psutil.Process(self._pid())
        process.rlimit(resource.RLIMIT_FSIZE, (PAGE_BYTES, process.rlimit(resource.RLIMIT_FSIZE)[1]))

    def free(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):  # it took its limit with it
            process = psutil.Process(self._pid())
            most = process.rlimit(resource.RLIMIT_FSIZE)[1]
            process.rlimit(resource.RLIMIT_FSIZE, (most, most))

    def remove(self) -> None:
        pass


class Disks:
    """The places of a run's files, each on a disk of its own where that is possible. For a `with` block."""

    def __init__(self, directory: Path, coordinator_pid: Callable[[], int]) -> None:
        self.database = directory / "database"
        self.journals = directory / "journals"
        #: The disk of each process. None: this machine cannot provide one.
        self.of_coordinator: Disk | None = _small_disk(self.database) or _size_limit(coordinator_pid)
        self.of_journals: Disk | None = _small_disk(self.journals)

    def __enter__(self) -> Disks:
        return self

    def __exit__(self, *_: object) -> None:
        for disk in (self.of_coordinator, self.of_journals):
            if disk is not None:
                disk.remove()

    @property
    def how(self) -> dict[str, str]:
        """How each is filled, or why it is not."""
        ways = {"coordinator": self.of_coordinator, "journals": self.of_journals}
        return {
            name: "SKIPPED: takes root, to mount a small disk" if way is None else way.how for name, way in ways.items()
        }


def _small_disk(path: Path) -> SmallDisk | None:
    path.mkdir()
    try:
        return SmallDisk(path)
    except OSError:
        return None


def _size_limit(pid: Callable[[], int]) -> SizeLimit | None:
    return SizeLimit(pid) if hasattr(psutil.Process, "rlimit") else None


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip())
