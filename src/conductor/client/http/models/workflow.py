"""One execution of a workflow."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import OrDefault, sent
from conductor.client.http.models.task import Task
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_state import WorkflowState


class Workflow(WorkflowState, kw_only=True):
    """One execution of a workflow with its tasks. Times are epoch milliseconds; 0 means not yet."""

    workflow_name: OrDefault[str] = sent(str)
    workflow_version: OrDefault[int] = sent(int)
    tasks: OrDefault[list[Task]] = sent(list)
    input: OrDefault[dict[str, Any]] = sent(dict)
    output: OrDefault[dict[str, Any]] = sent(dict)
    variables: OrDefault[dict[str, Any]] = sent(dict)
    reason_for_incompletion: str | None = None
    create_time: OrDefault[int] = sent(int)
    start_time: OrDefault[int] = sent(int)
    update_time: OrDefault[int] = sent(int)
    end_time: OrDefault[int] = sent(int)
    last_retried_time: OrDefault[int] = sent(int)
    priority: OrDefault[int] = sent(int)
    task_to_domain: OrDefault[dict[str, str]] = sent(dict)
    failed_reference_task_names: OrDefault[list[str]] = sent(list)
    failed_task_names: OrDefault[list[str]] = sent(list)
    workflow_definition: WorkflowDef | None = None
    parent_workflow_id: str | None = None
    parent_workflow_task_id: str | None = None
    re_run_from_workflow_id: str | None = None
    event: str | None = None
    external_input_payload_storage_path: str | None = None
    external_output_payload_storage_path: str | None = None
    history: list[Workflow] | None = None
    idempotency_key: str | None = None
    #: Of the call that executed it.
    request_id: str | None = None
    rate_limit_key: str | None = None
    rate_limited: bool | None = None
    owner_app: str | None = None
    created_by: str | None = None
    updated_by: str | None = None

    @property
    def current_task(self) -> Task | None:
        """The latest of the tasks that are not done yet."""
        open_ones = [task for task in self.tasks if task.status in ("SCHEDULED", "IN_PROGRESS")]
        return open_ones[-1] if open_ones else None

    def get_task(self, name: str | None = None, task_reference_name: str | None = None) -> Task | None:
        """The latest attempt at a step, by its task type or by its reference name."""
        if (name is None) == (task_reference_name is None):
            raise ValueError("get_task takes either name or task_reference_name")
        if task_reference_name is not None:
            return self.task(task_reference_name)
        attempts = [task for task in self.tasks if task.task_def_name == name]
        return attempts[-1] if attempts else None

    def task(self, reference_task_name: str) -> Task | None:
        """The latest attempt at the step of that reference name."""
        attempts = [task for task in self.tasks if task.reference_task_name == reference_task_name]
        return attempts[-1] if attempts else None
