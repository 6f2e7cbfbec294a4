"""The objects that clients, workers and servers exchange. A model is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.common.lazy_names import define_lazy_names

if TYPE_CHECKING:
    from conductor.client.http.models.action import Action as Action
    from conductor.client.http.models.authentication_config import AuthenticationConfig as AuthenticationConfig
    from conductor.client.http.models.authorization_request import AuthorizationRequest as AuthorizationRequest
    from conductor.client.http.models.bulk_response import BulkResponse as BulkResponse
    from conductor.client.http.models.cache_config import CacheConfig as CacheConfig
    from conductor.client.http.models.conductor_application import ConductorApplication as ConductorApplication
    from conductor.client.http.models.conductor_user import ConductorUser as ConductorUser
    from conductor.client.http.models.correlation_ids_search_request import (
        CorrelationIdsSearchRequest as CorrelationIdsSearchRequest,
    )
    from conductor.client.http.models.create_or_update_application_request import (
        CreateOrUpdateApplicationRequest as CreateOrUpdateApplicationRequest,
    )
    from conductor.client.http.models.create_or_update_role_request import (
        CreateOrUpdateRoleRequest as CreateOrUpdateRoleRequest,
    )
    from conductor.client.http.models.cron_schedule import CronSchedule as CronSchedule
    from conductor.client.http.models.event_handler import EventHandler as EventHandler
    from conductor.client.http.models.external_storage_location import (
        ExternalStorageLocation as ExternalStorageLocation,
    )
    from conductor.client.http.models.generate_token_request import GenerateTokenRequest as GenerateTokenRequest
    from conductor.client.http.models.group import Group as Group
    from conductor.client.http.models.health import Health as Health
    from conductor.client.http.models.health_check_status import HealthCheckStatus as HealthCheckStatus
    from conductor.client.http.models.integration import Integration as Integration
    from conductor.client.http.models.integration_api import IntegrationApi as IntegrationApi
    from conductor.client.http.models.integration_api_update import Frequency as Frequency
    from conductor.client.http.models.integration_api_update import IntegrationApiUpdate as IntegrationApiUpdate
    from conductor.client.http.models.integration_def import IntegrationDef as IntegrationDef
    from conductor.client.http.models.integration_update import IntegrationUpdate as IntegrationUpdate
    from conductor.client.http.models.model import Model as Model
    from conductor.client.http.models.permission import Permission as Permission
    from conductor.client.http.models.poll_data import PollData as PollData
    from conductor.client.http.models.prompt_template import PromptTemplate as PromptTemplate
    from conductor.client.http.models.prompt_test_request import PromptTemplateTestRequest as PromptTemplateTestRequest
    from conductor.client.http.models.rate_limit import RateLimit as RateLimit
    from conductor.client.http.models.rate_limit_config import RateLimitConfig as RateLimitConfig
    from conductor.client.http.models.rerun_workflow_request import RerunWorkflowRequest as RerunWorkflowRequest
    from conductor.client.http.models.role import Role as Role
    from conductor.client.http.models.save_schedule_request import SaveScheduleRequest as SaveScheduleRequest
    from conductor.client.http.models.schema_def import SchemaDef as SchemaDef
    from conductor.client.http.models.schema_def import SchemaType as SchemaType
    from conductor.client.http.models.scrollable_search_result_workflow_summary import (
        ScrollableSearchResultWorkflowSummary as ScrollableSearchResultWorkflowSummary,
    )
    from conductor.client.http.models.search_result import SearchResult as SearchResult
    from conductor.client.http.models.search_result_task import SearchResultTask as SearchResultTask
    from conductor.client.http.models.search_result_task_summary import (
        SearchResultTaskSummary as SearchResultTaskSummary,
    )
    from conductor.client.http.models.search_result_workflow import SearchResultWorkflow as SearchResultWorkflow
    from conductor.client.http.models.search_result_workflow_schedule_execution_model import (
        SearchResultWorkflowScheduleExecutionModel as SearchResultWorkflowScheduleExecutionModel,
    )
    from conductor.client.http.models.search_result_workflow_summary import (
        SearchResultWorkflowSummary as SearchResultWorkflowSummary,
    )
    from conductor.client.http.models.signal_response import SignalResponse as SignalResponse
    from conductor.client.http.models.signal_response import TaskStatus as TaskStatus
    from conductor.client.http.models.signal_response import (
        WorkflowSignalReturnStrategy as WorkflowSignalReturnStrategy,
    )
    from conductor.client.http.models.skip_task_request import SkipTaskRequest as SkipTaskRequest
    from conductor.client.http.models.start_workflow import StartWorkflow as StartWorkflow
    from conductor.client.http.models.start_workflow_request import IdempotencyStrategy as IdempotencyStrategy
    from conductor.client.http.models.start_workflow_request import StartWorkflowRequest as StartWorkflowRequest
    from conductor.client.http.models.state_change_event import StateChangeConfig as StateChangeConfig
    from conductor.client.http.models.state_change_event import StateChangeEvent as StateChangeEvent
    from conductor.client.http.models.state_change_event import StateChangeEventType as StateChangeEventType
    from conductor.client.http.models.sub_workflow_params import SubWorkflowParams as SubWorkflowParams
    from conductor.client.http.models.subject_ref import SubjectRef as SubjectRef
    from conductor.client.http.models.subject_ref import SubjectType as SubjectType
    from conductor.client.http.models.tag_object import TagObject as TagObject
    from conductor.client.http.models.tag_string import TagString as TagString
    from conductor.client.http.models.target_ref import TargetRef as TargetRef
    from conductor.client.http.models.target_ref import TargetType as TargetType
    from conductor.client.http.models.task import Task as Task
    from conductor.client.http.models.task_def import RetryLogic as RetryLogic
    from conductor.client.http.models.task_def import TaskDef as TaskDef
    from conductor.client.http.models.task_def import TimeoutPolicy as TimeoutPolicy
    from conductor.client.http.models.task_details import TaskDetails as TaskDetails
    from conductor.client.http.models.task_exec_log import TaskExecLog as TaskExecLog
    from conductor.client.http.models.task_result import TaskResult as TaskResult
    from conductor.client.http.models.task_result_status import TaskResultStatus as TaskResultStatus
    from conductor.client.http.models.task_summary import TaskSummary as TaskSummary
    from conductor.client.http.models.terminate_workflow import TerminateWorkflow as TerminateWorkflow
    from conductor.client.http.models.token import Token as Token
    from conductor.client.http.models.update_workflow_variables import (
        UpdateWorkflowVariables as UpdateWorkflowVariables,
    )
    from conductor.client.http.models.upsert_group_request import UpsertGroupRequest as UpsertGroupRequest
    from conductor.client.http.models.upsert_user_request import UpsertUserRequest as UpsertUserRequest
    from conductor.client.http.models.workflow import Workflow as Workflow
    from conductor.client.http.models.workflow_def import WorkflowDef as WorkflowDef
    from conductor.client.http.models.workflow_def import to_workflow_def as to_workflow_def
    from conductor.client.http.models.workflow_message import WorkflowMessage as WorkflowMessage
    from conductor.client.http.models.workflow_run import WorkflowRun as WorkflowRun
    from conductor.client.http.models.workflow_schedule import WorkflowSchedule as WorkflowSchedule
    from conductor.client.http.models.workflow_schedule_execution_model import (
        WorkflowScheduleExecutionModel as WorkflowScheduleExecutionModel,
    )
    from conductor.client.http.models.workflow_state_update import WorkflowStateUpdate as WorkflowStateUpdate
    from conductor.client.http.models.workflow_status import WorkflowStatus as WorkflowStatus
    from conductor.client.http.models.workflow_summary import WorkflowSummary as WorkflowSummary
    from conductor.client.http.models.workflow_tag import WorkflowTag as WorkflowTag
    from conductor.client.http.models.workflow_task import WorkflowTask as WorkflowTask
    from conductor.client.http.models.workflow_test_request import TaskMock as TaskMock
    from conductor.client.http.models.workflow_test_request import WorkflowTestRequest as WorkflowTestRequest

#: The module that defines each name.
_HOMES = {
    "Action": "action",
    "AuthenticationConfig": "authentication_config",
    "AuthorizationRequest": "authorization_request",
    "BulkResponse": "bulk_response",
    "CacheConfig": "cache_config",
    "ConductorApplication": "conductor_application",
    "ConductorUser": "conductor_user",
    "CorrelationIdsSearchRequest": "correlation_ids_search_request",
    "CreateOrUpdateApplicationRequest": "create_or_update_application_request",
    "CreateOrUpdateRoleRequest": "create_or_update_role_request",
    "CronSchedule": "cron_schedule",
    "EventHandler": "event_handler",
    "ExternalStorageLocation": "external_storage_location",
    "Frequency": "integration_api_update",
    "GenerateTokenRequest": "generate_token_request",
    "Group": "group",
    "Health": "health",
    "HealthCheckStatus": "health_check_status",
    "IdempotencyStrategy": "start_workflow_request",
    "Integration": "integration",
    "IntegrationApi": "integration_api",
    "IntegrationApiUpdate": "integration_api_update",
    "IntegrationDef": "integration_def",
    "IntegrationUpdate": "integration_update",
    "Model": "model",
    "Permission": "permission",
    "PollData": "poll_data",
    "PromptTemplate": "prompt_template",
    "PromptTemplateTestRequest": "prompt_test_request",
    "RateLimit": "rate_limit",
    "RateLimitConfig": "rate_limit_config",
    "RerunWorkflowRequest": "rerun_workflow_request",
    "RetryLogic": "task_def",
    "Role": "role",
    "SaveScheduleRequest": "save_schedule_request",
    "SchemaDef": "schema_def",
    "SchemaType": "schema_def",
    "ScrollableSearchResultWorkflowSummary": "scrollable_search_result_workflow_summary",
    "SearchResult": "search_result",
    "SearchResultTask": "search_result_task",
    "SearchResultTaskSummary": "search_result_task_summary",
    "SearchResultWorkflow": "search_result_workflow",
    "SearchResultWorkflowScheduleExecutionModel": "search_result_workflow_schedule_execution_model",
    "SearchResultWorkflowSummary": "search_result_workflow_summary",
    "SignalResponse": "signal_response",
    "SkipTaskRequest": "skip_task_request",
    "StartWorkflow": "start_workflow",
    "StartWorkflowRequest": "start_workflow_request",
    "StateChangeConfig": "state_change_event",
    "StateChangeEvent": "state_change_event",
    "StateChangeEventType": "state_change_event",
    "SubWorkflowParams": "sub_workflow_params",
    "SubjectRef": "subject_ref",
    "SubjectType": "subject_ref",
    "TagObject": "tag_object",
    "TagString": "tag_string",
    "TargetRef": "target_ref",
    "TargetType": "target_ref",
    "Task": "task",
    "TaskDef": "task_def",
    "TaskDetails": "task_details",
    "TaskExecLog": "task_exec_log",
    "TaskMock": "workflow_test_request",
    "TaskResult": "task_result",
    "TaskResultStatus": "task_result_status",
    "TaskStatus": "signal_response",
    "TaskSummary": "task_summary",
    "TerminateWorkflow": "terminate_workflow",
    "TimeoutPolicy": "task_def",
    "Token": "token",
    "UpdateWorkflowVariables": "update_workflow_variables",
    "UpsertGroupRequest": "upsert_group_request",
    "UpsertUserRequest": "upsert_user_request",
    "Workflow": "workflow",
    "WorkflowDef": "workflow_def",
    "WorkflowMessage": "workflow_message",
    "WorkflowRun": "workflow_run",
    "WorkflowSchedule": "workflow_schedule",
    "WorkflowScheduleExecutionModel": "workflow_schedule_execution_model",
    "WorkflowSignalReturnStrategy": "signal_response",
    "WorkflowStateUpdate": "workflow_state_update",
    "WorkflowStatus": "workflow_status",
    "WorkflowSummary": "workflow_summary",
    "WorkflowTag": "workflow_tag",
    "WorkflowTask": "workflow_task",
    "WorkflowTestRequest": "workflow_test_request",
    "to_workflow_def": "workflow_def",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = define_lazy_names(__name__, _HOMES)
