"""`/metadata`: definitions of tasks and workflows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.client.http.api.optional_resource_api import OptionalResourceApi
from conductor.client.http.async_api_client import encode
from conductor.client.http.endpoint import quote_segment
from conductor.client.http.errors import ApiException
from conductor.client.http.models.bulk_response import BulkResponse
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow_def import WorkflowDef

_TASK_DEFS = "/metadata/taskdefs"
_TASK_DEF = "/metadata/taskdefs/{tasktype}"
_WORKFLOW_DEFS = "/metadata/workflow"
_WORKFLOW_TAGS = "/metadata/workflow/{name}/tags"
_TASK_TAGS = "/metadata/task/{name}/tags"


class AsyncMetadataResourceApi(OptionalResourceApi):
    """The endpoints of definitions. Where a definition is taken, a dict as in Conductor's JSON does too."""

    async def register_task_def(self, task_def: TaskDef | Mapping[str, Any]) -> None:
        """Create a task definition, or replace the one of that name."""
        await self.register_task_defs([task_def])

    async def register_task_defs(self, task_defs: list[TaskDef | Mapping[str, Any]]) -> None:
        """Create or replace several task definitions."""
        await self.api_client.call_for(str, "POST", _TASK_DEFS, body=encode(task_defs))

    async def update_task_def(self, task_def: TaskDef | Mapping[str, Any]) -> None:
        """Replace a task definition that exists; `NotFoundException` when it does not."""
        await self.api_client.call_for(str, "PUT", _TASK_DEFS, body=encode(task_def))

    async def get_task_def(self, task_type: str) -> TaskDef:
        """Read a task definition; `NotFoundException` when there is none."""
        path = f"{_TASK_DEFS}/{quote_segment(task_type)}"
        return await self.api_client.call_for(TaskDef, "GET", path, template=_TASK_DEF)

    async def get_all_task_defs(self) -> list[TaskDef]:
        """Read every task definition."""
        return await self.api_client.call_for(list[TaskDef], "GET", _TASK_DEFS)

    async def unregister_task_def(self, task_type: str) -> None:
        """Delete a task definition."""
        path = f"{_TASK_DEFS}/{quote_segment(task_type)}"
        await self.api_client.call_for(str, "DELETE", path, template=_TASK_DEF)

    async def register_workflow_def(
        self, workflow_def: WorkflowDef | Mapping[str, Any], overwrite: bool | None = True
    ) -> None:
        """Create a workflow definition; without `overwrite`, one of that name and version is an error (409)."""
        query = {"overwrite": bool(overwrite)}
        await self.api_client.call_for(str, "POST", _WORKFLOW_DEFS, query=query, body=encode(workflow_def))

    async def update_workflow_def(
        self, workflow_def: WorkflowDef | Mapping[str, Any], overwrite: bool | None = True
    ) -> None:
        """Replace a workflow definition, or create it; without `overwrite`, as `register_workflow_def`."""
        if not overwrite:
            return await self.register_workflow_def(workflow_def, overwrite=False)
        answer = await self.api_client.call_for(BulkResponse, "PUT", _WORKFLOW_DEFS, body=encode([workflow_def]))
        if answer.bulk_error_results:  # the server says 200 all the same
            reason = "; ".join(f"{name}: {error}" for name, error in answer.bulk_error_results.items())
            raise ApiException(200, reason, request=f"PUT {_WORKFLOW_DEFS}")
        return None

    async def validate_workflow_def(self, workflow_def: WorkflowDef | Mapping[str, Any]) -> None:
        """Let the server check a definition without keeping it; `ApiException` (400) says what is wrong."""
        await self.api_client.call_for(str, "POST", f"{_WORKFLOW_DEFS}/validate", body=encode(workflow_def))

    async def get_workflow_def(self, name: str, version: int | None = None) -> WorkflowDef:
        """Read a workflow definition, the latest without `version`; `NotFoundException` when there is none."""
        path = f"{_WORKFLOW_DEFS}/{quote_segment(name)}"
        query = {"version": version}
        return await self.api_client.call_for(
            WorkflowDef, "GET", path, query=query, template=_WORKFLOW_DEFS + "/{name}"
        )

    async def get_all_workflow_defs(self) -> list[WorkflowDef]:
        """Read every workflow definition."""
        return await self.api_client.call_for(list[WorkflowDef], "GET", _WORKFLOW_DEFS)

    async def unregister_workflow_def(self, workflow_name: str, version: int) -> None:
        """Delete one version of a workflow definition."""
        path = f"{_WORKFLOW_DEFS}/{quote_segment(workflow_name)}/{version}"
        await self.api_client.call_for(str, "DELETE", path, template=_WORKFLOW_DEFS + "/{name}/{version}")

    async def add_workflow_tag(self, tag: TagObject, workflow_name: str) -> None:
        """Put a tag on a workflow, on servers that have tags."""
        await self._call(str, "POST", _WORKFLOW_TAGS, workflow_name, body=tag)

    async def delete_workflow_tag(self, tag: TagObject, workflow_name: str) -> None:
        """Take a tag off a workflow."""
        await self._call(str, "DELETE", _WORKFLOW_TAGS, workflow_name, body=tag)

    async def get_workflow_tags(self, workflow_name: str) -> list[TagObject]:
        """Read a workflow's tags."""
        return await self._call(list[TagObject], "GET", _WORKFLOW_TAGS, workflow_name)

    async def set_workflow_tags(self, tags: list[TagObject], workflow_name: str) -> None:
        """Replace a workflow's tags."""
        await self._call(str, "PUT", _WORKFLOW_TAGS, workflow_name, body=tags)

    async def addTaskTag(self, tag: TagObject, taskName: str) -> None:  # noqa: N802, N803
        """Put a tag on a task type, on servers that have tags."""
        await self._call(str, "POST", _TASK_TAGS, taskName, body=tag)

    async def deleteTaskTag(self, tag: TagObject, taskName: str) -> None:  # noqa: N802, N803
        """Take a tag off a task type."""
        await self._call(str, "DELETE", _TASK_TAGS, taskName, body=tag)

    async def getTaskTags(self, taskName: str) -> list[TagObject]:  # noqa: N802, N803
        """Read a task type's tags."""
        return await self._call(list[TagObject], "GET", _TASK_TAGS, taskName)

    async def setTaskTags(self, tags: list[TagObject], taskName: str) -> None:  # noqa: N802, N803
        """Replace a task type's tags."""
        await self._call(str, "PUT", _TASK_TAGS, taskName, body=tags)

    async def getWorkflowRateLimit(self, workflowName: str) -> int | None:  # noqa: N802, N803
        """How many executions of a workflow may run at once; None if there is no limit."""
        limits = [tag.value for tag in await self.get_workflow_tags(workflowName) if _is_limit(tag, workflowName)]
        return int(limits[0]) if limits else None

    async def setWorkflowRateLimit(self, rateLimit: int, workflowName: str) -> None:  # noqa: N802, N803
        """Let that many executions of a workflow run at once, on servers that have tags."""
        await self.removeWorkflowRateLimit(workflowName)
        await self.add_workflow_tag(TagObject(workflowName, "RATE_LIMIT", rateLimit), workflowName)

    async def removeWorkflowRateLimit(self, workflowName: str) -> None:  # noqa: N802, N803
        """Let any number of executions of a workflow run at once."""
        for tag in await self.get_workflow_tags(workflowName):
            if _is_limit(tag, workflowName):
                await self.delete_workflow_tag(tag, workflowName)


def _is_limit(tag: TagObject, workflow_name: str) -> bool:
    return tag.type == "RATE_LIMIT" and tag.key == workflow_name
