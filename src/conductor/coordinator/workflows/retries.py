"""When a failed task is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What applies to a SIMPLE task nobody has registered a definition for.
DEFAULT_RETRY_COUNT = 3
DEFAULT_RETRY_DELAY_S = 60
#: Conductor's delays are 32-bit seconds; a backoff stops growing here.
MAX_DELAY_S = 2**31 - 1


def retry_limit(task_def: Mapping[str, Any], task: Mapping[str, Any]) -> int:
    """How often a task may be tried again: the workflow's word on it, else its definition's."""
    own = task.get("retryCount")
    return int(own if own is not None else task_def.get("retryCount", DEFAULT_RETRY_COUNT))


def retry_delay_ms(task_def: Mapping[str, Any], retry_count: int, jitter: float = 0.0) -> int:
    """How long to wait before the attempt after number `retry_count` (0: the first). `jitter` is a number in [0, 1)."""
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
            # A shift by 31 already passes the limit; a larger one would only cost memory.
            return base_s << min(retry_count, 31)
        case _:
            return base_s
