from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.external_storage_location import ExternalStorageLocation
from conductor.client.http.models.poll_data import PollData
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_summary import TaskSummary
from conductor.client.http.models.workflow import Workflow


class TaskResourceApi(GeneratedApi):
    """Tasks: poll, report, read, inspect queues."""

    all = generated("GET", "/tasks/queue/all", returns=dict[str, int])
    all_verbose = generated("GET", "/tasks/queue/all/verbose", returns=dict[str, Any])
    batch_poll = generated(
        "GET", "/tasks/poll/batch/{tasktype}", "tasktype, *, workerid, domain, count, timeout", returns=list[Task]
    )
    get_all_poll_data = generated("GET", "/tasks/queue/polldata/all", returns=list[PollData])
    get_external_storage_location1 = generated(
        "GET", "/tasks/externalstoragelocation", "path, operation, payload_type", returns=ExternalStorageLocation
    )
    get_poll_data = generated("GET", "/tasks/queue/polldata", "task_type", returns=list[PollData])
    get_task = generated("GET", "/tasks/{taskId}", "task_id", returns=Task)
    get_task_logs = generated("GET", "/tasks/{taskId}/log", "task_id", returns=list[TaskExecLog])
    log = generated("POST", "/tasks/{taskId}/log", "body, task_id", as_text=True)
    poll = generated("GET", "/tasks/poll/{tasktype}", "tasktype, *, workerid, domain", returns=Task)
    requeue_pending_task = generated("POST", "/tasks/queue/requeue/{taskType}", "task_type", returns=str)
    search1 = generated(
        "GET", "/tasks/search", "*, start, size, sort, free_text, query", returns=SearchResult[TaskSummary]
    )
    search_v21 = generated(
        "GET", "/tasks/search-v2", "*, start, size, sort, free_text, query", returns=SearchResult[Task]
    )
    signal_workflow_task_async = generated("POST", "/tasks/{workflowId}/{status}/signal", "workflow_id, status, body")
    signal_workflow_task_sync = generated(
        "POST",
        "/tasks/{workflowId}/{status}/signal/sync",
        "workflow_id, status, body, *, return_strategy",
        returns=SignalResponse,
    )
    size = generated("GET", "/tasks/queue/sizes", "*, task_type", returns=dict[str, int])
    update_task = generated("POST", "/tasks", "body", returns=str)
    update_task1 = generated(
        "POST",
        "/tasks/{workflowId}/{taskRefName}/{status}",
        "body, workflow_id, task_ref_name, status, *, workerid",
        returns=str,
    )
    update_task_sync = generated(
        "POST",
        "/tasks/{workflowId}/{taskRefName}/{status}/sync",
        "body, workflow_id, task_ref_name, status, *, workerid",
        returns=Workflow,
    )
    update_task_v2 = generated("POST", "/tasks/update-v2", "body", returns=Task)
