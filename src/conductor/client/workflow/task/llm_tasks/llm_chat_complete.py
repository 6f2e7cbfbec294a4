"""A step that continues a conversation with a model."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.llm_tasks.chat_message import ChatMessage
from conductor.client.workflow.task.llm_tasks.llm_task import PromptedTask
from conductor.client.workflow.task.llm_tasks.tool_spec import ToolSpec
from conductor.client.workflow.task.task_type import TaskType


class LlmChatComplete(PromptedTask):
    """Sends a conversation to a model. The output is the next message of the model."""

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
        arguments = locals() | {
            "messages": None if messages is None else [_to_dict(message) for message in messages],
            "tools": [_to_dict(tool) for tool in tools or ()],
        }
        super().__init__(TaskType.LLM_CHAT_COMPLETE, arguments)


def _to_dict(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else value
