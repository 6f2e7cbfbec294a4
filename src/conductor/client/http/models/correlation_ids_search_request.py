"""Which executions to look for."""

from __future__ import annotations

from conductor.client.http.models.model import Model


class CorrelationIdsSearchRequest(Model):
    """Executions of these workflows with one of these correlation ids."""

    correlation_ids: list[str] | None = None
    workflow_names: list[str] | None = None
