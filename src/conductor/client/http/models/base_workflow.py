from conductor.client.http.models.model import Model, OrDefault, sent_default
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES


class BaseWorkflow(Model, kw_only=True):
    """The fields that `Workflow` and `WorkflowStatus` have in common."""

    workflow_id: OrDefault[str] = sent_default(str)
    #: RUNNING, PAUSED, COMPLETED, FAILED, TIMED_OUT or TERMINATED.
    status: OrDefault[str] = sent_default(str)
    correlation_id: str | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether the workflow has ended."""
        return self.status in TERMINAL_WORKFLOW_STATUSES

    def is_completed(self) -> bool:
        """Return whether the workflow has ended, successfully or not. The same as `is_terminal`."""
        return self.is_terminal

    def is_successful(self) -> bool:
        """Return whether the workflow is COMPLETED."""
        return self.status == "COMPLETED"

    def is_running(self) -> bool:
        """Return whether the workflow is RUNNING or PAUSED."""
        return self.status in ("RUNNING", "PAUSED")
