"""A step that speaks."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import given, said
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class GenerateAudio(LlmTask):
    """Lets a model make audio of a text."""

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
        inputs = given(
            llm_provider=llm_provider,
            model=model,
            n=n,
            text=text,
            voice=voice,
            speed=speed,
            response_format=response_format,
            prompt=prompt,
        ) | said(prompt_variables=prompt_variables)
        super().__init__(task_ref_name, TaskType.GENERATE_AUDIO, task_name, inputs)
