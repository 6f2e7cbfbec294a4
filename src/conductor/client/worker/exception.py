"""Exceptions that a worker function may raise."""

from __future__ import annotations

from conductor.client.context.task_context import TaskCancelled

__all__ = ["NonRetryableException", "TaskCancelled"]


class NonRetryableException(Exception):
    """Fails the task without retries: its status becomes FAILED_WITH_TERMINAL_ERROR.

    Raise it when a retry would fail again, for example because of invalid input, a missing record or missing
    permissions. The message becomes the reason of the task.
    """
