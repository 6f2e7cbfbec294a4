from conductor.client.http.models.model import Model


class CorrelationIdsSearchRequest(Model):
    """A search for workflows with one of these names and one of these correlation ids."""

    correlation_ids: list[str] | None = None
    workflow_names: list[str] | None = None
