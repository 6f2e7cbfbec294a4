"""What an execution's status means, for the models that have one."""

from __future__ import annotations

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES


class WorkflowState(Model, kw_only=True):
    """Which execution it is and how it stands."""

    workflow_id: OrDefault[str] = sent(str)
    #: RUNNING, PAUSED, COMPLETED, FAILED, TIMED_OUT or TERMINATED.
    status: OrDefault[str] = sent(str)
    correlation_id: str | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status in TERMINAL_WORKFLOW_STATUSES

    def is_completed(self) -> bool:
        """The same as a method: whether it has ended, in whatever way."""
        return self.is_terminal

    def is_successful(self) -> bool:
        """Whether it has ended well: COMPLETED."""
        return self.status == "COMPLETED"

    def is_running(self) -> bool:
        """Whether it has not ended: RUNNING or PAUSED."""
        return self.status in ("RUNNING", "PAUSED")
