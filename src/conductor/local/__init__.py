"""Check and run workflows in this process, on a coordinator in memory, without a server.

The client and the coordinator do not import each other; `workflow_runner` is the only module that uses both. The
coordinator needs the extra "server".
"""

from __future__ import annotations

from conductor.local.workflow_runner import WorkflowFailed as WorkflowFailed

__all__ = ["WorkflowFailed"]
