"""`/workflow/bulk`: many executions at once.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.bulk_response import BulkResponse


class WorkflowBulkResourceApi(GeneratedApi):
    """`/workflow/bulk`: many executions at once. Each is one blocking call."""

    pause_workflow = generated("PUT", "/workflow/bulk/pause", "body", returns=BulkResponse)
    restart = generated("POST", "/workflow/bulk/restart", "body, *, use_latest_definitions", returns=BulkResponse)
    resume_workflow = generated("PUT", "/workflow/bulk/resume", "body", returns=BulkResponse)
    retry = generated("POST", "/workflow/bulk/retry", "body", returns=BulkResponse)
    terminate = generated(
        "POST", "/workflow/bulk/terminate", "body, *, reason, trigger_failure_workflow", returns=BulkResponse
    )
