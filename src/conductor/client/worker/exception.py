"""What a worker function may raise to say more than 'it failed'."""

from __future__ import annotations

from conductor.client.context.task_context import TaskCancelled

__all__ = ["NonRetryableException", "TaskCancelled"]


class NonRetryableException(Exception):
    """Fail the task for good: FAILED_WITH_TERMINAL_ERROR, no retry whatever the task definition says.

    Raise it when trying again would give the same result: invalid input, a missing record, no permission.
    Its message becomes the task's reason.
    """
