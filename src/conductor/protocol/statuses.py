"""The statuses of tasks and workflows, as they appear in JSON and in the database."""

from __future__ import annotations

from enum import StrEnum


class TaskStatus(StrEnum):
    """The status of one attempt at a task."""

    SCHEDULED = "SCHEDULED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"
    SKIPPED = "SKIPPED"
    #: Known to clients only. No server stores it.
    READY_FOR_RERUN = "READY_FOR_RERUN"


class WorkflowStatus(StrEnum):
    """The status of one workflow."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    TERMINATED = "TERMINATED"


#: An attempt with one of these statuses never changes again.
TERMINAL_TASK_STATUSES = frozenset(
    {
        TaskStatus.COMPLETED,
        TaskStatus.COMPLETED_WITH_ERRORS,
        TaskStatus.FAILED,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        TaskStatus.TIMED_OUT,
        TaskStatus.CANCELED,
        TaskStatus.SKIPPED,
    }
)
#: A workflow with one of these statuses has ended. It runs again only if an operator retries, reruns or restarts it.
TERMINAL_WORKFLOW_STATUSES = frozenset(
    {WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT, WorkflowStatus.TERMINATED}
)
