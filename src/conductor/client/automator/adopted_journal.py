"""Adopts the journal files of dead processes.

A living process holds the lock of its file, so a free lock means a dead owner.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from conductor.client.automator.execution_marks import SUFFIX, MarksOfDeadProcess, read_marks
from conductor.client.automator.journal import (
    HeldTask,
    Journal,
    JournalContents,
    PendingReport,
    Record,
    ReportAdded,
    ReportRemoved,
    TaskRemoved,
    encode_records,
    open_journals,
    read_contents,
    write_all,
)
from conductor.common.machine import is_writable_by_others, try_lock

logger = logging.getLogger(__name__)

#: The largest file that is adopted, as a multiple of `journal_max_bytes`. A file may exceed the limit, because removals
#: are written even when it is full.
MAX_FILE_SHARE = 2


def adopt_files(journal: Journal) -> Iterator[AdoptedJournal]:
    """Lock and yield the files of dead processes for the same server."""
    try:
        paths = sorted(journal.directory.glob(f"{journal.server}-*.journal"))
    except OSError:
        return
    for path in paths:
        if path != journal.path and (adopted := AdoptedJournal.lock(path, MAX_FILE_SHARE * journal.max_bytes)):
            yield adopted


class AdoptedJournal:
    """The journal of a dead process, locked by this process."""

    def __init__(self, path: Path, file: int, contents: JournalContents) -> None:
        self.path = path
        #: When the dead process last wrote to the file, in epoch milliseconds.
        self.written_ms = os.fstat(file).st_mtime_ns // 1_000_000
        self._contents = contents
        self._file: int | None = file
        open_journals.add(self)

    @classmethod
    def lock(cls, path: Path, max_bytes: int) -> AdoptedJournal | None:
        """Lock and read a file. Return None if a living process owns it, or if it is gone, too large or not trusted."""
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            # A link count of 0 means that the file was removed between `open` and the lock.
            if try_lock(file) and (found := os.fstat(file)).st_nlink > 0 and _is_trusted(path, found):
                if found.st_size > max_bytes:
                    _set_aside(path, found.st_size, max_bytes)
                    raise OSError(errno.EFBIG, "File too large")
                with open(file, "rb", closefd=False) as reader:
                    return cls(path, file, read_contents(reader.read()))
        except OSError:
            pass
        os.close(file)
        return None

    @property
    def reports(self) -> list[PendingReport]:
        """The reports that have no verdict yet."""
        return list(self._contents.reports.values())

    @property
    def tasks(self) -> list[HeldTask]:
        """The tasks that the process held when it died."""
        return list(self._contents.tasks.values())

    @property
    def process_id(self) -> int:
        """The id of the process that wrote the file."""
        return int(self.path.name.split("-")[1])

    @property
    def marks(self) -> MarksOfDeadProcess | None:
        """The tasks that the dead process was executing; None if the file of marks is missing or not readable."""
        return read_marks(self.path.with_suffix(SUFFIX))

    def replace_tasks(self, reports: list[PendingReport]) -> None:
        """Add reports in place of their tasks, and remove the execution marks."""
        for report in reports:
            self._write(ReportAdded(report))
        self.path.with_suffix(SUFFIX).unlink(missing_ok=True)

    def remove(self, report: PendingReport) -> None:
        """Remove a report or a task that has its verdict, so that it is not sent again if this process dies."""
        if report.report_id in self._contents.reports:
            self._write(ReportRemoved(report.report_id))
        elif self._contents.holds(report.task_id, report.poll_count):
            self._write(TaskRemoved(report.task_id, report.poll_count))

    def _write(self, record: Record) -> None:
        self._contents.apply(record)
        if self._file is None:
            return
        try:
            write_all(self._file, encode_records([record]))
        except OSError as error:
            logger.warning("The journal %s cannot be written (%s), so its reports may be sent again", self.path, error)

    def remove_file(self) -> None:
        """Remove the file, after all of its entries have a verdict."""
        self.path.with_suffix(SUFFIX).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        self.close_file()

    def close_file(self) -> None:
        """Close and unlock the file. Another process can adopt the remaining entries."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            open_journals.discard(self)


#: Files that are not trusted and were already named in a warning.
_untrusted: set[Path] = set()


def _is_trusted(path: Path, found: os.stat_result) -> bool:
    """Return whether only this user can write the file, because its reports are sent with this user's credentials."""
    if stat.S_ISREG(found.st_mode) and not is_writable_by_others(found):
        return True
    if path not in _untrusted:
        _untrusted.add(path)
        logger.warning(
            "The journal %s is not adopted: it belongs to another user, or other users can write it. If it is yours, "
            "`chown` it to you and `chmod 600` it",
            path,
        )
    return False


def _set_aside(path: Path, size: int, max_bytes: int) -> None:
    """Rename a file that is too large to read into memory, so that it is not adopted."""
    aside = path.with_name(f"{path.name}.too-large")
    path.rename(aside)
    logger.critical(
        "The journal %s has %d bytes, more than the limit of %d. It was renamed to %s, and its results are not sent. "
        "To send them, increase CONDUCTOR_WORKER_JOURNAL_MAX_BYTES and rename the file back",
        path,
        size,
        max_bytes,
        aside,
    )
