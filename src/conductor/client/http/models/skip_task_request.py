from conductor.client.http.models.model import Model
from conductor.protocol.json_types import JsonObject


class SkipTaskRequest(Model, kw_only=True):
    """The input and output that a skipped task gets."""

    task_input: JsonObject | None = None
    task_output: JsonObject | None = None
