from typing import Any

from conductor.client.http.models.model import Model


class SubWorkflowParams(Model, kw_only=True):
    """The workflow that a SUB_WORKFLOW task starts."""

    name: str | None = None
    #: The version of the definition; None is the latest.
    version: int | None = None
    task_to_domain: dict[str, str] | None = None
    idempotency_key: str | None = None
    idempotency_strategy: str | None = None
    #: A number, or an expression for one.
    priority: Any = None
    #: An inline workflow definition, or an expression for one.
    workflow_definition: Any = None
