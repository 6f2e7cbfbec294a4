"""`/workflow/bulk`: many executions at once.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.bulk_response import BulkResponse


class WorkflowBulkResourceApi(GeneratedApi):
    """`/workflow/bulk`: many executions at once. Each is one blocking call."""

    pause_workflow = endpoint("PUT", "/workflow/bulk/pause", "body", returns=BulkResponse)
    restart = endpoint("POST", "/workflow/bulk/restart", "body", query="use_latest_definitions", returns=BulkResponse)
    resume_workflow = endpoint("PUT", "/workflow/bulk/resume", "body", returns=BulkResponse)
    retry = endpoint("POST", "/workflow/bulk/retry", "body", returns=BulkResponse)
    terminate = endpoint(
        "POST", "/workflow/bulk/terminate", "body", query="reason trigger_failure_workflow", returns=BulkResponse
    )
