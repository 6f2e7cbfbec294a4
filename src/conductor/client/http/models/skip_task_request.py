"""What to pretend about a skipped task."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model


class SkipTaskRequest(Model, kw_only=True):
    """The input and output a skipped task shall seem to have had."""

    task_input: dict[str, Any] | None = None
    task_output: dict[str, Any] | None = None
