"""What a worker of the coordinator's own says about its task."""

from __future__ import annotations

from typing import Any, NamedTuple

from conductor.coordinator.tasks.task_report import ReportedStatus


class SystemTaskResult(NamedTuple):
    """How a task ended. IN_PROGRESS: its own part is done, and somebody else ends it."""

    status: ReportedStatus
    output: dict[str, Any]
    reason: str | None = None


def failed(reason: str, *, final: bool = False, **output: Any) -> SystemTaskResult:
    """A task that failed; `final`: trying again is of no use."""
    return SystemTaskResult("FAILED_WITH_TERMINAL_ERROR" if final else "FAILED", output, reason)
