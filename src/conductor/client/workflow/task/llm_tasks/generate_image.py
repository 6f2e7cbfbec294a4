"""A step that generates images."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class GenerateImage(LlmTask):
    """Generates images from a prompt with a model."""

    def __init__(
        self,
        task_ref_name: str,
        llm_provider: str,
        model: str,
        prompt: str,
        width: int = 1024,
        height: int = 1024,
        size: str | None = None,
        style: str | None = None,
        n: int = 1,
        weight: float | None = None,
        output_format: str = "png",
        prompt_variables: dict[str, Any] | None = None,
        task_name: str | None = None,
    ) -> None:
        super().__init__(TaskType.GENERATE_IMAGE, locals())
