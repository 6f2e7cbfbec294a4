from typing import Any

from conductor.client.http.models.model import Model


class SkipTaskRequest(Model, kw_only=True):
    """The input and output that a skipped task gets."""

    task_input: dict[str, Any] | None = None
    task_output: dict[str, Any] | None = None
