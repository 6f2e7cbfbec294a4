from conductor.client.http.models.model import Model
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest


class WorkflowScheduleExecutionModel(Model, kw_only=True):
    """A start of a workflow by a schedule."""

    execution_id: str | None = None
    schedule_name: str | None = None
    scheduled_time: int | None = None
    execution_time: int | None = None
    workflow_name: str | None = None
    workflow_id: str | None = None
    reason: str | None = None
    stack_trace: str | None = None
    start_workflow_request: StartWorkflowRequest | None = None
    state: str | None = None
    zone_id: str | None = None
    org_id: str | None = None
