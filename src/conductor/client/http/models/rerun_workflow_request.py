from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class RerunWorkflowRequest(Model, kw_only=True):
    """Run an ended workflow again from a task, or from its start without `re_run_from_task_id`."""

    re_run_from_workflow_id: str | None = None
    workflow_input: JsonObject | None = None
    re_run_from_task_id: str | None = None
    task_input: JsonObject | None = None
    correlation_id: str | None = None
