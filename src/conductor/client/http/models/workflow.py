"""One execution of a workflow."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.model import Model, OrDefault, sent
from conductor.client.http.models.task import Task
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.wire import TERMINAL_WORKFLOW_STATUSES


class Workflow(Model, kw_only=True):
    """One execution of a workflow with its tasks. Times are epoch milliseconds; 0 means not yet."""

    workflow_id: OrDefault[str] = sent(str)
    #: RUNNING, PAUSED, COMPLETED, FAILED, TIMED_OUT or TERMINATED.
    status: OrDefault[str] = sent(str)
    workflow_name: OrDefault[str] = sent(str)
    workflow_version: OrDefault[int] = sent(int)
    tasks: OrDefault[list[Task]] = sent(list)
    input: OrDefault[dict[str, Any]] = sent(dict)
    output: OrDefault[dict[str, Any]] = sent(dict)
    variables: OrDefault[dict[str, Any]] = sent(dict)
    correlation_id: str | None = None
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
    rate_limit_key: str | None = None
    rate_limited: bool | None = None
    owner_app: str | None = None
    created_by: str | None = None
    updated_by: str | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status in TERMINAL_WORKFLOW_STATUSES

    def task(self, reference_task_name: str) -> Task | None:
        """The latest attempt at the step of that reference name."""
        attempts = [task for task in self.tasks if task.reference_task_name == reference_task_name]
        return attempts[-1] if attempts else None
