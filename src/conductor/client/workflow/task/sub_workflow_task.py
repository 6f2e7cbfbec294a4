"""Steps that run another workflow."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from conductor.client.http.models.sub_workflow_params import SubWorkflowParams
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.workflow.task.task import TaskInterface
from conductor.client.workflow.task.task_type import TaskType

if TYPE_CHECKING:
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow


class SubWorkflowTask(TaskInterface):
    """Starts a registered workflow and waits for its end. Without `version`, the latest version starts."""

    def __init__(
        self,
        task_ref_name: str,
        workflow_name: str,
        version: int | None = None,
        task_to_domain_map: dict[str, str] | None = None,
    ) -> None:
        super().__init__(task_ref_name, TaskType.SUB_WORKFLOW)
        self._workflow_name = workflow_name
        self._version = version
        self._task_to_domain_map = deepcopy(task_to_domain_map)

    def to_workflow_task(self) -> WorkflowTask:
        """Return the step as the server expects it."""
        task: WorkflowTask = super().to_workflow_task()
        task.sub_workflow_param = SubWorkflowParams(
            name=self._workflow_name, version=self._version, task_to_domain=self._task_to_domain_map
        )
        return task


class InlineSubWorkflowTask(TaskInterface):
    """Runs a workflow whose definition this workflow contains, and waits for its end."""

    def __init__(self, task_ref_name: str, workflow: ConductorWorkflow) -> None:
        super().__init__(task_ref_name, TaskType.SUB_WORKFLOW)
        self._workflow_name = workflow.name
        self._workflow_version = workflow.version
        self._workflow_definition = workflow.to_workflow_def()

    def to_workflow_task(self) -> WorkflowTask:
        """Return the step with the definition as the server expects it."""
        task: WorkflowTask = super().to_workflow_task()
        task.sub_workflow_param = SubWorkflowParams(
            name=self._workflow_name,
            version=self._workflow_version,
            workflow_definition=deepcopy(self._workflow_definition),
        )
        return task
