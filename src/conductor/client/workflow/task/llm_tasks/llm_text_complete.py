"""A step that lets a model complete a prompt."""

from __future__ import annotations

from conductor.client.workflow.reference import given, said
from conductor.client.workflow.task.llm_tasks.llm_task import PromptedTask
from conductor.client.workflow.task.task_type import TaskType


class LlmTextComplete(PromptedTask):
    """Gives a prompt that is kept on the server to a model; its output is the answer."""

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
        inputs = given(
            llm_provider=llm_provider,
            model=model,
            prompt_name=prompt_name,
            prompt_version=prompt_version,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
            max_results=max_results,
        ) | said(stop_words=stop_words, json_output=json_output)
        super().__init__(task_ref_name, TaskType.LLM_TEXT_COMPLETE, task_name, inputs)
