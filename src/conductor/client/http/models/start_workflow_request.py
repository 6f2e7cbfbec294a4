"""The wish to start a workflow."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.client.http.models.workflow_def import WorkflowDef


class IdempotencyStrategy(StrEnum):
    """What starting does when there is an execution with the same idempotency key."""

    #: The start is refused.
    FAIL = "FAIL"
    #: The answer is the id of the one there is.
    RETURN_EXISTING = "RETURN_EXISTING"
    #: The start is refused while the one there is runs.
    FAIL_ON_RUNNING = "FAIL_ON_RUNNING"


class StartWorkflowRequest(Model, kw_only=True):
    """Which workflow to start, with what input. `workflow_def` gives the definition along instead of registering it."""

    name: OrDefault[str] = sent(str)
    #: None = the latest.
    version: int | None = None
    correlation_id: str | None = None
    # A server refuses a null input, so it always travels.
    input: OrDefault[dict[str, Any]] = sent(dict)
    #: Task type (or `*`) to the domain whose workers shall do it.
    task_to_domain: dict[str, str] | None = None
    workflow_def: WorkflowDef | None = None
    external_input_payload_storage_path: str | None = None
    #: 0 to 99
    priority: int | None = None
    created_by: str | None = None
    idempotency_key: str | None = None
    #: An `IdempotencyStrategy`, or its name.
    idempotency_strategy: str | None = None
