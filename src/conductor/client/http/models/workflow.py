from __future__ import annotations

from conductor.client.http.models.base_workflow import BaseWorkflow
from conductor.client.http.models.model import OrDefault, sent_default
from conductor.client.http.models.task import Task
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.protocol.json_types import JsonObject


class Workflow(BaseWorkflow, kw_only=True):
    """A workflow with its tasks. Times are epoch milliseconds; 0 means not yet."""

    workflow_name: OrDefault[str] = sent_default(str)
    workflow_version: OrDefault[int] = sent_default(int)
    tasks: OrDefault[list[Task]] = sent_default(list)
    input: OrDefault[JsonObject] = sent_default(dict)
    output: OrDefault[JsonObject] = sent_default(dict)
    variables: OrDefault[JsonObject] = sent_default(dict)
    reason_for_incompletion: str | None = None
    create_time: OrDefault[int] = sent_default(int)
    start_time: OrDefault[int] = sent_default(int)
    update_time: OrDefault[int] = sent_default(int)
    end_time: OrDefault[int] = sent_default(int)
    last_retried_time: OrDefault[int] = sent_default(int)
    priority: OrDefault[int] = sent_default(int)
    task_to_domain: OrDefault[dict[str, str]] = sent_default(dict)
    failed_reference_task_names: OrDefault[list[str]] = sent_default(list)
    failed_task_names: OrDefault[list[str]] = sent_default(list)
    workflow_definition: WorkflowDef | None = None
    parent_workflow_id: str | None = None
    parent_workflow_task_id: str | None = None
    re_run_from_workflow_id: str | None = None
    event: str | None = None
    external_input_payload_storage_path: str | None = None
    external_output_payload_storage_path: str | None = None
    history: list[Workflow] | None = None
    idempotency_key: str | None = None
    #: The id of the request that started the workflow.
    request_id: str | None = None
    rate_limit_key: str | None = None
    rate_limited: bool | None = None
    owner_app: str | None = None
    created_by: str | None = None
    updated_by: str | None = None

    @property
    def current_task(self) -> Task | None:
        """The last open task, or None."""
        open_ones = [task for task in self.tasks if task.status in ("SCHEDULED", "IN_PROGRESS")]
        return open_ones[-1] if open_ones else None

    def get_task(self, name: str | None = None, task_reference_name: str | None = None) -> Task | None:
        """Return the latest attempt of a task, by its task type or by its reference name."""
        if (name is None) == (task_reference_name is None):
            raise ValueError("get_task takes either name or task_reference_name")
        if task_reference_name is not None:
            return self.task(task_reference_name)
        attempts = [task for task in self.tasks if task.task_def_name == name]
        return attempts[-1] if attempts else None

    def task(self, reference_task_name: str) -> Task | None:
        """Return the latest attempt of the task with this reference name."""
        attempts = [task for task in self.tasks if task.reference_task_name == reference_task_name]
        return attempts[-1] if attempts else None
