"""How an execution of a workflow stands."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.wire import TERMINAL_WORKFLOW_STATUSES


class WorkflowStatus(Model, kw_only=True):
    """How an execution stands, without its tasks."""

    workflow_id: OrDefault[str] = sent(str)
    #: RUNNING, PAUSED, COMPLETED, FAILED, TIMED_OUT or TERMINATED.
    status: OrDefault[str] = sent(str)
    correlation_id: str | None = None
    output: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status in TERMINAL_WORKFLOW_STATUSES
