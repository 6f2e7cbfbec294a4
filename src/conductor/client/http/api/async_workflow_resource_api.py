"""`/workflow`: start executions, look at them, and change their course."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar
from uuid import uuid4

from conductor.client.http.api.optional_resource_api import OptionalResourceApi
from conductor.client.http.async_api_client import QueryValue, encode
from conductor.client.http.bulk_starts import BulkStarts
from conductor.client.http.endpoint import quote_segment
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

T = TypeVar("T")

_WORKFLOW = "/workflow/{workflowId}"
#: A call that waits on the server may take what it asked for, and this.
WAIT_GRACE_S = 10.0


class AsyncWorkflowResourceApi(OptionalResourceApi):
    """The endpoints of executions."""

    @cached_property
    def _bulk_starts(self) -> BulkStarts:
        return BulkStarts(self.api_client)

    async def start_workflow(self, start_workflow_request: StartWorkflowRequest) -> str:
        """Start a workflow; the answer is the execution's id. Never sent twice, so never started twice."""
        body = start_workflow_request.encode()
        return await self.api_client.call_for(str, "POST", "/workflow", body=body, resend=False)

    async def start_workflows(self, start_workflow_requests: Sequence[StartWorkflowRequest]) -> list[str]:
        """Start many workflows and return the ids of the executions, in the same order.

        A coordinator gets bulk requests of up to 1,000 starts, each answered after its commit. Any other server gets
        single starts, 8 at a time.

        Args:
            start_workflow_requests: As many as you like. With an `idempotency_key` in each of them the whole call can
                be repeated: a workflow that was started before is not started again by a coordinator.

        Raises:
            BulkStartError: Some were not started; its `results` has an id or an exception for each request.
            ConductorError: No workflow was started: the server did not answer, or refused the whole request.
        """
        return await self._bulk_starts.start(start_workflow_requests)

    async def start_workflow_by_name(
        self,
        name: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 (the name users know)
        version: int | None = None,
        correlationId: str | None = None,  # noqa: N803 (the name users know)
        priority: int | None = None,
    ) -> str:
        """Start a workflow by its name, the latest version without `version`; the answer is the execution's id."""
        path = f"/workflow/{quote_segment(name)}"
        query: dict[str, QueryValue] = {"version": version, "correlationId": correlationId, "priority": priority}
        body = encode(input or {})
        return await self.api_client.call_for(
            str, "POST", path, query=query, body=body, template="/workflow/{name}", resend=False
        )

    async def execute_workflow(
        self,
        start_workflow_request: StartWorkflowRequest,
        request_id: str | None = None,
        wait_until_task_ref: str | None = None,
        wait_for_seconds: int = 30,
    ) -> Workflow:
        """Start a workflow and wait on the server until it ends, or `wait_until_task_ref` does, or the time is over.

        The answer is the execution as it stood then. Servers without this endpoint answer 404.
        """
        query: dict[str, QueryValue] = {"requestId": request_id, "waitUntilTaskRef": wait_until_task_ref}
        return await self._execute(Workflow, start_workflow_request, query, wait_for_seconds)

    async def execute_workflow_with_return_strategy(
        self,
        start_workflow_request: StartWorkflowRequest,
        request_id: str | None = None,
        wait_until_task_ref: str | None = None,
        wait_for_seconds: int = 30,
        consistency: str | None = None,
        return_strategy: str | None = None,
    ) -> SignalResponse:
        """As `execute_workflow`; `return_strategy`, a `WorkflowSignalReturnStrategy`, says what the answer tells."""
        query: dict[str, QueryValue] = {
            "requestId": request_id,
            "waitUntilTaskRef": wait_until_task_ref,
            "consistency": consistency or "DURABLE",
            "returnStrategy": return_strategy or "TARGET_WORKFLOW",
        }
        return await self._execute(SignalResponse, start_workflow_request, query, wait_for_seconds)

    async def _execute(
        self, type_: type[T], request: StartWorkflowRequest, query: dict[str, QueryValue], wait_for_seconds: int
    ) -> T:
        return await self.api_client.call_for(
            type_,
            "POST",
            f"/workflow/execute/{quote_segment(request.name)}/{request.version or 0}",
            query={**query, "waitForSeconds": wait_for_seconds},
            body=request.encode(),
            timeout_s=wait_for_seconds + WAIT_GRACE_S,
            template="/workflow/execute/{name}/{version}",
            resend=False,
        )

    async def test_workflow(self, test_request: WorkflowTestRequest) -> Workflow:
        """Run a workflow on the server with made-up outputs, without workers; the answer is the execution."""
        return await self._call(Workflow, "POST", "/workflow/test", body=test_request)

    async def send_message(self, workflow_id: str, message: Mapping[str, Any]) -> str:
        """Send a message to an execution, on servers that take them; the answer is the message's id."""
        return await self._call(str, "POST", _WORKFLOW + "/messages", workflow_id, body=message)

    async def update_variables(self, workflow_id: str, variables: Mapping[str, Any] | None = None) -> None:
        """Set variables of an execution, on servers that can do that."""
        await self._call(str, "POST", _WORKFLOW + "/variables", workflow_id, body=variables or {})

    async def update_state(
        self,
        workflow_id: str,
        update_requesst: WorkflowStateUpdate,
        wait_until_task_ref_names: list[str] | None = None,
        wait_for_seconds: int | None = None,
    ) -> Workflow:
        """Set variables and end a task of an execution in one step, on servers that can do that."""
        query: dict[str, QueryValue] = {
            "requestId": str(uuid4()),
            "waitUntilTaskRef": ",".join(wait_until_task_ref_names) if wait_until_task_ref_names else None,
            "waitForSeconds": wait_for_seconds,
        }
        template = _WORKFLOW + "/state"
        return await self._call(Workflow, "POST", template, workflow_id, query=query, body=update_requesst)

    async def get_workflow(self, workflow_id: str, include_tasks: bool | None = True) -> Workflow:
        """Read an execution; `NotFoundException` when there is none."""
        path, query = f"/workflow/{quote_segment(workflow_id)}", {"includeTasks": include_tasks}
        return await self.api_client.call_for(Workflow, "GET", path, query=query, template=_WORKFLOW)

    async def get_workflow_status(
        self, workflow_id: str, include_output: bool | None = None, include_variables: bool | None = None
    ) -> WorkflowStatus:
        """Read how an execution stands, without its tasks."""
        path = f"/workflow/{quote_segment(workflow_id)}/status"
        query = {"includeOutput": include_output, "includeVariables": include_variables}
        return await self.api_client.call_for(WorkflowStatus, "GET", path, query=query, template=_WORKFLOW + "/status")

    async def terminate_workflow(
        self, workflow_id: str, reason: str | None = None, trigger_failure_workflow: bool | None = False
    ) -> None:
        """End an execution; its open tasks are cancelled. A completed one is an error (409)."""
        path = f"/workflow/{quote_segment(workflow_id)}"
        query: dict[str, QueryValue] = {"reason": reason, "triggerFailureWorkflow": trigger_failure_workflow or None}
        await self.api_client.call_for(str, "DELETE", path, query=query, template=_WORKFLOW)

    async def delete_workflow(self, workflow_id: str, archive_workflow: bool | None = True) -> None:
        """Delete an execution from the server, archived where the server has an archive."""
        path, query = f"/workflow/{quote_segment(workflow_id)}/remove", {"archiveWorkflow": archive_workflow}
        await self.api_client.call_for(str, "DELETE", path, query=query, template=_WORKFLOW + "/remove")

    async def pause_workflow(self, workflow_id: str) -> None:
        """Schedule no further tasks until `resume_workflow`."""
        await self._change("PUT", workflow_id, "pause")

    async def resume_workflow(self, workflow_id: str) -> None:
        """Go on after `pause_workflow`."""
        await self._change("PUT", workflow_id, "resume")

    async def restart_workflow(self, workflow_id: str, use_latest_def: bool | None = False) -> None:
        """Run an ended execution again from its start."""
        await self._change("POST", workflow_id, "restart", {"useLatestDefinitions": use_latest_def})

    async def retry_workflow(self, workflow_id: str, resume_subworkflow_tasks: bool | None = False) -> None:
        """Go on from the last failed task of a failed execution."""
        await self._change("POST", workflow_id, "retry", {"resumeSubworkflowTasks": resume_subworkflow_tasks})

    async def reset_callbacks(self, workflow_id: str) -> None:
        """Make tasks that wait for their callback time pollable at once."""
        await self._change("POST", workflow_id, "resetcallbacks")

    async def rerun_workflow(self, workflow_id: str, rerun_workflow_request: RerunWorkflowRequest) -> str:
        """Run an ended execution again from some task; the answer is its id."""
        path, body = f"/workflow/{quote_segment(workflow_id)}/rerun", rerun_workflow_request.encode()
        return await self.api_client.call_for(str, "POST", path, body=body, template=_WORKFLOW + "/rerun", resend=False)

    async def skip_task_from_workflow(
        self, workflow_id: str, task_reference_name: str, request: SkipTaskRequest | None = None
    ) -> None:
        """Do not run the task with that reference name."""
        path = f"/workflow/{quote_segment(workflow_id)}/skiptask/{quote_segment(task_reference_name)}"
        body = (request or SkipTaskRequest()).encode()
        template = _WORKFLOW + "/skiptask/{taskReferenceName}"
        await self.api_client.call_for(str, "PUT", path, body=body, template=template)

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
        """Search executions in the server's index. `query_id` and `skip_cache` are for servers that know them."""
        params: dict[str, QueryValue] = {
            "start": start,
            "size": size,
            "freeText": free_text,
            "query": query,
            "sort": sort,
            "queryId": query_id,
            "skipCache": skip_cache,
        }
        return await self.api_client.call_for(SearchResult[WorkflowSummary], "GET", "/workflow/search", query=params)

    async def get_by_correlation_ids(
        self,
        workflow_name: str,
        correlation_ids: list[str],
        include_completed: bool | None = False,
        include_tasks: bool | None = False,
    ) -> dict[str, list[Workflow]]:
        """Read the executions of a workflow by their correlation ids."""
        path, body = f"/workflow/{quote_segment(workflow_name)}/correlated", encode(correlation_ids)
        query = {"includeClosed": include_completed, "includeTasks": include_tasks}
        return await self.api_client.call_for(
            dict[str, list[Workflow]], "POST", path, query=query, body=body, template="/workflow/{name}/correlated"
        )

    async def get_by_correlation_ids_in_batch(
        self,
        batch_request: CorrelationIdsSearchRequest,
        include_completed: bool | None = False,
        include_tasks: bool | None = False,
    ) -> dict[str, list[Workflow]]:
        """Read the executions of several workflows by their correlation ids, on servers that can do that."""
        query = {"includeClosed": include_completed, "includeTasks": include_tasks}
        template = "/workflow/correlated/batch"
        return await self._call(dict[str, list[Workflow]], "POST", template, query=query, body=batch_request)

    async def _change(
        self, method: str, workflow_id: str, verb: str, query: Mapping[str, QueryValue] | None = None
    ) -> None:
        """Restart and retry change what they find, so they are not sent twice; pause and resume may be."""
        path = f"/workflow/{quote_segment(workflow_id)}/{verb}"
        resend = method == "PUT"
        await self.api_client.call_for(str, method, path, query=query, template=f"{_WORKFLOW}/{verb}", resend=resend)
