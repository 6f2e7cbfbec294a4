"""A step that completes a prompt with a model."""

from __future__ import annotations

from conductor.client.workflow.task.llm_tasks.llm_task import PromptedTask
from conductor.client.workflow.task.task_type import TaskType


class LlmTextComplete(PromptedTask):
    """Sends a prompt that is stored on the server to a model. The output is the answer."""

    def __init__(
        self,
        task_ref_name: str,
        llm_provider: str,
        model: str,
        prompt_name: str,
        prompt_version: int | None = None,
        stop_words: list[str] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        frequency_penalty: float | None = None,
        presence_penalty: float | None = None,
        max_results: int | None = None,
        json_output: bool = False,
        task_name: str | None = None,
    ) -> None:
        super().__init__(TaskType.LLM_TEXT_COMPLETE, locals())
