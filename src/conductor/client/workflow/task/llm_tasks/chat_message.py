"""The messages of a conversation with a model."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from conductor.client.workflow.reference import omit_empty
from conductor.client.workflow.task.llm_tasks.tool_call import ToolCall


class Role(StrEnum):
    """The author of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL_CALL = "tool_call"
    TOOL = "tool"


class ChatMessage:
    """A message of a conversation."""

    def __init__(
        self,
        role: str,
        message: str,
        media: list[str] | None = None,
        mime_type: str | None = None,
        tool_calls: list[ToolCall] | None = None,
    ) -> None:
        self.role = role
        self.message = message
        self.media = media or []
        self.mime_type = mime_type
        self.tool_calls = tool_calls

    def to_dict(self) -> dict[str, Any]:
        """Return the message as the server expects it."""
        return {"role": str(self.role), "message": self.message} | omit_empty(
            media=self.media,
            mime_type=self.mime_type,
            tool_calls=[call.to_dict() for call in self.tool_calls or ()],
        )
