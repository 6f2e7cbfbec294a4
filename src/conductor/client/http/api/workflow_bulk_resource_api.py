from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.bulk_response import BulkResponse


class WorkflowBulkResourceApi(GeneratedApi):
    """Operations on many workflows in one call."""

    pause_workflow = generated("PUT", "/workflow/bulk/pause", "body", returns=BulkResponse)
    restart = generated("POST", "/workflow/bulk/restart", "body, *, use_latest_definitions", returns=BulkResponse)
    resume_workflow = generated("PUT", "/workflow/bulk/resume", "body", returns=BulkResponse)
    retry = generated("POST", "/workflow/bulk/retry", "body", returns=BulkResponse)
    terminate = generated(
        "POST", "/workflow/bulk/terminate", "body, *, reason, trigger_failure_workflow", returns=BulkResponse
    )
