"""Requests to start a workflow."""

from enum import StrEnum

from conductor.client.http.models.model import Model, OrDefault, sent_default
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.protocol.json_types import JsonObject


class IdempotencyStrategy(StrEnum):
    """The reaction to a start with the idempotency key of an existing workflow."""

    #: Reject the start.
    FAIL = "FAIL"
    #: Return the id of the existing workflow.
    RETURN_EXISTING = "RETURN_EXISTING"
    #: Reject the start while the existing workflow runs.
    FAIL_ON_RUNNING = "FAIL_ON_RUNNING"


class StartWorkflowRequest(Model, kw_only=True):
    """A workflow to start, and its input. `workflow_def` contains a definition that is not registered."""

    name: OrDefault[str] = sent_default(str)
    #: The version of the definition; None is the latest.
    version: int | None = None
    correlation_id: str | None = None
    # A server rejects a null input, so the input is always sent.
    input: OrDefault[JsonObject] = sent_default(dict)
    #: The domain of the workers for each task type; `*` stands for all other task types.
    task_to_domain: dict[str, str] | None = None
    workflow_def: WorkflowDef | None = None
    external_input_payload_storage_path: str | None = None
    #: The priority of the workflow's tasks, from 0 to 99.
    priority: int | None = None
    created_by: str | None = None
    idempotency_key: str | None = None
    #: An `IdempotencyStrategy`, or its name.
    idempotency_strategy: str | None = None
