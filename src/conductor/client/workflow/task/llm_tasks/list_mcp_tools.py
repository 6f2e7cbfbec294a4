"""A step that asks an MCP server for its tools."""

from __future__ import annotations

from conductor.client.workflow.reference import said
from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class ListMcpTools(LlmTask):
    """Asks an MCP server for its tools."""

    def __init__(
        self,
        task_ref_name: str,
        mcp_server: str,
        headers: dict[str, str] | None = None,
        task_name: str | None = None,
    ) -> None:
        inputs = {"mcpServer": mcp_server} | said(headers=headers)
        super().__init__(task_ref_name, TaskType.LIST_MCP_TOOLS, task_name, inputs)
