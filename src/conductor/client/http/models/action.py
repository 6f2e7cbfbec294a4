from msgspec import field

from conductor.client.http.models.model import Model
from conductor.client.http.models.start_workflow import StartWorkflow
from conductor.client.http.models.task_details import TaskDetails
from conductor.protocol.json_types import JsonObject


class Action(Model, kw_only=True):
    """An action of an event handler. `action` is the name of the field that contains its parameters."""

    action: str | None = None
    # Unlike all other fields, these are in snake_case on the wire.
    start_workflow: StartWorkflow | None = field(default=None, name="start_workflow")
    complete_task: TaskDetails | None = field(default=None, name="complete_task")
    fail_task: TaskDetails | None = field(default=None, name="fail_task")
    expand_inline_json: bool | None = field(default=None, name="expandInlineJSON")
    terminate_workflow: JsonObject | None = field(default=None, name="terminate_workflow")
    update_workflow_variables: JsonObject | None = field(default=None, name="update_workflow_variables")
