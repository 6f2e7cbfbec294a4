"""Registers, starts and controls the workflows of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.metadata_resource_api import MetadataResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.models.correlation_ids_search_request import CorrelationIdsSearchRequest
from conductor.client.http.models.rerun_workflow_request import RerunWorkflowRequest
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.skip_task_request import SkipTaskRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_result import TaskResult
from conductor.client.http.models.task_result_status import TaskResultStatus
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_run import WorkflowRun
from conductor.client.http.models.workflow_status import WorkflowStatus
from conductor.client.http.models.workflow_summary import WorkflowSummary
from conductor.client.http.operation import make_api_client
from conductor.client.metadata_client import MetadataClient
from conductor.client.scheduler_client import SchedulerClient
from conductor.client.task_client import TaskClient
from conductor.client.workflow_client import WorkflowClient


class WorkflowExecutor:
    """Registers, starts and controls the workflows of a server.

    The class combines methods of `WorkflowClient`, `TaskClient` and `MetadataClient`.

    Args:
        configuration: The connection to the server.
        metrics_collector: Not used; conductor-python has this argument.

    Example:
        executor = WorkflowExecutor(Configuration())
        workflow_id = executor.start_workflow(StartWorkflowRequest(name="greetings", input={"name": "Ada"}))
    """

    def __init__(self, configuration: Configuration | AsyncApiClient, metrics_collector: Any | None = None) -> None:
        self.metrics_collector = metrics_collector
        api_client = make_api_client(configuration)
        self.metadata_client = MetadataResourceApi(api_client)
        self._definitions = MetadataClient(api_client)
        self._schedules = SchedulerClient(api_client)
        self.task_client = TaskClient(api_client)
        self.workflow_client = WorkflowClient(api_client)

    def register_workflow(self, workflow: WorkflowDef, overwrite: bool | None = None) -> object:
        """Register a definition. With `overwrite=False`, an existing one of that name and version is an error (409)."""
        return self._definitions.update_workflow_def(workflow, overwrite is not False)

    def save_schedule(self, schedule: SaveScheduleRequest) -> None:
        """Save a schedule. A schedule of the same name is replaced."""
        self._schedules.save_schedule(schedule)

    def start_workflow(self, start_workflow_request: StartWorkflowRequest) -> str:
        """Start a workflow. Return its id."""
        return self.workflow_client.start_workflow(start_workflow_request)

    def start_workflows(self, *start_workflow_request: StartWorkflowRequest) -> list[str]:
        """Start several workflows. Return their ids in the same order."""
        return [self.start_workflow(request) for request in start_workflow_request]

    def execute_workflow(
        self,
        request: StartWorkflowRequest,
        wait_until_task_ref: str | None = None,
        wait_for_seconds: int = 10,
        request_id: str | None = None,
    ) -> WorkflowRun:
        """Start a workflow and return it after its end, after the end of a step, or after `wait_for_seconds`."""
        return self.workflow_client.execute_workflow(request, request_id, wait_until_task_ref or None, wait_for_seconds)

    def execute_workflow_with_return_strategy(
        self,
        request: StartWorkflowRequest,
        wait_until_task_ref: str | None = None,
        wait_for_seconds: int = 10,
        request_id: str | None = None,
        consistency: str | None = None,
        return_strategy: str | None = None,
    ) -> SignalResponse:
        """Start a workflow and wait, as `execute_workflow` does. `return_strategy` selects the answer."""
        return self.workflow_client.execute_workflow_with_return_strategy(
            request, request_id, wait_until_task_ref or None, wait_for_seconds, consistency, return_strategy
        )

    def execute(
        self,
        name: str,
        version: int | None = None,
        workflow_input: Any = None,
        wait_until_task_ref: str | None = None,
        wait_for_seconds: int = 10,
        request_id: str | None = None,
        correlation_id: str | None = None,
        domain: str | None = None,
    ) -> WorkflowRun:
        """Start a registered workflow by its name, and return it as `execute_workflow` does.

        With `domain`, all its tasks go to that domain.
        """
        request = StartWorkflowRequest(
            name=name,
            version=version,
            input=workflow_input or {},
            correlation_id=correlation_id,
            task_to_domain=None if domain is None else {"*": domain},
        )
        return self.execute_workflow(request, wait_until_task_ref, wait_for_seconds, request_id)

    def get_workflow(self, workflow_id: str, include_tasks: bool | None = None) -> Workflow:
        """Return a workflow."""
        return self.workflow_client.get_workflow(workflow_id, include_tasks)

    def get_workflow_status(
        self, workflow_id: str, include_output: bool | None = None, include_variables: bool | None = None
    ) -> WorkflowStatus:
        """Return the status of a workflow."""
        return self.workflow_client.get_workflow_status(workflow_id, include_output, include_variables)

    def search(
        self,
        query_id: str | None = None,
        start: int | None = None,
        size: int | None = None,
        sort: str | None = None,
        free_text: str | None = None,
        query: str | None = None,
        skip_cache: bool | None = None,
    ) -> SearchResult[WorkflowSummary]:
        """Search workflows, and return one page of results. Only some servers support `query_id` and `skip_cache`."""
        return self.workflow_client.search(
            start or 0, 100 if size is None else size, free_text or "*", query, sort, query_id, skip_cache
        )

    def get_by_correlation_ids(
        self,
        workflow_name: str,
        correlation_ids: list[str],
        include_closed: bool | None = None,
        include_tasks: bool | None = None,
    ) -> dict[str, list[Workflow]]:
        """Return the workflows of this name with these correlation ids, by correlation id."""
        return self.workflow_client.get_by_correlation_ids(
            workflow_name, correlation_ids, include_closed, include_tasks
        )

    def get_by_correlation_ids_and_names(
        self,
        batch_request: CorrelationIdsSearchRequest,
        include_closed: bool | None = None,
        include_tasks: bool | None = None,
    ) -> dict[str, list[Workflow]]:
        """Return the workflows of several names by their correlation ids. Only some servers support this."""
        return self.workflow_client.get_by_correlation_ids_in_batch(batch_request, include_closed, include_tasks)

    def pause(self, workflow_id: str) -> None:
        """Pause a workflow: schedule no further tasks until `resume`."""
        self.workflow_client.pause_workflow(workflow_id)

    def resume(self, workflow_id: str) -> None:
        """Continue a paused workflow."""
        self.workflow_client.resume_workflow(workflow_id)

    def terminate(
        self, workflow_id: str, reason: str | None = None, trigger_failure_workflow: bool | None = None
    ) -> None:
        """Terminate a workflow and cancel its open tasks."""
        self.workflow_client.terminate_workflow(workflow_id, reason, trigger_failure_workflow)

    def restart(self, workflow_id: str, use_latest_definitions: bool | None = None) -> None:
        """Run an ended workflow again from its start."""
        self.workflow_client.restart_workflow(workflow_id, use_latest_definitions)

    def retry(self, workflow_id: str, resume_subworkflow_tasks: bool | None = None) -> None:
        """Continue a failed workflow from its last failed task."""
        self.workflow_client.retry_workflow(workflow_id, resume_subworkflow_tasks)

    def rerun(self, rerun_workflow_request: RerunWorkflowRequest, workflow_id: str) -> str:
        """Run an ended workflow again from a task. Return the workflow id."""
        return self.workflow_client.rerun_workflow(workflow_id, rerun_workflow_request)

    def skip_task_from_workflow(
        self, workflow_id: str, task_reference_name: str, skip_task_request: SkipTaskRequest | None = None
    ) -> None:
        """Skip the task with that reference name."""
        self.workflow_client.skip_task_from_workflow(workflow_id, task_reference_name, skip_task_request)

    def remove_workflow(self, workflow_id: str, archive_workflow: bool | None = None) -> None:
        """Delete a workflow from the server."""
        self.workflow_client.delete_workflow(workflow_id, archive_workflow)

    def send_message(self, workflow_id: str, message: dict[str, Any]) -> str:
        """Send a message to a workflow, on servers that support it. Return the message id."""
        return self.workflow_client.send_message(workflow_id, message)

    def signal(
        self, workflow_id: str, status: str, body: dict[str, Any], return_strategy: str | None = None
    ) -> SignalResponse:
        """Complete the waiting task of a workflow. `return_strategy` selects the content of the answer."""
        return self.task_client.signal(workflow_id, status, body, return_strategy)

    def signal_async(self, workflow_id: str, status: str, body: dict[str, Any]) -> None:
        """Complete the waiting task of a workflow, without waiting for the next steps."""
        self.task_client.signal_async(workflow_id, status, body)

    def update_task(self, task_id: str, workflow_id: str, task_output: dict[str, Any], status: str) -> str:
        """Report the result of a task. Return the task id."""
        result = TaskResult(
            task_id=task_id,
            workflow_instance_id=workflow_id,
            output_data=task_output,
            status=TaskResultStatus(status),
        )
        return self.task_client.update_task(result)

    def update_task_by_ref_name(
        self, task_output: Mapping[str, Any], workflow_id: str, task_reference_name: str, status: str
    ) -> str:
        """Report the result of the open task with that reference name. Return the task id."""
        return self.task_client.update_task_by_ref_name(workflow_id, task_reference_name, status, task_output)

    def update_task_by_ref_name_sync(
        self, task_output: Mapping[str, Any], workflow_id: str, task_reference_name: str, status: str
    ) -> Workflow:
        """Report the result of the open task with that reference name. Return the workflow afterwards."""
        return self.task_client.update_task_sync(workflow_id, task_reference_name, status, task_output)

    def get_task(self, task_id: str) -> Task:
        """Return a task."""
        return self.task_client.get_task(task_id)
