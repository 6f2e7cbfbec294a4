"""Calls to optional parts of the API: their requests, and their errors on servers without these parts."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.client.ai.schedule import ScheduleInfo
from conductor.client.authorization_client import AsyncAuthorizationClient
from conductor.client.configuration.configuration import Configuration
from conductor.client.event.event_client import EventClient
from conductor.client.event.queue.kafka_queue_configuration import (
    KafkaConsumerConfiguration,
    KafkaProducerConfiguration,
    KafkaQueueConfiguration,
)
from conductor.client.http.async_rest import NotFoundException
from conductor.client.http.models.correlation_ids_search_request import CorrelationIdsSearchRequest
from conductor.client.http.models.create_or_update_application_request import CreateOrUpdateApplicationRequest
from conductor.client.http.models.integration_api_update import IntegrationApiUpdate
from conductor.client.http.models.integration_update import IntegrationUpdate
from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.subject_ref import SubjectRef, SubjectType
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.models.target_ref import TargetRef, TargetType
from conductor.client.http.models.upsert_group_request import UpsertGroupRequest
from conductor.client.http.models.upsert_user_request import UpsertUserRequest
from conductor.client.http.models.workflow_schedule import WorkflowSchedule
from conductor.client.http.models.workflow_state_update import WorkflowStateUpdate
from conductor.client.http.models.workflow_test_request import TaskMock, WorkflowTestRequest
from conductor.client.integration_client import AsyncIntegrationClient
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.orkes.models.access_type import AccessType
from conductor.client.orkes.models.metadata_tag import MetadataTag
from conductor.client.orkes_clients import ConductorClients, OrkesClients
from conductor.client.prompt_client import AsyncPromptClient
from conductor.client.scheduler_client import AsyncSchedulerClient
from conductor.client.secret_client import AsyncSecretClient
from conductor.client.task_client import AsyncTaskClient
from conductor.client.workflow_client import AsyncWorkflowClient
from tests.unit.http.raw_server import answer

TAG = MetadataTag("k", "v")
START = StartWorkflowRequest(name="wf", version=1, input={"a": 1})
MOCKED = WorkflowTestRequest(name="w", task_ref_to_mock_output={"t": [TaskMock(output={"x": 1})]})
MOCKED_JSON = {
    "name": "w",
    "taskRefToMockOutput": {"t": [{"status": "COMPLETED", "output": {"x": 1}, "executionTime": 0, "queueWaitTime": 0}]},
}

#: Client, call, method, target, and the body sent.
CASES: list[tuple[Any, Any, str, str, Any]] = [
    (
        AsyncWorkflowClient,
        lambda c: c.execute_workflow_with_return_strategy(
            start_workflow_request=START,
            request_id="request_id",
            wait_until_task_ref="wait_until_task_ref",
            wait_for_seconds=7,
            consistency="DURABLE",
            return_strategy="BLOCKING_TASK",
        ),
        "POST",
        "/workflow/execute/wf/1?requestId=request_id&waitUntilTaskRef=wait_until_task_ref&waitForSeconds=7&consistency=DURABLE&returnStrategy=BLOCKING_TASK",
        {"name": "wf", "version": 1, "input": {"a": 1}},
    ),
    (
        AsyncWorkflowClient,
        lambda c: c.get_by_correlation_ids_in_batch(
            batch_request=CorrelationIdsSearchRequest(["c"], ["w"]),
            include_completed="include_completed",
            include_tasks="include_tasks",
        ),
        "POST",
        "/workflow/correlated/batch?includeClosed=include_completed&includeTasks=include_tasks",
        {"correlationIds": ["c"], "workflowNames": ["w"]},
    ),
    (
        AsyncWorkflowClient,
        lambda c: c.send_message(workflow_id="workflow_id", message={"m": 1}),
        "POST",
        "/workflow/workflow_id/messages",
        {"m": 1},
    ),
    (
        AsyncWorkflowClient,
        lambda c: c.update_variables(workflow_id="workflow_id", variables={"v": 1}),
        "POST",
        "/workflow/workflow_id/variables",
        {"v": 1},
    ),
    (
        AsyncMetadataClient,
        lambda c: c.addTaskTag(tag=TAG, taskName="taskName"),
        "POST",
        "/metadata/task/taskName/tags",
        {"key": "k", "type": "METADATA", "value": "v"},
    ),
    (
        AsyncMetadataClient,
        lambda c: c.add_workflow_tag(tag=TAG, workflow_name="workflow_name"),
        "POST",
        "/metadata/workflow/workflow_name/tags",
        {"key": "k", "type": "METADATA", "value": "v"},
    ),
    (
        AsyncMetadataClient,
        lambda c: c.deleteTaskTag(tag=TAG, taskName="taskName"),
        "DELETE",
        "/metadata/task/taskName/tags",
        {"key": "k", "type": "METADATA", "value": "v"},
    ),
    (
        AsyncMetadataClient,
        lambda c: c.delete_workflow_tag(tag=TAG, workflow_name="workflow_name"),
        "DELETE",
        "/metadata/workflow/workflow_name/tags",
        {"key": "k", "type": "METADATA", "value": "v"},
    ),
    (AsyncMetadataClient, lambda c: c.getTaskTags(taskName="taskName"), "GET", "/metadata/task/taskName/tags", None),
    (
        AsyncMetadataClient,
        lambda c: c.get_workflow_tags(workflow_name="workflow_name"),
        "GET",
        "/metadata/workflow/workflow_name/tags",
        None,
    ),
    (
        AsyncMetadataClient,
        lambda c: c.setTaskTags(tags=[TAG], taskName="taskName"),
        "PUT",
        "/metadata/task/taskName/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncMetadataClient,
        lambda c: c.set_workflow_tags(tags=[TAG], workflow_name="workflow_name"),
        "PUT",
        "/metadata/workflow/workflow_name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (AsyncSchedulerClient, lambda c: c.delete(wire_name="wire_name"), "DELETE", "/scheduler/schedules/wire_name", None),
    (AsyncSchedulerClient, lambda c: c.delete_schedule(name="name"), "DELETE", "/scheduler/schedules/name", None),
    (
        AsyncSchedulerClient,
        lambda c: c.delete_scheduler_tags(tags=[TAG], name="name"),
        "DELETE",
        "/scheduler/schedules/name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncSchedulerClient,
        lambda c: c.get_all_schedules(workflow_name="workflow_name"),
        "GET",
        "/scheduler/schedules?workflowName=workflow_name",
        None,
    ),
    (
        AsyncSchedulerClient,
        lambda c: c.get_next_few_schedule_execution_times(
            cron_expression="cron_expression", schedule_start_time=7, schedule_end_time=7, limit=7
        ),
        "GET",
        "/scheduler/nextFewSchedules?cronExpression=cron_expression&scheduleStartTime=7&scheduleEndTime=7&limit=7",
        None,
    ),
    (AsyncSchedulerClient, lambda c: c.get_schedule(name="name"), "GET", "/scheduler/schedules/name", None),
    (AsyncSchedulerClient, lambda c: c.get_scheduler_tags(name="name"), "GET", "/scheduler/schedules/name/tags", None),
    (
        AsyncSchedulerClient,
        lambda c: c.pause(wire_name="wire_name", reason="reason"),
        "PUT",
        "/scheduler/schedules/wire_name/pause?reason=reason",
        None,
    ),
    (AsyncSchedulerClient, lambda c: c.pause_all_schedules(), "GET", "/scheduler/admin/pause", None),
    (
        AsyncSchedulerClient,
        lambda c: c.pause_schedule(name="name", reason="reason"),
        "PUT",
        "/scheduler/schedules/name/pause?reason=reason",
        None,
    ),
    (
        AsyncSchedulerClient,
        lambda c: c.preview_next(cron="cron", n=7, start_at=7, end_at=7),
        "GET",
        "/scheduler/nextFewSchedules?cronExpression=cron&scheduleStartTime=7&scheduleEndTime=7&limit=7",
        None,
    ),
    (
        AsyncSchedulerClient,
        lambda c: c.reconcile(agent_name="wf", desired=[]),
        "GET",
        "/scheduler/schedules?workflowName=wf",
        None,
    ),
    (
        AsyncSchedulerClient,
        lambda c: c.run_now(info=ScheduleInfo.of(WorkflowSchedule(name="wf-nightly", start_workflow_request=START))),
        "POST",
        "/workflow",
        {"name": "wf", "input": {"a": 1}},
    ),
    (AsyncSchedulerClient, lambda c: c.requeue_all_execution_records(), "GET", "/scheduler/admin/requeue", None),
    (
        AsyncSchedulerClient,
        lambda c: c.resume(wire_name="wire_name"),
        "PUT",
        "/scheduler/schedules/wire_name/resume",
        None,
    ),
    (AsyncSchedulerClient, lambda c: c.resume_all_schedules(), "GET", "/scheduler/admin/resume", None),
    (AsyncSchedulerClient, lambda c: c.resume_schedule(name="name"), "PUT", "/scheduler/schedules/name/resume", None),
    (
        AsyncSchedulerClient,
        lambda c: c.save_schedule(save_schedule_request=SaveScheduleRequest(name="s", cron_expression="0 0 * * * *")),
        "POST",
        "/scheduler/schedules",
        {"name": "s", "cronExpression": "0 0 * * * *"},
    ),
    (
        AsyncSchedulerClient,
        lambda c: c.search_schedule_executions(start=7, size=7, sort="sort", free_text="free_text", query="query"),
        "GET",
        "/scheduler/search/executions?start=7&size=7&sort=sort&freeText=free_text&query=query",
        None,
    ),
    (
        AsyncSchedulerClient,
        lambda c: c.set_scheduler_tags(tags=[TAG], name="name"),
        "PUT",
        "/scheduler/schedules/name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (AsyncSecretClient, lambda c: c.delete_secret(key="key"), "DELETE", "/secrets/key", None),
    (
        AsyncSecretClient,
        lambda c: c.delete_secret_tags(tags=[TAG], key="key"),
        "DELETE",
        "/secrets/key/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (AsyncSecretClient, lambda c: c.get_secret(key="key"), "GET", "/secrets/key", None),
    (AsyncSecretClient, lambda c: c.get_secret_tags(key="key"), "GET", "/secrets/key/tags", None),
    (AsyncSecretClient, lambda c: c.list_all_secret_names(), "POST", "/secrets", None),
    (AsyncSecretClient, lambda c: c.list_secrets_that_user_can_grant_access_to(), "GET", "/secrets", None),
    (AsyncSecretClient, lambda c: c.put_secret(key="key", value="value"), "PUT", "/secrets/key", b"value"),
    (AsyncSecretClient, lambda c: c.secret_exists(key="key"), "GET", "/secrets/key/exists", None),
    (
        AsyncSecretClient,
        lambda c: c.set_secret_tags(tags=[TAG], key="key"),
        "PUT",
        "/secrets/key/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (AsyncPromptClient, lambda c: c.delete_prompt(prompt_name="prompt_name"), "DELETE", "/prompts/prompt_name", None),
    (
        AsyncPromptClient,
        lambda c: c.delete_tag_for_prompt_template(prompt_name="prompt_name", tags=[TAG]),
        "DELETE",
        "/prompts/prompt_name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (AsyncPromptClient, lambda c: c.get_prompt(prompt_name="prompt_name"), "GET", "/prompts/prompt_name", None),
    (AsyncPromptClient, lambda c: c.get_prompts(), "GET", "/prompts", None),
    (
        AsyncPromptClient,
        lambda c: c.get_tags_for_prompt_template(prompt_name="prompt_name"),
        "GET",
        "/prompts/prompt_name/tags",
        None,
    ),
    (
        AsyncPromptClient,
        lambda c: c.save_prompt(
            prompt_name="prompt_name",
            description="description",
            prompt_template="prompt_template",
            models=["m"],
            version=7,
            auto_increment=True,
        ),
        "POST",
        "/prompts/prompt_name?description=description&models=m&version=7&autoIncrement=true",
        b"prompt_template",
    ),
    (
        AsyncPromptClient,
        lambda c: c.test_prompt(
            prompt_text="prompt_text",
            variables={"v": 1},
            ai_integration="ai_integration",
            text_complete_model="text_complete_model",
            temperature=0.1,
            top_p=0.9,
            stop_words=["x"],
        ),
        "POST",
        "/prompts/test",
        {
            "llmProvider": "ai_integration",
            "model": "text_complete_model",
            "prompt": "prompt_text",
            "promptVariables": {"v": 1},
            "stopWords": ["x"],
            "temperature": 0.1,
            "topP": 0.9,
        },
    ),
    (
        AsyncPromptClient,
        lambda c: c.update_tag_for_prompt_template(prompt_name="prompt_name", tags=[TAG]),
        "PUT",
        "/prompts/prompt_name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.associate_prompt_with_integration(
            ai_integration="ai_integration", model_name="model_name", prompt_name="prompt_name"
        ),
        "POST",
        "/integrations/provider/ai_integration/integration/model_name/prompt/prompt_name",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.delete_integration(integration_name="integration_name"),
        "DELETE",
        "/integrations/provider/integration_name",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.delete_integration_api(api_name="api_name", integration_name="integration_name"),
        "DELETE",
        "/integrations/provider/integration_name/integration/api_name",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.delete_tag_for_integration(body=[TAG], tag_name="tag_name", integration_name="integration_name"),
        "DELETE",
        "/integrations/provider/tag_name/integration/integration_name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.delete_tag_for_integration_provider(body=[TAG], name="name"),
        "DELETE",
        "/integrations/provider/name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.get_integration(integration_name="integration_name"),
        "GET",
        "/integrations/provider/integration_name",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.get_integration_api(api_name="api_name", integration_name="integration_name"),
        "GET",
        "/integrations/provider/integration_name/integration/api_name",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.get_integration_apis(integration_name="integration_name"),
        "GET",
        "/integrations/provider/integration_name/integration",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.get_integration_available_apis(integration_name="integration_name"),
        "GET",
        "/integrations/provider/integration_name/integration/all",
        None,
    ),
    (AsyncIntegrationClient, lambda c: c.get_integration_provider_defs(), "GET", "/integrations/def", None),
    (AsyncIntegrationClient, lambda c: c.get_integrations(), "GET", "/integrations/provider", None),
    (
        AsyncIntegrationClient,
        lambda c: c.get_prompts_with_integration(ai_integration="ai_integration", model_name="model_name"),
        "GET",
        "/integrations/provider/ai_integration/integration/model_name/prompt",
        None,
    ),
    (AsyncIntegrationClient, lambda c: c.get_providers_and_integrations(), "GET", "/integrations/all", None),
    (
        AsyncIntegrationClient,
        lambda c: c.get_tags_for_integration(name="name", integration_name="integration_name"),
        "GET",
        "/integrations/provider/name/integration/integration_name/tags",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.get_tags_for_integration_provider(name="name"),
        "GET",
        "/integrations/provider/name/tags",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.get_token_usage_for_integration(name="name", integration_name="integration_name"),
        "GET",
        "/integrations/provider/name/integration/integration_name/metrics",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.get_token_usage_for_integration_provider(name="name"),
        "GET",
        "/integrations/provider/name/metrics",
        None,
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.put_tag_for_integration(body=[TAG], name="name", integration_name="integration_name"),
        "PUT",
        "/integrations/provider/name/integration/integration_name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.put_tag_for_integration_provider(body=[TAG], name="name"),
        "PUT",
        "/integrations/provider/name/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.save_integration(
            integration_name="integration_name", integration_details=IntegrationUpdate(category="API", enabled=True)
        ),
        "POST",
        "/integrations/provider/integration_name",
        {"category": "API", "enabled": True},
    ),
    (
        AsyncIntegrationClient,
        lambda c: c.save_integration_api(
            integration_name="integration_name",
            api_name="api_name",
            api_details=IntegrationApiUpdate(enabled=True, max_tokens=5),
        ),
        "POST",
        "/integrations/provider/integration_name/integration/api_name",
        {"enabled": True, "maxTokens": 5},
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.add_role_to_application_user(application_id="application_id", role="role"),
        "POST",
        "/applications/application_id/roles/role",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.add_user_to_group(group_id="group_id", user_id="user_id"),
        "POST",
        "/groups/group_id/users/user_id",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.add_users_to_group(group_id="group_id", user_ids=["u"]),
        "POST",
        "/groups/group_id/users",
        ["u"],
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.check_permissions(user_id="user_id", target_type="target_type", target_id="target_id"),
        "GET",
        "/users/user_id/checkPermissions?type=target_type&id=target_id",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.create_access_key(application_id="application_id"),
        "POST",
        "/applications/application_id/accessKeys",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.create_application(create_or_update_application_request=CreateOrUpdateApplicationRequest("app")),
        "POST",
        "/applications",
        {"name": "app"},
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.create_gateway_auth_config(auth_config={"n": 1}),
        "POST",
        "/gateway/config/auth",
        {"n": 1},
    ),
    (AsyncAuthorizationClient, lambda c: c.create_role(create_role_request={"n": 1}), "POST", "/roles", {"n": 1}),
    (
        AsyncAuthorizationClient,
        lambda c: c.delete_access_key(application_id="application_id", key_id="key_id"),
        "DELETE",
        "/applications/application_id/accessKeys/key_id",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.delete_application(application_id="application_id"),
        "DELETE",
        "/applications/application_id",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.delete_application_tags(tags=[TAG], application_id="application_id"),
        "DELETE",
        "/applications/application_id/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.delete_gateway_auth_config(config_id="config_id"),
        "DELETE",
        "/gateway/config/auth/config_id",
        None,
    ),
    (AsyncAuthorizationClient, lambda c: c.delete_group(group_id="group_id"), "DELETE", "/groups/group_id", None),
    (AsyncAuthorizationClient, lambda c: c.delete_role(role_name="role_name"), "DELETE", "/roles/role_name", None),
    (AsyncAuthorizationClient, lambda c: c.delete_user(user_id="user_id"), "DELETE", "/users/user_id", None),
    (
        AsyncAuthorizationClient,
        lambda c: c.generate_token(key_id="key_id", key_secret="key_secret"),
        "POST",
        "/token",
        {"keyId": "key_id", "keySecret": "key_secret"},
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_access_keys(application_id="application_id"),
        "GET",
        "/applications/application_id/accessKeys",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_app_by_access_key_id(access_key_id="access_key_id"),
        "GET",
        "/applications/key/access_key_id",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_application(application_id="application_id"),
        "GET",
        "/applications/application_id",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_application_tags(application_id="application_id"),
        "GET",
        "/applications/application_id/tags",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_gateway_auth_config(config_id="config_id"),
        "GET",
        "/gateway/config/auth/config_id",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_granted_permissions_for_group(group_id="group_id"),
        "GET",
        "/groups/group_id/permissions",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_granted_permissions_for_user(user_id="user_id"),
        "GET",
        "/users/user_id/permissions",
        None,
    ),
    (AsyncAuthorizationClient, lambda c: c.get_group(group_id="group_id"), "GET", "/groups/group_id", None),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_permissions(target=TargetRef(TargetType.WORKFLOW_DEF, "id")),
        "GET",
        "/auth/authorization/WORKFLOW_DEF/id",
        None,
    ),
    (AsyncAuthorizationClient, lambda c: c.get_role(role_name="role_name"), "GET", "/roles/role_name", None),
    (AsyncAuthorizationClient, lambda c: c.get_user(user_id="user_id"), "GET", "/users/user_id", None),
    (AsyncAuthorizationClient, lambda c: c.get_user_info_from_token(), "GET", "/token/userInfo", None),
    (
        AsyncAuthorizationClient,
        lambda c: c.get_users_in_group(group_id="group_id"),
        "GET",
        "/groups/group_id/users",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.grant_permissions(
            subject=SubjectRef(SubjectType.USER, "id"),
            target=TargetRef(TargetType.WORKFLOW_DEF, "id"),
            access=[AccessType.READ],
        ),
        "POST",
        "/auth/authorization",
        {"subject": {"type": "USER", "id": "id"}, "target": {"type": "WORKFLOW_DEF", "id": "id"}, "access": ["READ"]},
    ),
    (AsyncAuthorizationClient, lambda c: c.list_all_roles(), "GET", "/roles", None),
    (AsyncAuthorizationClient, lambda c: c.list_applications(), "GET", "/applications", None),
    (AsyncAuthorizationClient, lambda c: c.list_available_permissions(), "GET", "/roles/permissions", None),
    (AsyncAuthorizationClient, lambda c: c.list_custom_roles(), "GET", "/roles/custom", None),
    (AsyncAuthorizationClient, lambda c: c.list_gateway_auth_configs(), "GET", "/gateway/config/auth", None),
    (AsyncAuthorizationClient, lambda c: c.list_groups(), "GET", "/groups", None),
    (AsyncAuthorizationClient, lambda c: c.list_system_roles(), "GET", "/roles/system", None),
    (AsyncAuthorizationClient, lambda c: c.list_users(apps=True), "GET", "/users?apps=true", None),
    (
        AsyncAuthorizationClient,
        lambda c: c.remove_permissions(
            subject=SubjectRef(SubjectType.USER, "id"),
            target=TargetRef(TargetType.WORKFLOW_DEF, "id"),
            access=[AccessType.READ],
        ),
        "DELETE",
        "/auth/authorization",
        {"subject": {"type": "USER", "id": "id"}, "target": {"type": "WORKFLOW_DEF", "id": "id"}, "access": ["READ"]},
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.remove_role_from_application_user(application_id="application_id", role="role"),
        "DELETE",
        "/applications/application_id/roles/role",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.remove_user_from_group(group_id="group_id", user_id="user_id"),
        "DELETE",
        "/groups/group_id/users/user_id",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.remove_users_from_group(group_id="group_id", user_ids=["u"]),
        "DELETE",
        "/groups/group_id/users",
        ["u"],
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.set_application_tags(tags=[TAG], application_id="application_id"),
        "PUT",
        "/applications/application_id/tags",
        [{"key": "k", "type": "METADATA", "value": "v"}],
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.toggle_access_key_status(application_id="application_id", key_id="key_id"),
        "POST",
        "/applications/application_id/accessKeys/key_id/status",
        None,
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.update_application(
            create_or_update_application_request=CreateOrUpdateApplicationRequest("app"),
            application_id="application_id",
        ),
        "PUT",
        "/applications/application_id",
        {"name": "app"},
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.update_gateway_auth_config(config_id="config_id", auth_config={"n": 1}),
        "PUT",
        "/gateway/config/auth/config_id",
        {"n": 1},
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.update_role(role_name="role_name", update_role_request={"n": 1}),
        "PUT",
        "/roles/role_name",
        {"n": 1},
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.upsert_group(upsert_group_request=UpsertGroupRequest("d", ["ADMIN"]), group_id="group_id"),
        "PUT",
        "/groups/group_id",
        {"description": "d", "roles": ["ADMIN"]},
    ),
    (
        AsyncAuthorizationClient,
        lambda c: c.upsert_user(upsert_user_request=UpsertUserRequest("n", ["ADMIN"]), user_id="user_id"),
        "PUT",
        "/users/user_id",
        {"name": "n", "roles": ["ADMIN"]},
    ),
    (AsyncWorkflowClient, lambda c: c.test_workflow(MOCKED), "POST", "/workflow/test", MOCKED_JSON),
    (
        AsyncTaskClient,
        lambda c: c.signal("w", "COMPLETED", {"a": 1}, "BLOCKING_TASK"),
        "POST",
        "/tasks/w/COMPLETED/signal/sync?returnStrategy=BLOCKING_TASK",
        {"a": 1},
    ),
    (
        AsyncTaskClient,
        lambda c: c.signal_async("w", "COMPLETED", {"a": 1}),
        "POST",
        "/tasks/w/COMPLETED/signal",
        {"a": 1},
    ),
]
OPERATIONS = {name for case in CASES for name in case[1].__code__.co_names}


@pytest.mark.parametrize(
    ("client", "call", "method", "target", "body"), CASES, ids=[case[1].__code__.co_names[0] for case in CASES]
)
async def test_each_call_sends_the_documented_request(
    serve: Any, client: Any, call: Any, method: Any, target: Any, body: Any
) -> None:
    server = await serve(lambda seen: answer(200))
    async with client(Configuration(server.url)) as api:
        try:
            await call(api)
        except Exception:  # the answer is empty, which many cannot read: only what was sent counts here
            pass
    (seen,) = server.requests
    assert (seen.method, seen.target.removeprefix("/api")) == (method, target)
    if isinstance(body, bytes) or body is None:
        assert seen.body == (body or b"")
    else:
        assert seen.json == body


async def test_an_update_of_the_state_waits_for_several_steps(serve: Any) -> None:
    server = await serve(lambda seen: answer(200, {"workflowId": "w"}))
    async with AsyncWorkflowClient(Configuration(server.url)) as workflows:
        update = WorkflowStateUpdate("r", variables={"v": 1})
        assert (await workflows.update_state("w", update, ["a", "b"], 7)).workflow_id == "w"
    (seen,) = server.requests
    assert seen.target.startswith("/api/workflow/w/state?requestId=")
    assert seen.target.endswith("&waitUntilTaskRef=a%2Cb&waitForSeconds=7")
    assert seen.json == {"taskReferenceName": "r", "variables": {"v": 1}}


async def test_a_rate_limit_is_a_tag_and_replaces_the_one_before(serve: Any) -> None:
    limit = {"key": "orders", "type": "RATE_LIMIT", "value": 3}
    other = {"key": "team", "type": "METADATA", "value": "shop"}
    server = await serve(lambda seen: answer(200, [limit, other] if seen.method == "GET" else b""))
    async with AsyncMetadataClient(Configuration(server.url)) as metadata:
        assert await metadata.getWorkflowRateLimit("orders") == 3
        await metadata.setWorkflowRateLimit(5, "orders")
    changes = [(seen.method, seen.json) for seen in server.requests if seen.method != "GET"]
    assert changes == [("DELETE", limit), ("POST", {**limit, "value": 5})]


async def test_without_a_limit_a_request_has_no_limit_parameter(serve: Any) -> None:
    server = await serve(lambda seen: answer(200, []))
    async with AsyncMetadataClient(Configuration(server.url)) as metadata:
        assert await metadata.getWorkflowRateLimit("orders") is None


@pytest.mark.parametrize(
    ("client", "call", "who"),
    [
        (AsyncSchedulerClient, lambda c: c.get_schedule("s"), "Conductor 3.32 and newer"),
        (AsyncPromptClient, lambda c: c.get_prompts(), "Orkes Conductor"),
        (AsyncMetadataClient, lambda c: c.get_workflow_tags("w"), "Orkes Conductor"),
    ],
)
async def test_a_server_without_the_endpoint_is_named_as_such(serve: Any, client: Any, call: Any, who: Any) -> None:
    server = await serve(lambda seen: answer(404, {"status": 404, "message": "No static resource api/x."}))
    async with client(Configuration(server.url)) as api:
        with pytest.raises(NotFoundException, match=f"this server has no [A-Z]+ /.*, which {who} has"):
            await call(api)


async def test_a_path_that_is_there_for_another_verb_is_no_endpoint_either(serve: Any) -> None:
    server = await serve(lambda seen: answer(405, {"status": 405, "message": "Request method 'POST' is not supported"}))
    async with AsyncMetadataClient(Configuration(server.url)) as metadata:
        with pytest.raises(NotFoundException, match="this server has no POST /metadata/workflow/{name}/tags"):
            await metadata.add_workflow_tag(TagObject("a", "METADATA", "b"), "w")


async def test_a_thing_that_is_not_there_stays_a_thing_that_is_not_there(serve: Any) -> None:
    server = await serve(lambda seen: answer(404, {"status": 404, "message": "No schedule called s"}))
    async with AsyncSchedulerClient(Configuration(server.url)) as schedules:
        with pytest.raises(NotFoundException, match="No schedule called s"):
            await schedules.get_schedule("s")


class TestAllClients:
    def test_all_clients_have_one_name_for_each_of_conductor_pythons_names(self) -> None:
        assert ConductorClients is OrkesClients

    @pytest.mark.parametrize(
        "name", ["authorization", "event", "integration", "metadata", "prompt", "scheduler", "schema", "secret", "task"]
    )
    def test_all_clients_share_one_connection_to_the_server(self, name: str) -> None:
        clients = OrkesClients(Configuration("http://localhost:1/api"))
        made = getattr(clients, f"get_{name}_client")()
        assert made.asynchronous.api_client is clients.get_workflow_client().asynchronous.api_client

    def test_the_executor_shares_it_too(self) -> None:
        clients = OrkesClients(Configuration("http://localhost:1/api"))
        executor = clients.get_workflow_executor()
        api_client = clients.get_workflow_client().asynchronous.api_client
        assert executor.workflow_client.asynchronous.api_client is api_client

    def test_agents_are_refused_by_name(self) -> None:
        with pytest.raises(NotImplementedError, match="agents .* are not part"):
            OrkesClients(Configuration("http://localhost:1/api")).get_agent_client()

    def test_a_collector_counts_the_requests(self) -> None:
        counted: list[Any] = []

        class Collector:
            def on_request(self, *args: Any) -> None:
                counted.append(args[:2])

        clients = OrkesClients(Configuration("http://localhost:1/api"), metrics_collector=Collector())
        with pytest.raises(Exception, match="localhost"):
            clients.get_metadata_client().get_all_task_defs()
        assert counted == [("GET", "/metadata/taskdefs")]


async def test_a_kafka_topic_is_set_up_read_and_forgotten(serve: Any) -> None:
    server = await serve(lambda seen: answer(200, {} if seen.method == "GET" else b""))
    topic = KafkaQueueConfiguration("orders")
    topic.add_consumer(KafkaConsumerConfiguration("in:9092"))
    topic.add_producer(KafkaProducerConfiguration("out:9092"))
    events = EventClient(Configuration(server.url)).asynchronous
    async with events:
        await events.put_queue_configuration(topic)
        assert await events.get_kafka_queue_configuration("orders") == {}
        await events.delete_queue_configuration(topic)
    assert {seen.target for seen in server.requests} == {"/api/event/queue/config/kafka/orders"}
    assert [seen.method for seen in server.requests] == ["PUT", "GET", "DELETE"]
    sides = {"consumer": {"bootstrap.servers": "in:9092"}, "producer": {"bootstrap.servers": "out:9092"}}
    assert server.requests[0].json == sides


def test_no_operation_is_without_a_case() -> None:
    clients = (
        AsyncAuthorizationClient,
        AsyncIntegrationClient,
        AsyncPromptClient,
        AsyncSchedulerClient,
        AsyncSecretClient,
    )
    for client in clients:
        assert {name for name in dir(client) if not name.startswith("_")} - OPERATIONS <= {"close", "only_on"}
