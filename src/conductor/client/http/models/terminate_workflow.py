"""An event handler's order to end an execution."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class TerminateWorkflow(Model, kw_only=True):
    """Which execution is ended, and why."""

    workflow_id: str | None = None
    termination_reason: str | None = None
