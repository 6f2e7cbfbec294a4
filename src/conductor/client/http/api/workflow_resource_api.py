"""`/workflow`: start executions, look at them, and change their course.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.scrollable_search_result_workflow_summary import ScrollableSearchResultWorkflowSummary
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_status import WorkflowStatus


class WorkflowResourceApi(GeneratedApi):
    """`/workflow`: start executions, look at them, and change their course. Each is one blocking call."""

    decide = endpoint("PUT", "/workflow/decide/{workflowId}", "workflow_id")
    delete = endpoint("DELETE", "/workflow/{workflowId}/remove", "workflow_id", query="archive_workflow")
    execute_workflow = endpoint(
        "POST",
        "/workflow/execute/{name}/{version}",
        "body",
        "request_id",
        "name",
        "version",
        query="wait_until_task_ref wait_for_seconds",
        returns=Workflow,
    )
    execute_workflow_as_api = endpoint(
        "POST",
        "/workflow/execute/{name}",
        "body",
        "name",
        query="version request_id wait_until_task_ref wait_for_seconds",
        returns=dict[str, Any],
    )
    execute_workflow_as_get_api = endpoint(
        "GET",
        "/workflow/execute/{name}",
        "name",
        query="version request_id wait_until_task_ref wait_for_seconds",
        returns=dict[str, Any],
    )
    execute_workflow_with_return_strategy = endpoint(
        "POST",
        "/workflow/execute/{name}/{version}",
        "body",
        "name",
        "version",
        query="request_id wait_until_task_ref wait_for_seconds consistency return_strategy",
        returns=SignalResponse,
    )
    get_execution_status = endpoint(
        "GET", "/workflow/{workflowId}", "workflow_id", query="include_tasks summarize", returns=Workflow
    )
    get_execution_status_task_list = endpoint(
        "GET", "/workflow/{workflowId}/tasks", "workflow_id", query="start count status", returns=Any
    )
    get_running_workflow = endpoint(
        "GET", "/workflow/running/{name}", "name", query="version start_time end_time", returns=list[str]
    )
    get_workflow_status_summary = endpoint(
        "GET",
        "/workflow/{workflowId}/status",
        "workflow_id",
        query="include_output include_variables",
        returns=WorkflowStatus,
    )
    get_workflows = endpoint(
        "POST",
        "/workflow/{name}/correlated",
        "body",
        "name",
        query="include_closed include_tasks",
        returns=dict[str, list[Workflow]],
    )
    get_workflows2 = endpoint(
        "GET",
        "/workflow/{name}/correlated/{correlationId}",
        "name",
        "correlation_id",
        query="include_closed include_tasks",
        returns=list[Workflow],
    )
    get_workflows_batch = endpoint(
        "POST",
        "/workflow/correlated/batch",
        "body",
        query="include_closed include_tasks",
        returns=dict[str, list[Workflow]],
    )
    get_workflows_by_correlation_id_in_batch = endpoint(
        "POST",
        "/workflow/correlated/batch",
        "body",
        query="include_closed include_tasks",
        returns=dict[str, list[Workflow]],
    )
    jump_to_task = endpoint(
        "POST", "/workflow/{workflowId}/jump/{taskReferenceName}", "body", "workflow_id", "task_reference_name"
    )
    pause_workflow = endpoint("PUT", "/workflow/{workflowId}/pause", "workflow_id")
    pause_workflow1 = endpoint("PUT", "/workflow/{workflowId}/pause", "workflow_id")
    rerun = endpoint("POST", "/workflow/{workflowId}/rerun", "body", "workflow_id", returns=str)
    reset_workflow = endpoint("POST", "/workflow/{workflowId}/resetcallbacks", "workflow_id")
    restart = endpoint("POST", "/workflow/{workflowId}/restart", "workflow_id", query="use_latest_definitions")
    restart1 = endpoint("POST", "/workflow/{workflowId}/restart", "workflow_id", query="use_latest_definitions")
    resume_workflow = endpoint("PUT", "/workflow/{workflowId}/resume", "workflow_id")
    resume_workflow1 = endpoint("PUT", "/workflow/{workflowId}/resume", "workflow_id")
    retry = endpoint(
        "POST",
        "/workflow/{workflowId}/retry",
        "workflow_id",
        query="resume_subworkflow_tasks retry_if_retried_by_parent",
    )
    retry1 = endpoint(
        "POST",
        "/workflow/{workflowId}/retry",
        "workflow_id",
        query="resume_subworkflow_tasks retry_if_retried_by_parent",
    )
    search = endpoint(
        "GET",
        "/workflow/search",
        query="query_id start size sort free_text query skip_cache",
        returns=ScrollableSearchResultWorkflowSummary,
    )
    send_workflow_message = endpoint("POST", "/workflow/{workflowId}/messages", "body", "workflow_id", returns=str)
    skip_task_from_workflow = endpoint(
        "PUT",
        "/workflow/{workflowId}/skiptask/{taskReferenceName}",
        "workflow_id",
        "task_reference_name",
        "skip_task_request",
        body="skip_task_request",
    )
    start_workflow = endpoint("POST", "/workflow", "body", returns=str)
    start_workflow1 = endpoint(
        "POST", "/workflow/{name}", "body", "name", query="version correlation_id priority", returns=str
    )
    terminate = endpoint("DELETE", "/workflow/{workflowId}", "workflow_id", query="reason trigger_failure_workflow")
    terminate1 = endpoint("DELETE", "/workflow/{workflowId}", "workflow_id", query="reason trigger_failure_workflow")
    test_workflow = endpoint("POST", "/workflow/test", "body", returns=Workflow)
    update_workflow_and_task_state = endpoint(
        "POST",
        "/workflow/{workflowId}/state",
        "update_requesst",
        "workflow_id",
        query="request_id wait_until_task_ref wait_for_seconds",
        body="update_requesst",
        returns=Workflow,
    )
    update_workflow_state = endpoint(
        "POST", "/workflow/{workflowId}/variables", "body", "workflow_id", returns=Workflow
    )
    upgrade_running_workflow_to_version = endpoint("POST", "/workflow/{workflowId}/upgrade", "body", "workflow_id")
