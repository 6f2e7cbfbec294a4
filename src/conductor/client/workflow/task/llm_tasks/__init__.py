"""Steps that the server runs with models, vector databases and MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names

if TYPE_CHECKING:
    from conductor.client.workflow.task.llm_tasks.call_mcp_tool import CallMcpTool as CallMcpTool
    from conductor.client.workflow.task.llm_tasks.chat_message import ChatMessage as ChatMessage
    from conductor.client.workflow.task.llm_tasks.chat_message import Role as Role
    from conductor.client.workflow.task.llm_tasks.generate_audio import GenerateAudio as GenerateAudio
    from conductor.client.workflow.task.llm_tasks.generate_image import GenerateImage as GenerateImage
    from conductor.client.workflow.task.llm_tasks.list_mcp_tools import ListMcpTools as ListMcpTools
    from conductor.client.workflow.task.llm_tasks.llm_chat_complete import LlmChatComplete as LlmChatComplete
    from conductor.client.workflow.task.llm_tasks.llm_generate_embeddings import (
        LlmGenerateEmbeddings as LlmGenerateEmbeddings,
    )
    from conductor.client.workflow.task.llm_tasks.llm_index_documents import LlmIndexDocument as LlmIndexDocument
    from conductor.client.workflow.task.llm_tasks.llm_index_text import LlmIndexText as LlmIndexText
    from conductor.client.workflow.task.llm_tasks.llm_query_embeddings import LlmQueryEmbeddings as LlmQueryEmbeddings
    from conductor.client.workflow.task.llm_tasks.llm_search_embeddings import (
        LlmSearchEmbeddings as LlmSearchEmbeddings,
    )
    from conductor.client.workflow.task.llm_tasks.llm_search_index import LlmSearchIndex as LlmSearchIndex
    from conductor.client.workflow.task.llm_tasks.llm_store_embeddings import LlmStoreEmbeddings as LlmStoreEmbeddings
    from conductor.client.workflow.task.llm_tasks.llm_text_complete import LlmTextComplete as LlmTextComplete
    from conductor.client.workflow.task.llm_tasks.tool_call import ToolCall as ToolCall
    from conductor.client.workflow.task.llm_tasks.tool_spec import ToolSpec as ToolSpec

#: The module that defines each name.
_HOMES = {
    "CallMcpTool": "call_mcp_tool",
    "ChatMessage": "chat_message",
    "GenerateAudio": "generate_audio",
    "GenerateImage": "generate_image",
    "ListMcpTools": "list_mcp_tools",
    "LlmChatComplete": "llm_chat_complete",
    "LlmGenerateEmbeddings": "llm_generate_embeddings",
    "LlmIndexDocument": "llm_index_documents",
    "LlmIndexText": "llm_index_text",
    "LlmQueryEmbeddings": "llm_query_embeddings",
    "LlmSearchEmbeddings": "llm_search_embeddings",
    "LlmSearchIndex": "llm_search_index",
    "LlmStoreEmbeddings": "llm_store_embeddings",
    "LlmTextComplete": "llm_text_complete",
    "Role": "chat_message",
    "ToolCall": "tool_call",
    "ToolSpec": "tool_spec",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
