from conductor.client.http.models.base_workflow import BaseWorkflow
from conductor.protocol.json_types import JsonObject


class WorkflowStatus(BaseWorkflow, kw_only=True):
    """The status of a workflow, without its tasks."""

    output: JsonObject | None = None
    variables: JsonObject | None = None
