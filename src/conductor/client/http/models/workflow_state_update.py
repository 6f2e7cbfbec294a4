from conductor.client.http.models.model import Model
from conductor.client.http.models.task_result import TaskResult
from conductor.protocol.json_types import JsonObject


class WorkflowStateUpdate(Model):
    """New values for variables, and the result of a task."""

    task_reference_name: str | None = None
    task_result: TaskResult | None = None
    variables: JsonObject | None = None
