"""Which workflow a SUB_WORKFLOW step starts."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model


class SubWorkflowParams(Model, kw_only=True):
    """Which workflow a SUB_WORKFLOW step starts, and how."""

    name: str | None = None
    #: None = the latest.
    version: int | None = None
    task_to_domain: dict[str, str] | None = None
    idempotency_key: str | None = None
    idempotency_strategy: str | None = None
    #: A number, or an expression that gives one.
    priority: Any = None
    #: A definition given inline, or an expression that gives one.
    workflow_definition: Any = None
