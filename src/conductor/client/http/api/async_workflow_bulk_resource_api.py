"""`/workflow/bulk`: many executions at once."""

from __future__ import annotations

from conductor.client.http.api.optional_resource_api import OptionalResourceApi
from conductor.client.http.async_api_client import QueryValue
from conductor.client.http.models.bulk_response import BulkResponse


class AsyncWorkflowBulkResourceApi(OptionalResourceApi):
    """The endpoints for many executions at once; each answer says which succeeded, and why the others did not."""

    async def pause_workflow(self, body: list[str]) -> BulkResponse:
        """Schedule no further tasks of these executions until `resume_workflow`."""
        return await self._bulk("PUT", "pause", body)

    async def resume_workflow(self, body: list[str]) -> BulkResponse:
        """Go on after `pause_workflow`."""
        return await self._bulk("PUT", "resume", body)

    async def restart(self, body: list[str], use_latest_definitions: bool | None = None) -> BulkResponse:
        """Run ended executions again from their start."""
        return await self._bulk("POST", "restart", body, {"useLatestDefinitions": use_latest_definitions})

    async def retry(self, body: list[str]) -> BulkResponse:
        """Go on from the last failed tasks of failed executions."""
        return await self._bulk("POST", "retry", body)

    async def terminate(
        self, body: list[str], reason: str | None = None, trigger_failure_workflow: bool | None = None
    ) -> BulkResponse:
        """End these executions."""
        query: dict[str, QueryValue] = {"reason": reason, "triggerFailureWorkflow": trigger_failure_workflow}
        return await self._bulk("POST", "terminate", body, query)

    async def _bulk(
        self, method: str, verb: str, body: list[str], query: dict[str, QueryValue] | None = None
    ) -> BulkResponse:
        return await self._call(BulkResponse, method, f"/workflow/bulk/{verb}", query=query, body=body)
