"""A step that talks with a model."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.reference import given, said
from conductor.client.workflow.task.llm_tasks.chat_message import ChatMessage
from conductor.client.workflow.task.llm_tasks.llm_task import PromptedTask
from conductor.client.workflow.task.llm_tasks.tool_spec import ToolSpec
from conductor.client.workflow.task.task_type import TaskType


class LlmChatComplete(PromptedTask):
    """Gives a conversation to a model; its output is what the model says next."""

    def __init__(
        self,
        task_ref_name: str,
        llm_provider: str,
        model: str,
        messages: list[ChatMessage] | None = None,
        instructions_template: str | None = None,
        template_variables: dict[str, Any] | None = None,
        prompt_version: int | None = None,
        tools: list[ToolSpec] | None = None,
        user_input: str | None = None,
        json_output: bool = False,
        google_search_retrieval: bool = False,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        output_mime_type: str | None = None,
        thinking_token_limit: int | None = None,
        reasoning_effort: str | None = None,
        output_location: str | None = None,
        voice: str | None = None,
        participants: dict[str, str] | None = None,
        stop_words: list[str] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        frequency_penalty: float | None = None,
        presence_penalty: float | None = None,
        max_results: int | None = None,
        task_name: str | None = None,
    ) -> None:
        inputs = given(
            llm_provider=llm_provider,
            model=model,
            prompt_version=prompt_version,
            messages=None if messages is None else [_as_dict(message) for message in messages],
            instructions=instructions_template,
            input_schema=input_schema,
            output_schema=output_schema,
            user_input=user_input,
            output_mime_type=output_mime_type,
            thinking_token_limit=thinking_token_limit,
            reasoning_effort=reasoning_effort,
            output_location=output_location,
            voice=voice,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
            max_results=max_results,
        ) | said(
            prompt_variables=template_variables,
            tools=[_as_dict(tool) for tool in tools or ()],
            json_output=json_output,
            google_search_retrieval=google_search_retrieval,
            participants=participants,
            stop_words=stop_words,
        )
        super().__init__(task_ref_name, TaskType.LLM_CHAT_COMPLETE, task_name, inputs)


def _as_dict(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else value
