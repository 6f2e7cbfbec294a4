"""The result of a system task, before it becomes a report."""

from __future__ import annotations

from typing import NamedTuple

from conductor.coordinator.tasks.task_report import ReportedStatus
from conductor.protocol.json_types import Json, JsonObject


class SystemTaskResult(NamedTuple):
    """How a system task ended. With IN_PROGRESS the task stays open until another API call completes it."""

    status: ReportedStatus
    output: JsonObject
    reason: str | None = None


def failed(reason: str, *, final: bool = False, **output: Json) -> SystemTaskResult:
    """Return the result of a task that failed. `final` is true if a retry would fail too."""
    return SystemTaskResult("FAILED_WITH_TERMINAL_ERROR" if final else "FAILED", output, reason)
