"""Task definitions and workflow definitions."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.client.http.errors import ApiException
from conductor.client.http.models.bulk_response import BulkResponse
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint, operation

__all__ = ["AsyncMetadataClient", "MetadataClient"]

_ORKES = "Orkes Conductor"
_TASK_DEFS = "/metadata/taskdefs"
_TASK_DEF = _TASK_DEFS + "/{tasktype}"
_TASK_TAGS = "/metadata/task/{taskName}/tags"
_WORKFLOW_DEFS = "/metadata/workflow"
_WORKFLOW_TAGS = _WORKFLOW_DEFS + "/{name}/tags"


class MetadataOperations(Operations):
    """The operations of `AsyncMetadataClient` and `MetadataClient`.

    A definition is a model or a dict as in Conductor's JSON.
    """

    @operation
    async def register_task_def(self, task_def: TaskDef | Mapping[str, Any]) -> None:
        """Create a task definition, or replace the one with the same name."""
        await self.register_task_defs([task_def])

    @endpoint("POST", _TASK_DEFS, body="task_defs")
    async def register_task_defs(self, task_defs: list[TaskDef | Mapping[str, Any]]) -> None:
        """Create or replace several task definitions."""

    @endpoint("PUT", _TASK_DEFS, body="task_def")
    async def update_task_def(self, task_def: TaskDef | Mapping[str, Any]) -> None:
        """Replace an existing task definition. Raises `NotFoundException` if there is none."""

    @endpoint("GET", _TASK_DEF, task_type="tasktype")
    async def get_task_def(self, task_type: str) -> TaskDef:
        """Return a task definition. Raises `NotFoundException` if there is none."""

    @endpoint("GET", _TASK_DEFS)
    async def get_all_task_defs(self) -> list[TaskDef]:
        """Return all task definitions."""

    @endpoint("DELETE", _TASK_DEF, task_type="tasktype")
    async def unregister_task_def(self, task_type: str) -> None:
        """Delete a task definition."""

    @endpoint("POST", _WORKFLOW_DEFS, body="workflow_def")
    async def register_workflow_def(
        self, workflow_def: WorkflowDef | Mapping[str, Any], overwrite: bool | None = True
    ) -> None:
        """Create a workflow definition.

        Args:
            workflow_def: The definition.
            overwrite: Replace a definition with the same name and version. Without it, such a
                definition raises `ApiException` (409).
        """

    @operation
    async def update_workflow_def(
        self, workflow_def: WorkflowDef | Mapping[str, Any], overwrite: bool | None = True
    ) -> None:
        """Create or replace a workflow definition. Without `overwrite`, do the same as `register_workflow_def`."""
        if not overwrite:
            await self.register_workflow_def(workflow_def, overwrite=False)
            return
        answer = await self._update_workflow_defs([workflow_def])
        if answer.bulk_error_results:  # a server answers 200 even if it rejects a definition
            reason = "; ".join(f"{name}: {error}" for name, error in answer.bulk_error_results.items())
            raise ApiException(200, reason, request=f"PUT {_WORKFLOW_DEFS}")

    @endpoint("PUT", _WORKFLOW_DEFS)
    async def _update_workflow_defs(self, body: list[WorkflowDef | Mapping[str, Any]]) -> BulkResponse: ...

    @endpoint("POST", _WORKFLOW_DEFS + "/validate", body="workflow_def")
    async def validate_workflow_def(self, workflow_def: WorkflowDef | Mapping[str, Any]) -> None:
        """Let the server check a workflow definition without storing it. An invalid one raises `ApiException` (400)."""

    @endpoint("GET", _WORKFLOW_DEFS + "/{name}")
    async def get_workflow_def(self, name: str, version: int | None = None) -> WorkflowDef:
        """Return a workflow definition, the latest without `version`. Raises `NotFoundException` if there is none."""

    @endpoint("GET", _WORKFLOW_DEFS)
    async def get_all_workflow_defs(self) -> list[WorkflowDef]:
        """Return all workflow definitions."""

    @endpoint("DELETE", _WORKFLOW_DEFS + "/{name}/{version}", workflow_name="name")
    async def unregister_workflow_def(self, workflow_name: str, version: int) -> None:
        """Delete one version of a workflow definition."""

    @endpoint("POST", _WORKFLOW_TAGS, body="tag", workflow_name="name", only_on=_ORKES)
    async def add_workflow_tag(self, tag: TagObject, workflow_name: str) -> None:
        """Add a tag to a workflow definition, on servers that have tags."""

    @endpoint("DELETE", _WORKFLOW_TAGS, body="tag", workflow_name="name", only_on=_ORKES)
    async def delete_workflow_tag(self, tag: TagObject, workflow_name: str) -> None:
        """Remove a tag from a workflow definition."""

    @endpoint("GET", _WORKFLOW_TAGS, workflow_name="name", only_on=_ORKES)
    async def get_workflow_tags(self, workflow_name: str) -> list[TagObject]:
        """Return the tags of a workflow definition."""

    @endpoint("PUT", _WORKFLOW_TAGS, body="tags", workflow_name="name", only_on=_ORKES)
    async def set_workflow_tags(self, tags: list[TagObject], workflow_name: str) -> None:
        """Replace the tags of a workflow definition."""

    @endpoint("POST", _TASK_TAGS, body="tag", only_on=_ORKES)
    async def addTaskTag(self, tag: TagObject, taskName: str) -> None:  # noqa: N802, N803
        """Add a tag to a task definition, on servers that have tags."""

    @endpoint("DELETE", _TASK_TAGS, body="tag", only_on=_ORKES)
    async def deleteTaskTag(self, tag: TagObject, taskName: str) -> None:  # noqa: N802, N803
        """Remove a tag from a task definition."""

    @endpoint("GET", _TASK_TAGS, only_on=_ORKES)
    async def getTaskTags(self, taskName: str) -> list[TagObject]:  # noqa: N802, N803
        """Return the tags of a task definition."""

    @endpoint("PUT", _TASK_TAGS, body="tags", only_on=_ORKES)
    async def setTaskTags(self, tags: list[TagObject], taskName: str) -> None:  # noqa: N802, N803
        """Replace the tags of a task definition."""

    @operation
    async def getWorkflowRateLimit(self, workflowName: str) -> int | None:  # noqa: N802, N803
        """Return the limit of concurrent workflows of this name, or None if there is no limit."""
        limits = [tag.value for tag in await self.get_workflow_tags(workflowName) if _is_limit(tag, workflowName)]
        return int(limits[0]) if limits else None

    @operation
    async def setWorkflowRateLimit(self, rateLimit: int, workflowName: str) -> None:  # noqa: N802, N803
        """Limit the concurrent workflows of this name, on servers that have tags."""
        await self.removeWorkflowRateLimit(workflowName)
        await self.add_workflow_tag(TagObject(workflowName, "RATE_LIMIT", rateLimit), workflowName)

    @operation
    async def removeWorkflowRateLimit(self, workflowName: str) -> None:  # noqa: N802, N803
        """Remove the limit of concurrent workflows of this name."""
        for tag in await self.get_workflow_tags(workflowName):
            if _is_limit(tag, workflowName):
                await self.delete_workflow_tag(tag, workflowName)


class AsyncMetadataClient(MetadataOperations, AsyncClient):
    """Task definitions and workflow definitions on a server, for async code.

    Example:
        async with AsyncMetadataClient(Configuration()) as metadata:
            await metadata.register_task_def(TaskDef(name="greet", retry_count=3))
    """


class MetadataClient(MetadataOperations, SyncClient[AsyncMetadataClient]):
    """Task definitions and workflow definitions on a server.

    Example:
        with MetadataClient(Configuration()) as metadata:
            metadata.register_task_def(TaskDef(name="greet", retry_count=3))
    """

    async_class = AsyncMetadataClient


def _is_limit(tag: TagObject, workflow_name: str) -> bool:
    return tag.type == "RATE_LIMIT" and tag.key == workflow_name
