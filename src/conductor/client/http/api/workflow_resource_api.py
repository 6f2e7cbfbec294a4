from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.scrollable_search_result_workflow_summary import ScrollableSearchResultWorkflowSummary
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_status import WorkflowStatus


class WorkflowResourceApi(GeneratedApi):
    """Workflows: start, read, control."""

    decide = generated("PUT", "/workflow/decide/{workflowId}", "workflow_id")
    delete = generated("DELETE", "/workflow/{workflowId}/remove", "workflow_id, *, archive_workflow")
    execute_workflow = generated(
        "POST",
        "/workflow/execute/{name}/{version}",
        "body, request_id, name, version, *, wait_until_task_ref, wait_for_seconds",
        returns=Workflow,
    )
    execute_workflow_as_api = generated(
        "POST",
        "/workflow/execute/{name}",
        "body, name, *, version, request_id, wait_until_task_ref, wait_for_seconds",
        returns=dict[str, Any],
    )
    execute_workflow_as_get_api = generated(
        "GET",
        "/workflow/execute/{name}",
        "name, *, version, request_id, wait_until_task_ref, wait_for_seconds",
        returns=dict[str, Any],
    )
    execute_workflow_with_return_strategy = generated(
        "POST",
        "/workflow/execute/{name}/{version}",
        "body, name, version, *, request_id, wait_until_task_ref, wait_for_seconds, consistency, return_strategy",
        returns=SignalResponse,
    )
    get_execution_status = generated(
        "GET", "/workflow/{workflowId}", "workflow_id, *, include_tasks, summarize", returns=Workflow
    )
    get_execution_status_task_list = generated(
        "GET", "/workflow/{workflowId}/tasks", "workflow_id, *, start, count, status"
    )
    get_running_workflow = generated(
        "GET", "/workflow/running/{name}", "name, *, version, start_time, end_time", returns=list[str]
    )
    get_workflow_status_summary = generated(
        "GET",
        "/workflow/{workflowId}/status",
        "workflow_id, *, include_output, include_variables",
        returns=WorkflowStatus,
    )
    get_workflows = generated(
        "POST",
        "/workflow/{name}/correlated",
        "body, name, *, include_closed, include_tasks",
        returns=dict[str, list[Workflow]],
    )
    get_workflows2 = generated(
        "GET",
        "/workflow/{name}/correlated/{correlationId}",
        "name, correlation_id, *, include_closed, include_tasks",
        returns=list[Workflow],
    )
    get_workflows_batch = generated(
        "POST",
        "/workflow/correlated/batch",
        "body, *, include_closed, include_tasks",
        returns=dict[str, list[Workflow]],
    )
    get_workflows_by_correlation_id_in_batch = generated(
        "POST",
        "/workflow/correlated/batch",
        "body, *, include_closed, include_tasks",
        returns=dict[str, list[Workflow]],
    )
    jump_to_task = generated(
        "POST", "/workflow/{workflowId}/jump/{taskReferenceName}", "body, workflow_id, task_reference_name"
    )
    pause_workflow = generated("PUT", "/workflow/{workflowId}/pause", "workflow_id")
    pause_workflow1 = pause_workflow
    rerun = generated("POST", "/workflow/{workflowId}/rerun", "body, workflow_id", returns=str)
    reset_workflow = generated("POST", "/workflow/{workflowId}/resetcallbacks", "workflow_id")
    restart = generated("POST", "/workflow/{workflowId}/restart", "workflow_id, *, use_latest_definitions")
    restart1 = restart
    resume_workflow = generated("PUT", "/workflow/{workflowId}/resume", "workflow_id")
    resume_workflow1 = resume_workflow
    retry = generated(
        "POST", "/workflow/{workflowId}/retry", "workflow_id, *, resume_subworkflow_tasks, retry_if_retried_by_parent"
    )
    retry1 = retry
    search = generated(
        "GET",
        "/workflow/search",
        "*, query_id, start, size, sort, free_text, query, skip_cache",
        returns=ScrollableSearchResultWorkflowSummary,
    )
    send_workflow_message = generated("POST", "/workflow/{workflowId}/messages", "body, workflow_id", returns=str)
    skip_task_from_workflow = generated(
        "PUT",
        "/workflow/{workflowId}/skiptask/{taskReferenceName}",
        "workflow_id, task_reference_name, skip_task_request",
        body="skip_task_request",
    )
    start_workflow = generated("POST", "/workflow", "body", returns=str)
    start_workflow1 = generated(
        "POST", "/workflow/{name}", "body, name, *, version, correlation_id, priority", returns=str
    )
    terminate = generated("DELETE", "/workflow/{workflowId}", "workflow_id, *, reason, trigger_failure_workflow")
    terminate1 = terminate
    test_workflow = generated("POST", "/workflow/test", "body", returns=Workflow)
    update_workflow_and_task_state = generated(
        "POST",
        "/workflow/{workflowId}/state",
        "update_requesst, workflow_id, *, request_id, wait_until_task_ref, wait_for_seconds",
        body="update_requesst",
        returns=Workflow,
    )
    update_workflow_state = generated("POST", "/workflow/{workflowId}/variables", "body, workflow_id", returns=Workflow)
    upgrade_running_workflow_to_version = generated("POST", "/workflow/{workflowId}/upgrade", "body, workflow_id")
