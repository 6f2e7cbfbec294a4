from conductor.client.http.models.model import Model


class TerminateWorkflow(Model, kw_only=True):
    """A workflow that an event handler terminates."""

    workflow_id: str | None = None
    termination_reason: str | None = None
