"""A step that calls a tool of an MCP server."""

from __future__ import annotations

from typing import Any

from conductor.client.workflow.task.llm_tasks.llm_task import LlmTask
from conductor.client.workflow.task.task_type import TaskType


class CallMcpTool(LlmTask):
    """Calls a tool of an MCP server."""

    def __init__(
        self,
        task_ref_name: str,
        mcp_server: str,
        method: str,
        arguments: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        task_name: str | None = None,
    ) -> None:
        super().__init__(TaskType.CALL_MCP_TOOL, locals() | {"arguments": arguments or {}})
