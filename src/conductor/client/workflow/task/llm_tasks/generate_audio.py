"""A step that generates audio."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class GenerateAudio(LlmTask):
    """Generates audio from a text with a model."""

    def __init__(
        self,
        task_ref_name: str,
        llm_provider: str,
        model: str,
        text: str | None = None,
        voice: str | None = None,
        speed: float | None = None,
        response_format: str | None = None,
        n: int = 1,
        prompt: str | None = None,
        prompt_variables: dict[str, Any] | None = None,
        task_name: str | None = None,
    ) -> None:
        super().__init__(TaskType.GENERATE_AUDIO, locals())
