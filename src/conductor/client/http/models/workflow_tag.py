from conductor.client.http.models.model import Model
from conductor.client.http.models.rate_limit import RateLimit


class WorkflowTag(Model, kw_only=True):
    """The rate limit in a tag of a workflow."""

    rate_limit: RateLimit | None = None
