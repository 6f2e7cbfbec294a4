from enum import StrEnum


class TaskResultStatus(StrEnum):
    """The statuses that a worker can report. The server decides whether a failed task is retried."""

    COMPLETED = "COMPLETED"
    #: Failed. The task definition says whether the task is retried.
    FAILED = "FAILED"
    #: Failed without retries.
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    #: Not done yet. The task is requeued after `callback_after_seconds`.
    IN_PROGRESS = "IN_PROGRESS"
    #: Cancelled. The workflow ends as TERMINATED.
    CANCELED = "CANCELED"
