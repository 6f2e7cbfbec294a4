"""A step that draws."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import given, said
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class GenerateImage(LlmTask):
    """Lets a model make images from a prompt."""

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
        inputs = given(
            llm_provider=llm_provider,
            model=model,
            prompt=prompt,
            width=width,
            height=height,
            n=n,
            output_format=output_format,
            size=size,
            style=style,
            weight=weight,
        ) | said(prompt_variables=prompt_variables)
        super().__init__(task_ref_name, TaskType.GENERATE_IMAGE, task_name, inputs)
