"""A step that lists the tools of an MCP server."""

from __future__ import annotations

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class ListMcpTools(LlmTask):
    """Lists the tools of an MCP server."""

    def __init__(
        self,
        task_ref_name: str,
        mcp_server: str,
        headers: dict[str, str] | None = None,
        task_name: str | None = None,
    ) -> None:
        super().__init__(TaskType.LIST_MCP_TOOLS, locals())
