"""Workflows: start, read, control."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from uuid import uuid4

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.bulk_starts import BulkStarts
from conductor.client.http.models.correlation_ids_search_request import CorrelationIdsSearchRequest
from conductor.client.http.models.rerun_workflow_request import RerunWorkflowRequest
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.skip_task_request import SkipTaskRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_state_update import WorkflowStateUpdate
from conductor.client.http.models.workflow_status import WorkflowStatus
from conductor.client.http.models.workflow_summary import WorkflowSummary
from conductor.client.http.models.workflow_test_request import WorkflowTestRequest
from conductor.client.http.operation import AsyncClient, Operations, SyncClient, endpoint, operation

__all__ = ["AsyncWorkflowClient", "WorkflowClient"]

_ORKES = "Orkes Conductor"
_MESSAGES = "the coordinator, Orkes Conductor, and Conductor servers with workflow-message-queue.enabled"
_VARIABLES = "the coordinator and Orkes Conductor"
_EXECUTE = "/workflow/execute/{name}/{version}"


class WorkflowOperations(Operations):
    """The operations of `AsyncWorkflowClient` and `WorkflowClient`."""

    @cached_property
    def _bulk_starts(self) -> BulkStarts:
        return BulkStarts(self.api_client)

    @endpoint("POST", "/workflow", body="start_workflow_request", resend=False)
    async def start_workflow(self, start_workflow_request: StartWorkflowRequest) -> str:
        """Start a workflow and return its id. The request is never sent twice, so the workflow never starts twice."""

    @operation
    async def start_workflows(self, start_workflow_requests: Sequence[StartWorkflowRequest]) -> list[str]:
        """Start many workflows and return their ids, in the same order.

        A coordinator gets bulk requests of up to 1,000 starts, each answered after its commit. Any other server gets
        single starts, 8 at a time.

        Args:
            start_workflow_requests: Any number of requests. With an `idempotency_key` in each of them you can repeat
                the whole call: a coordinator does not start a workflow again that it has started before.

        Raises:
            BulkStartError: Some workflows were not started; its `results` has an id or an exception for each request.
            ConductorError: No workflow was started: the server did not answer, or rejected the whole request.
        """
        return await self._bulk_starts.start(start_workflow_requests)

    @endpoint("POST", "/workflow/{name}", body="input", resend=False)
    async def start_workflow_by_name(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 (the name in conductor-python)
        version: int | None = None,
        correlationId: str | None = None,  # noqa: N803 (the name in conductor-python)
        priority: int | None = None,
        correlation_id: str | None = None,
    ) -> str:
        """Start a workflow by its name and return its id. Without `version`, the latest version starts.

        `correlation_id` and `correlationId`, the name in conductor-python, are the same argument.
        """

    @operation
    async def execute_workflow(
        self,
        start_workflow_request: StartWorkflowRequest,
        request_id: str | None = None,
        wait_until_task_ref: str | None = None,
        wait_for_seconds: int = 30,
    ) -> Workflow:
        """Start a workflow, wait for it on the server and return it.

        Args:
            start_workflow_request: The workflow to start.
            request_id: An id of your choice for this request.
            wait_until_task_ref: Wait only until the task with this reference name has ended.
            wait_for_seconds: Wait at most this long, and return the workflow as it is then.

        Raises:
            NotFoundException: There is no such workflow definition, or the server does not have this endpoint.
        """
        name, version = start_workflow_request.name, start_workflow_request.version or 0
        return await self._execute(
            start_workflow_request, name, version, request_id, wait_until_task_ref, wait_for_seconds
        )

    @endpoint("POST", _EXECUTE, resend=False)
    async def _execute(
        self,
        body: StartWorkflowRequest,
        name: str,
        version: int,
        request_id: str | None,
        wait_until_task_ref: str | None,
        wait_for_seconds: int,
    ) -> Workflow: ...

    @operation
    async def execute_workflow_with_return_strategy(
        self,
        start_workflow_request: StartWorkflowRequest,
        request_id: str | None = None,
        wait_until_task_ref: str | None = None,
        wait_for_seconds: int = 30,
        consistency: str | None = None,
        return_strategy: str | None = None,
    ) -> SignalResponse:
        """Start a workflow and wait for it, as `execute_workflow`.

        `return_strategy`, a `WorkflowSignalReturnStrategy`, selects the content of the answer.
        """
        return await self._execute_with_return_strategy(
            start_workflow_request,
            start_workflow_request.name,
            start_workflow_request.version or 0,
            request_id,
            wait_until_task_ref,
            wait_for_seconds,
            consistency or "DURABLE",
            return_strategy or "TARGET_WORKFLOW",
        )

    @endpoint("POST", _EXECUTE, resend=False)
    async def _execute_with_return_strategy(
        self,
        body: StartWorkflowRequest,
        name: str,
        version: int,
        request_id: str | None,
        wait_until_task_ref: str | None,
        wait_for_seconds: int,
        consistency: str,
        return_strategy: str,
    ) -> SignalResponse: ...

    @endpoint("POST", "/workflow/test", body="test_request", only_on=_ORKES)
    async def test_workflow(self, test_request: WorkflowTestRequest) -> Workflow:
        """Run a workflow on the server without workers, with the task outputs of the request. Return the workflow."""

    @endpoint("POST", "/workflow/{workflowId}/messages", body="message", resend=False, only_on=_MESSAGES)
    async def send_message(self, workflow_id: str, message: Mapping[str, Any]) -> str:
        """Send a message, any JSON object, to a running workflow, and return the id of the message.

        A PULL_WORKFLOW_MESSAGES task of the workflow takes it. The request is never sent twice, so the workflow never
        gets the message twice.

        Raises:
            NotFoundException: There is no such workflow, or the server does not support messages.
            ApiException: The workflow is not RUNNING (409), or too many messages wait for it (429).
        """

    @endpoint("POST", "/workflow/{workflowId}/variables", body="variables", only_on=_VARIABLES)
    async def update_variables(self, workflow_id: str, variables: Mapping[str, Any] | None = None) -> None:
        """Set variables of a workflow that has not ended; other variables keep their values.

        Only some servers support this.
        """

    @operation
    async def update_state(
        self,
        workflow_id: str,
        update_requesst: WorkflowStateUpdate,
        wait_until_task_ref_names: list[str] | None = None,
        wait_for_seconds: int | None = None,
    ) -> Workflow:
        """Set variables and end a task of a workflow in one step, on servers that support it. Return the workflow."""
        refs = ",".join(wait_until_task_ref_names or ())
        return await self._update_state(update_requesst, workflow_id, str(uuid4()), refs, wait_for_seconds)

    @endpoint("POST", "/workflow/{workflowId}/state", only_on=_ORKES)
    async def _update_state(
        self,
        body: WorkflowStateUpdate,
        workflow_id: str,
        request_id: str,
        wait_until_task_ref: str,
        wait_for_seconds: int | None,
    ) -> Workflow: ...

    @endpoint("GET", "/workflow/{workflowId}")
    async def get_workflow(self, workflow_id: str, include_tasks: bool | None = True) -> Workflow:
        """Return a workflow. Raises `NotFoundException` if there is none with this id."""

    @endpoint("GET", "/workflow/{workflowId}/status")
    async def get_workflow_status(
        self, workflow_id: str, include_output: bool | None = None, include_variables: bool | None = None
    ) -> WorkflowStatus:
        """Return the status of a workflow, without its tasks."""

    @endpoint("DELETE", "/workflow/{workflowId}")
    async def terminate_workflow(
        self, workflow_id: str, reason: str | None = None, trigger_failure_workflow: bool | None = False
    ) -> None:
        """End a workflow and cancel its open tasks. Raises `ApiException` (409) for a completed workflow."""

    @endpoint("DELETE", "/workflow/{workflowId}/remove")
    async def delete_workflow(self, workflow_id: str, archive_workflow: bool | None = True) -> None:
        """Delete a workflow from the server. A server with an archive keeps it there."""

    @operation
    async def remove_workflow(self, workflow_id: str) -> None:
        """Delete a workflow from the server, as `delete_workflow`."""
        await self.delete_workflow(workflow_id)

    @endpoint("PUT", "/workflow/{workflowId}/pause")
    async def pause_workflow(self, workflow_id: str) -> None:
        """Schedule no further tasks of a workflow until `resume_workflow`."""

    @endpoint("PUT", "/workflow/{workflowId}/resume")
    async def resume_workflow(self, workflow_id: str) -> None:
        """Continue a paused workflow."""

    @endpoint("POST", "/workflow/{workflowId}/restart", resend=False, use_latest_def="useLatestDefinitions")
    async def restart_workflow(self, workflow_id: str, use_latest_def: bool | None = False) -> None:
        """Run an ended workflow again from its first task."""

    @endpoint("POST", "/workflow/{workflowId}/retry", resend=False)
    async def retry_workflow(self, workflow_id: str, resume_subworkflow_tasks: bool | None = False) -> None:
        """Continue a failed workflow from its last failed task."""

    @endpoint("POST", "/workflow/{workflowId}/resetcallbacks", resend=False)
    async def reset_callbacks(self, workflow_id: str) -> None:
        """End the wait of `callback_after_seconds` now for all tasks of a workflow, so that workers can poll them."""

    @endpoint("POST", "/workflow/{workflowId}/rerun", body="rerun_workflow_request", resend=False)
    async def rerun_workflow(self, workflow_id: str, rerun_workflow_request: RerunWorkflowRequest) -> str:
        """Run an ended workflow again from one of its tasks. Return the id of the workflow."""

    @endpoint("PUT", "/workflow/{workflowId}/skiptask/{taskReferenceName}", body="request")
    async def skip_task_from_workflow(
        self, workflow_id: str, task_reference_name: str, request: SkipTaskRequest | None = None
    ) -> None:
        """Skip the task with this reference name when the workflow reaches it."""

    @endpoint("GET", "/workflow/search")
    async def search(
        self,
        start: int = 0,
        size: int = 100,
        free_text: str = "*",
        query: str | None = None,
        query_id: str | None = None,
        sort: str | None = None,
        skip_cache: bool | None = None,
    ) -> SearchResult[WorkflowSummary]:
        """Search workflows in the server's index, and return one page.

        Some servers ignore `query_id` and `skip_cache`.
        """

    @endpoint(
        "POST",
        "/workflow/{name}/correlated",
        body="correlation_ids",
        workflow_name="name",
        include_completed="includeClosed",
    )
    async def get_by_correlation_ids(
        self,
        workflow_name: str,
        correlation_ids: list[str],
        include_completed: bool | None = False,
        include_tasks: bool | None = False,
    ) -> dict[str, list[Workflow]]:
        """Return the workflows of this name with these correlation ids, by correlation id."""

    @endpoint(
        "POST",
        "/workflow/correlated/batch",
        body="batch_request",
        include_completed="includeClosed",
        only_on=_ORKES,
    )
    async def get_by_correlation_ids_in_batch(
        self,
        batch_request: CorrelationIdsSearchRequest,
        include_completed: bool | None = False,
        include_tasks: bool | None = False,
    ) -> dict[str, list[Workflow]]:
        """Return the workflows of several names with these correlation ids, by correlation id.

        Only some servers support it.
        """


class AsyncWorkflowClient(WorkflowOperations, AsyncClient):
    """Workflows on a server, for async code.

    Example:
        async with AsyncWorkflowClient(Configuration()) as workflows:
            workflow_id = await workflows.start_workflow_by_name("greetings", {"name": "Ada"})
    """


class WorkflowClient(WorkflowOperations, SyncClient[AsyncWorkflowClient]):
    """Workflows on a server.

    Example:
        with WorkflowClient(Configuration()) as workflows:
            workflow_id = workflows.start_workflow_by_name("greetings", {"name": "Ada"})

    Args:
        configuration: The server, or an `AsyncApiClient` whose connections are shared. The default is the
            server in the environment variables.
        metrics_collector: A `MetricsCollector` that counts the requests.
    """

    async_class = AsyncWorkflowClient

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, metrics_collector: Any | None = None
    ) -> None:
        if not isinstance(configuration, AsyncApiClient) and metrics_collector is not None:
            configuration = AsyncApiClient(configuration or Configuration(), metrics_collector=metrics_collector)
        super().__init__(configuration)
