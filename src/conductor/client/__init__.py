"""Workers, workflows in Python, and calls to a server. This package exports the names of conductor-python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names

if TYPE_CHECKING:
    from conductor.client.automator.task_handler import TaskHandler as TaskHandler
    from conductor.client.automator.task_runner import TaskRunner as TaskRunner
    from conductor.client.configuration.configuration import Configuration as Configuration
    from conductor.client.http.models.start_workflow_request import StartWorkflowRequest as StartWorkflowRequest
    from conductor.client.http.models.task import Task as Task
    from conductor.client.http.models.task_result import TaskResult as TaskResult
    from conductor.client.http.models.task_result_status import TaskResultStatus as TaskResultStatus
    from conductor.client.orkes_clients import ConductorClients as ConductorClients
    from conductor.client.orkes_clients import OrkesClients as OrkesClients
    from conductor.client.worker.worker_interface import WorkerInterface as WorkerInterface
    from conductor.client.worker.worker_task import worker_task as worker_task
    from conductor.client.workflow.conductor_workflow import ConductorWorkflow as ConductorWorkflow
    from conductor.client.workflow.executor.workflow_executor import WorkflowExecutor as WorkflowExecutor

#: Each name and the module that defines it. The module is imported when the name is first used.
_HOMES = {
    "ConductorClients": "orkes_clients",
    "ConductorWorkflow": "workflow.conductor_workflow",
    "Configuration": "configuration.configuration",
    "OrkesClients": "orkes_clients",
    "StartWorkflowRequest": "http.models.start_workflow_request",
    "Task": "http.models.task",
    "TaskHandler": "automator.task_handler",
    "TaskResult": "http.models.task_result",
    "TaskResultStatus": "http.models.task_result_status",
    "TaskRunner": "automator.task_runner",
    "WorkerInterface": "worker.worker_interface",
    "WorkflowExecutor": "workflow.executor.workflow_executor",
    "worker_task": "worker.worker_task",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
