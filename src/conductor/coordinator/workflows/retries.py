"""Decides how often and when a failed task is retried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The number of retries of a SIMPLE task without a registered definition.
DEFAULT_RETRY_COUNT = 3
DEFAULT_RETRY_DELAY_S = 60
#: Conductor stores delays as 32-bit seconds. A retry delay does not grow beyond this limit.
MAX_DELAY_S = 2**31 - 1


def retry_limit(task_def: Mapping[str, Any], task: Mapping[str, Any]) -> int:
    """Return how often a task is retried. The workflow definition takes precedence over the task definition."""
    own = task.get("retryCount")
    return int(own if own is not None else task_def.get("retryCount", DEFAULT_RETRY_COUNT))


def retry_delay_ms(task_def: Mapping[str, Any], retry_count: int, jitter: float = 0.0) -> int:
    """Return the delay before the next attempt.

    Args:
        task_def: The task definition.
        retry_count: The number of earlier retries.
        jitter: A number in [0, 1) that spreads the delay by `backoffJitterMs`.
    """
    delay_s = min(_delay_s(task_def, retry_count), MAX_DELAY_S)
    cap_s = int(task_def.get("maxRetryDelaySeconds") or 0)
    if cap_s > 0:
        delay_s = min(delay_s, cap_s)
    return delay_s * 1000 + int(int(task_def.get("backoffJitterMs") or 0) * jitter)


def _delay_s(task_def: Mapping[str, Any], retry_count: int) -> int:
    base_s = int(task_def.get("retryDelaySeconds", DEFAULT_RETRY_DELAY_S))
    match task_def.get("retryLogic", "FIXED"):
        case "LINEAR_BACKOFF":
            return base_s * int(task_def.get("backoffScaleFactor") or 1) * (retry_count + 1)
        case "EXPONENTIAL_BACKOFF":
            # The shift is limited to 31, which already exceeds the maximum delay.
            return base_s << min(retry_count, 31)
        case _:
            return base_s
