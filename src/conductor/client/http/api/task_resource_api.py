"""`/tasks`: poll, report, read, and look at queues.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.endpoint import GeneratedApi, endpoint
from conductor.client.http.models.external_storage_location import ExternalStorageLocation
from conductor.client.http.models.poll_data import PollData
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_summary import TaskSummary
from conductor.client.http.models.workflow import Workflow


class TaskResourceApi(GeneratedApi):
    """`/tasks`: poll, report, read, and look at queues. Each is one blocking call."""

    all = endpoint("GET", "/tasks/queue/all", returns=dict[str, int])
    all_verbose = endpoint("GET", "/tasks/queue/all/verbose", returns=dict[str, Any])
    batch_poll = endpoint(
        "GET", "/tasks/poll/batch/{tasktype}", "tasktype", query="workerid domain count timeout", returns=list[Task]
    )
    get_all_poll_data = endpoint("GET", "/tasks/queue/polldata/all", returns=list[PollData])
    get_external_storage_location1 = endpoint(
        "GET", "/tasks/externalstoragelocation", "path", "operation", "payload_type", returns=ExternalStorageLocation
    )
    get_poll_data = endpoint("GET", "/tasks/queue/polldata", "task_type", returns=list[PollData])
    get_task = endpoint("GET", "/tasks/{taskId}", "task_id", returns=Task)
    get_task_logs = endpoint("GET", "/tasks/{taskId}/log", "task_id", returns=list[TaskExecLog])
    log = endpoint("POST", "/tasks/{taskId}/log", "body", "task_id", text=True)
    poll = endpoint("GET", "/tasks/poll/{tasktype}", "tasktype", query="workerid domain", returns=Task)
    requeue_pending_task = endpoint("POST", "/tasks/queue/requeue/{taskType}", "task_type", returns=str)
    search1 = endpoint(
        "GET", "/tasks/search", query="start size sort free_text query", returns=SearchResult[TaskSummary]
    )
    search_v21 = endpoint(
        "GET", "/tasks/search-v2", query="start size sort free_text query", returns=SearchResult[Task]
    )
    signal_workflow_task_async = endpoint(
        "POST", "/tasks/{workflowId}/{status}/signal", "workflow_id", "status", "body"
    )
    signal_workflow_task_sync = endpoint(
        "POST",
        "/tasks/{workflowId}/{status}/signal/sync",
        "workflow_id",
        "status",
        "body",
        query="return_strategy",
        returns=SignalResponse,
    )
    size = endpoint("GET", "/tasks/queue/sizes", query="task_type", returns=dict[str, int])
    update_task = endpoint("POST", "/tasks", "body", returns=str)
    update_task1 = endpoint(
        "POST",
        "/tasks/{workflowId}/{taskRefName}/{status}",
        "body",
        "workflow_id",
        "task_ref_name",
        "status",
        query="workerid",
        returns=str,
    )
    update_task_sync = endpoint(
        "POST",
        "/tasks/{workflowId}/{taskRefName}/{status}/sync",
        "body",
        "workflow_id",
        "task_ref_name",
        "status",
        query="workerid",
        returns=Workflow,
    )
    update_task_v2 = endpoint("POST", "/tasks/update-v2", "body", returns=Task)
