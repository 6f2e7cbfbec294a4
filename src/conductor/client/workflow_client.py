"""Executions of workflows: start, look, change their course."""

from __future__ import annotations

from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.api.async_workflow_resource_api import AsyncWorkflowResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.sync_face import SyncClient, blocking


class AsyncWorkflowClient(AsyncWorkflowResourceApi):
    """Executions on a server.

    async with AsyncWorkflowClient(Configuration()) as workflows:
        workflow_id = await workflows.start_workflow_by_name("greetings", {"name": "Ada"})
    """

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, *, http_client: Any | None = None
    ) -> None:
        super().__init__(api_client_of(configuration, http_client))

    async def remove_workflow(self, workflow_id: str) -> None:
        """Delete an execution from the server, as `delete_workflow`."""
        await self.delete_workflow(workflow_id)


class WorkflowClient(SyncClient[AsyncWorkflowClient]):
    """Executions on a server, for code without an event loop.

    with WorkflowClient(Configuration()) as workflows:
        workflow_id = workflows.start_workflow_by_name("greetings", {"name": "Ada"})
    """

    def __init__(
        self, configuration: Configuration | AsyncApiClient | None = None, metrics_collector: Any | None = None
    ) -> None:
        if not isinstance(configuration, AsyncApiClient) and metrics_collector is not None:
            configuration = AsyncApiClient(configuration or Configuration(), metrics_collector=metrics_collector)
        super().__init__(AsyncWorkflowClient(configuration))

    start_workflow = blocking(AsyncWorkflowClient.start_workflow)
    start_workflows = blocking(AsyncWorkflowClient.start_workflows)
    start_workflow_by_name = blocking(AsyncWorkflowClient.start_workflow_by_name)
    execute_workflow = blocking(AsyncWorkflowClient.execute_workflow)
    get_workflow = blocking(AsyncWorkflowClient.get_workflow)
    get_workflow_status = blocking(AsyncWorkflowClient.get_workflow_status)
    terminate_workflow = blocking(AsyncWorkflowClient.terminate_workflow)
    delete_workflow = blocking(AsyncWorkflowClient.delete_workflow)
    remove_workflow = blocking(AsyncWorkflowClient.remove_workflow)
    pause_workflow = blocking(AsyncWorkflowClient.pause_workflow)
    resume_workflow = blocking(AsyncWorkflowClient.resume_workflow)
    restart_workflow = blocking(AsyncWorkflowClient.restart_workflow)
    retry_workflow = blocking(AsyncWorkflowClient.retry_workflow)
    rerun_workflow = blocking(AsyncWorkflowClient.rerun_workflow)
    reset_callbacks = blocking(AsyncWorkflowClient.reset_callbacks)
    skip_task_from_workflow = blocking(AsyncWorkflowClient.skip_task_from_workflow)
    search = blocking(AsyncWorkflowClient.search)
    get_by_correlation_ids = blocking(AsyncWorkflowClient.get_by_correlation_ids)
    execute_workflow_with_return_strategy = blocking(AsyncWorkflowClient.execute_workflow_with_return_strategy)
    test_workflow = blocking(AsyncWorkflowClient.test_workflow)
    send_message = blocking(AsyncWorkflowClient.send_message)
    update_variables = blocking(AsyncWorkflowClient.update_variables)
    update_state = blocking(AsyncWorkflowClient.update_state)
    get_by_correlation_ids_in_batch = blocking(AsyncWorkflowClient.get_by_correlation_ids_in_batch)
