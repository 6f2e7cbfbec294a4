"""How a worker's report may end."""

from __future__ import annotations

from enum import StrEnum


class TaskResultStatus(StrEnum):
    """What a worker may say about a task. Whether a failed task is tried again is the server's decision."""

    COMPLETED = "COMPLETED"
    #: Failed; the server tries again as the task definition says.
    FAILED = "FAILED"
    #: Failed, and trying again would be useless.
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    #: Not done yet: the task is queued again after `callback_after_seconds`.
    IN_PROGRESS = "IN_PROGRESS"
    #: Given up: the workflow ends as TERMINATED.
    CANCELED = "CANCELED"
