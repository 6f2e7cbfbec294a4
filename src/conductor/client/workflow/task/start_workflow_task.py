"""A step that starts another workflow and does not wait for it."""

from __future__ import annotations

from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType


class StartWorkflowTask(TaskInterface):
    """Starts `workflow_name` with the input and correlation id of the request, and does not wait for its end."""

    def __init__(
        self,
        task_ref_name: str,
        workflow_name: str,
        start_workflow_request: StartWorkflowRequest,
        version: int | None = None,
    ) -> None:
        start = {
            "name": workflow_name,
            "version": version,
            "input": start_workflow_request.input,
            "correlationId": start_workflow_request.correlation_id,
        }
        super().__init__(task_ref_name, TaskType.START_WORKFLOW, input_parameters={"startWorkflow": start})
