"""Finds the task that killed its worker process, and counts how often it has done so.

The process that adopts the journal of a dead one judges the tasks in it once, before it sends anything. Usually the
supervisor judges them immediately, because only the supervisor knows the exit status. If the supervisor is dead too,
the next process with the same directory judges them.

- A task whose function was not being called is requeued as never started: the delivery does not count.
- If one function was being called, or one task was on probation (see `isolation`), that task is the culprit. The
  attempt is reported as FAILED with the exit status as the reason, and the task's retry policy decides what follows.
  After `poison_limit` deaths it is reported as FAILED_WITH_TERMINAL_ERROR.
- After the first death by a signal that may have come from outside (SIGKILL: an operator, the out-of-memory killer), or
  of an unknown cause, the culprit is only requeued, so that killing a worker once does not cost a task one of its
  retries.
- If several functions were being called, each task is a suspect: it is requeued, and the death does not count toward
  `poison_limit`.

Each culprit or suspect has a record file in the journal directory, named after the workflow and the reference name:
retries have new task ids, but the same names. Every process that uses the directory runs such a task alone. The file is
removed when the task's function has returned. Without a journal nothing is known about the tasks of a dead process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from conductor.client.event.task_runner_events import TaskProcessDied
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.common.signals import format_exit_status
from conductor.protocol.wire import PROCESS_DEATH
from conductor.telemetry.log_format import TaskLabel

if TYPE_CHECKING:
    from conductor.client.automator.adopted_journal import AdoptedJournal
    from conductor.client.automator.execution_marks import Mark
    from conductor.client.automator.journal import HeldTask, Journal, PendingReport

logger = logging.getLogger(__name__)

#: The suffix of the files with the records of culprits and suspects.
SUFFIX = ".deaths"
#: Signals that users, the kernel or a service manager send. The process itself causes other signals and exit statuses.
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_MAX_RECORD_BYTES = 64 << 10


class DeathRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A task during whose execution a worker process died."""

    workflow_instance_id: str
    reference_name: str
    task_type: str
    #: The last attempt that was being executed, and its delivery.
    task_id: str
    poll_count: int
    #: How often the task was the culprit, and how often one of several suspects.
    deaths: int = 0
    suspicions: int = 0
    #: For how many seconds the task's function had run at the last death, and how many functions were running then.
    ran_s: float = 0.0
    executing: int = 1
    cause: str = ""
    at_ms: int = 0
    #: Whether the cause of the last death may be outside the process: a signal of `_FROM_OUTSIDE`, or unknown.
    may_be_from_outside: bool = False
    #: Whether the task has reached its `poison_limit`. If it is retried by hand, its deaths count from zero.
    is_over: bool = False


class DeathRecords:
    """The records of one server in one journal directory. Several processes may read and write them."""

    def __init__(self, directory: Path, server: str) -> None:
        self._directory = directory
        self._server = server

    @classmethod
    def of(cls, journal: Journal) -> DeathRecords:
        """Return the records in the directory of a journal, for the journal's server."""
        return cls(journal.directory, journal.server)

    def find(self, workflow_instance_id: str, reference_name: str) -> DeathRecord | None:
        """Return the record of a task, for any of its attempts."""
        return _read(self._path(workflow_instance_id, reference_name))

    def save(self, record: DeathRecord) -> None:
        """Write the record atomically. If that fails, log a warning and continue without the record."""
        path = self._path(record.workflow_instance_id, record.reference_name)
        new = path.with_suffix(f".{os.getpid()}.new")
        try:
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as writer:
                writer.write(msgspec.json.encode(record))
            new.replace(path)
        except OSError as error:
            logger.warning(
                "Record of a task's process deaths not saved: task_id=%s path=%s error=%s", record.task_id, path, error
            )

    def clear(self, workflow_instance_id: str, reference_name: str) -> None:
        """Remove the record of a task whose function has returned."""
        try:
            self._path(workflow_instance_id, reference_name).unlink(missing_ok=True)
        except OSError as error:
            logger.debug("Record of a task's process deaths not removed: %s", error)

    def forget_old(self, now_ms: int, max_age_s: float) -> None:
        """Remove records older than `max_age_s`, which remain if a worker on another machine finished the task."""
        for record in read_records(self._directory, self._server):
            if now_ms - record.at_ms > max_age_s * 1000:
                self.clear(record.workflow_instance_id, record.reference_name)

    def _path(self, workflow_instance_id: str, reference_name: str) -> Path:
        name = hashlib.sha256(f"{workflow_instance_id}\0{reference_name}".encode()).hexdigest()[:32]
        return self._directory / f"{self._server}-{name}{SUFFIX}"


def read_records(directory: Path, server: str = "") -> list[DeathRecord]:
    """Return the records in a journal directory, for one server or for all."""
    records = [_read(path) for path in sorted(directory.glob(f"{server}*{SUFFIX}"))]
    return [record for record in records if record is not None]


def _read(path: Path) -> DeathRecord | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as reader:
            return msgspec.json.decode(reader.read(_MAX_RECORD_BYTES), type=DeathRecord)
    except (OSError, msgspec.DecodeError):
        return None


def judge(
    file: AdoptedJournal, records: DeathRecords, now_ms: int, exit_status: int | None = None
) -> list[TaskProcessDied]:
    """Decide which tasks of a dead process are blamed for its death, and put the reports about them into its journal.

    Args:
        file: The journal of the dead process, locked by this one.
        records: The records of culprits and suspects.
        now_ms: The time, in epoch milliseconds.
        exit_status: As `multiprocessing` gives it, negative for a signal; None if it is not known.

    Returns:
        One event per task that is blamed.
    """
    marks = file.marks
    if marks is None:
        return []
    executing = [(task, mark) for task in file.tasks for mark in marks.executing if mark.is_of(task.task_id)]
    on_probation = [(task, mark) for task, mark in executing if mark.task_id == marks.on_probation]
    is_certain = bool(on_probation) or len(marks.executing) == 1
    blamed = on_probation or executing
    others = len(marks.executing) - 1
    # If no supervisor saw the death, the last known action of the process is the best estimate of its time.
    last_ms = max([file.written_ms, *(mark.began_ms for mark in marks.executing)])
    died_ms = now_ms if exit_status is not None else min(now_ms, last_ms)
    judged = [
        _blame(task, mark, records, now_ms, exit_status, None if is_certain else others, died_ms - mark.began_ms)
        for task, mark in blamed
    ]
    never_started = [task for task in file.tasks if not any(mark.is_of(task.task_id) for mark in marks.executing)]
    requeues = [task.make_requeue_report(now_ms, never_started=True) for task in never_started]
    file.replace_tasks([*requeues, *(report for report, _ in judged)])
    return [event for _, event in judged]


def _blame(
    task: HeldTask,
    mark: Mark,
    records: DeathRecords,
    now_ms: int,
    exit_status: int | None,
    others: int | None,
    ran_ms: int,
) -> tuple[PendingReport, TaskProcessDied]:
    """Count the death, and return the report about the task and the event.

    `others` is the number of other suspects; None for a culprit.
    """
    before = records.find(task.workflow_instance_id, task.reference_name)
    deaths, suspicions = (before.deaths, before.suspicions) if before is not None and not before.is_over else (0, 0)
    if before is None or (before.task_id, before.poll_count) != (task.task_id, task.poll_count):
        # A record of the same delivery means that a process has counted this death and then died before it could update
        # the journal.
        deaths, suspicions = (deaths + 1, suspicions) if others is None else (deaths, suspicions + 1)
    cause = describe_exit(exit_status)
    status, consequence = _decide(deaths, mark.poison_limit, exit_status, others)
    reason = f"{cause} while it executed this task{consequence}"
    record = DeathRecord(
        workflow_instance_id=task.workflow_instance_id,
        reference_name=task.reference_name,
        task_type=task.task_type,
        task_id=task.task_id,
        poll_count=task.poll_count,
        deaths=deaths,
        suspicions=suspicions,
        ran_s=max(0, ran_ms) / 1000,
        executing=1 + (others or 0),
        cause=cause,
        at_ms=now_ms,
        may_be_from_outside=_may_be_from_outside(exit_status),
        is_over=status is TaskResultStatus.FAILED_WITH_TERMINAL_ERROR,
    )
    records.save(record)
    logger.log(
        logging.ERROR if others is None else logging.WARNING,
        'Worker process died: task_id=%s reason="%s" reported_as=%s %s',
        task.task_id,
        reason,
        status,
        TaskLabel.of(task.task_type, task.task_id, task.workflow_instance_id),
    )
    event = TaskProcessDied(
        task.task_type,
        task.task_id,
        task.worker_id or "",
        task.workflow_instance_id,
        cause=cause,
        exit_status=exit_status,
        deaths=deaths,
        suspicions=suspicions,
        reported_as=str(status),
    )
    return task.make_report(status, reason, now_ms), event


def _decide(
    deaths: int, poison_limit: int, exit_status: int | None, others: int | None
) -> tuple[TaskResultStatus, str]:
    """Return the status to report for a task that is blamed for a death, and the end of the failure reason."""
    if others is not None:
        return TaskResultStatus.IN_PROGRESS, f" and {others} more; the task runs alone next"
    if deaths <= 1 and _may_be_from_outside(exit_status):
        return TaskResultStatus.IN_PROGRESS, "; the task runs alone next"
    if poison_limit and deaths >= poison_limit:
        consequence = f" (death {deaths}; poison_limit={poison_limit}, so it is not retried)"
        return TaskResultStatus.FAILED_WITH_TERMINAL_ERROR, consequence
    return TaskResultStatus.FAILED, f" (death {deaths}; poison_limit={poison_limit})"


def _may_be_from_outside(exit_status: int | None) -> bool:
    return exit_status is None or -exit_status in _FROM_OUTSIDE


def describe_exit(exit_status: int | None) -> str:
    """Return how a worker process ended, such as "the worker process was killed by SIGSEGV"."""
    if exit_status is None:
        return f"{PROCESS_DEATH}died"
    verb = "exited with" if exit_status >= 0 else "was killed by"
    return f"{PROCESS_DEATH}{verb} {format_exit_status(exit_status)}" + " (out of memory?)" * (
        -exit_status == signal.SIGKILL
    )
