"""What travels between clients, workers and the server. Each model is loaded when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.lazy import lazily

if TYPE_CHECKING:
    from conductor.client.http.models.bulk_response import BulkResponse as BulkResponse
    from conductor.client.http.models.cache_config import CacheConfig as CacheConfig
    from conductor.client.http.models.model import Model as Model
    from conductor.client.http.models.poll_data import PollData as PollData
    from conductor.client.http.models.rate_limit_config import RateLimitConfig as RateLimitConfig
    from conductor.client.http.models.rerun_workflow_request import RerunWorkflowRequest as RerunWorkflowRequest
    from conductor.client.http.models.schema_def import SchemaDef as SchemaDef
    from conductor.client.http.models.schema_def import SchemaType as SchemaType
    from conductor.client.http.models.search_result import SearchResult as SearchResult
    from conductor.client.http.models.skip_task_request import SkipTaskRequest as SkipTaskRequest
    from conductor.client.http.models.start_workflow_request import IdempotencyStrategy as IdempotencyStrategy
    from conductor.client.http.models.start_workflow_request import StartWorkflowRequest as StartWorkflowRequest
    from conductor.client.http.models.state_change_event import StateChangeEvent as StateChangeEvent
    from conductor.client.http.models.sub_workflow_params import SubWorkflowParams as SubWorkflowParams
    from conductor.client.http.models.task import Task as Task
    from conductor.client.http.models.task_def import RetryLogic as RetryLogic
    from conductor.client.http.models.task_def import TaskDef as TaskDef
    from conductor.client.http.models.task_def import TimeoutPolicy as TimeoutPolicy
    from conductor.client.http.models.task_exec_log import TaskExecLog as TaskExecLog
    from conductor.client.http.models.task_result import TaskResult as TaskResult
    from conductor.client.http.models.task_result_status import TaskResultStatus as TaskResultStatus
    from conductor.client.http.models.task_summary import TaskSummary as TaskSummary
    from conductor.client.http.models.workflow import Workflow as Workflow
    from conductor.client.http.models.workflow_def import WorkflowDef as WorkflowDef
    from conductor.client.http.models.workflow_run import WorkflowRun as WorkflowRun
    from conductor.client.http.models.workflow_status import WorkflowStatus as WorkflowStatus
    from conductor.client.http.models.workflow_summary import WorkflowSummary as WorkflowSummary
    from conductor.client.http.models.workflow_task import WorkflowTask as WorkflowTask

#: Name to the module that has it.
_HOMES = {
    "BulkResponse": "bulk_response",
    "CacheConfig": "cache_config",
    "IdempotencyStrategy": "start_workflow_request",
    "Model": "model",
    "PollData": "poll_data",
    "RateLimitConfig": "rate_limit_config",
    "RerunWorkflowRequest": "rerun_workflow_request",
    "RetryLogic": "task_def",
    "SchemaDef": "schema_def",
    "SchemaType": "schema_def",
    "SearchResult": "search_result",
    "SkipTaskRequest": "skip_task_request",
    "StartWorkflowRequest": "start_workflow_request",
    "StateChangeEvent": "state_change_event",
    "SubWorkflowParams": "sub_workflow_params",
    "Task": "task",
    "TaskDef": "task_def",
    "TaskExecLog": "task_exec_log",
    "TaskResult": "task_result",
    "TaskResultStatus": "task_result_status",
    "TaskSummary": "task_summary",
    "TimeoutPolicy": "task_def",
    "Workflow": "workflow",
    "WorkflowDef": "workflow_def",
    "WorkflowRun": "workflow_run",
    "WorkflowStatus": "workflow_status",
    "WorkflowSummary": "workflow_summary",
    "WorkflowTask": "workflow_task",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = lazily(__name__, _HOMES)
