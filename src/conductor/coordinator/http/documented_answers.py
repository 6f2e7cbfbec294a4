"""The type of each route's answer, for the OpenAPI document. Most types are the client's models."""

from __future__ import annotations

from typing import Any

from conductor.client.http.models.bulk_response import BulkResponse
from conductor.client.http.models.event_handler import EventHandler
from conductor.client.http.models.poll_data import PollData
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.signal_response import SignalResponse
from conductor.client.http.models.task import Task
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.task_exec_log import TaskExecLog
from conductor.client.http.models.task_summary import TaskSummary
from conductor.client.http.models.workflow import Workflow
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_schedule import WorkflowSchedule
from conductor.client.http.models.workflow_schedule_execution_model import WorkflowScheduleExecutionModel
from conductor.client.http.models.workflow_status import WorkflowStatus
from conductor.client.http.models.workflow_summary import WorkflowSummary
from conductor.coordinator.keys.key_store import NewSecret
from conductor.protocol.json_types import JsonObject


class PlainText:
    """An answer in plain text, such as an id."""


class NoBody:
    """An answer with status 204."""


_COUNTS = dict[str, int]

#: Method and path → type of the answer. The document describes the answers of other routes as 200 without a body.
ANSWERS: dict[str, Any] = {
    "GET /api/tasks/poll/{type}": Task,
    "GET /api/tasks/poll/batch/{type}": list[Task],
    "POST /api/tasks/poll/batch/{type}": list[Task],
    "GET /api/tasks/queue/size": int,
    "GET /api/tasks/queue/sizes": _COUNTS,
    "GET /api/tasks/queue/all": _COUNTS,
    "GET /api/tasks/queue/all/verbose": dict[str, dict[str, _COUNTS]],
    "GET /api/tasks/queue/polldata": list[PollData],
    "GET /api/tasks/queue/polldata/all": list[PollData],
    "POST /api/tasks/queue/requeue/{type}": PlainText,
    "GET /api/tasks/{taskId}": Task,
    "GET /api/tasks/{taskId}/log": list[TaskExecLog],
    "POST /api/tasks": PlainText,
    "POST /api/tasks/update-v2": Task,
    "POST /api/tasks/reports": list[JsonObject],
    "POST /api/tasks/{workflowId}/{ref}/{status}": PlainText,
    "POST /api/tasks/{workflowId}/{ref}/{status}/sync": Workflow,
    "POST /api/tasks/{workflowId}/{status}/signal/sync": SignalResponse,
    "GET /api/tasks/search": SearchResult[TaskSummary],
    "GET /api/tasks/search-v2": SearchResult[Task],
    "GET /api/metadata/taskdefs": list[TaskDef],
    "GET /api/metadata/taskdefs/{name}": TaskDef,
    "PUT /api/metadata/workflow": BulkResponse,
    "GET /api/metadata/workflow": list[WorkflowDef],
    "GET /api/metadata/workflow/names": list[str],
    "GET /api/metadata/workflow/names-and-versions": dict[str, list[JsonObject]],
    "GET /api/metadata/workflow/latest-versions": list[WorkflowDef],
    "GET /api/metadata/workflow/{name}": WorkflowDef,
    "GET /api/metadata/workflow/{name}/versions": list[WorkflowDef],
    "GET /api/schema": list[JsonObject],
    "GET /api/schema/{name}": JsonObject,
    "GET /api/schema/{name}/{version}": JsonObject,
    "POST /api/workflow": PlainText,
    "POST /api/workflow/{name}": PlainText,
    "POST /api/workflow/test": Workflow,
    "POST /api/workflow/execute/{name}/{version}": SignalResponse,
    "GET /api/workflow/{id}": Workflow,
    "POST /api/workflow/{id}/messages": PlainText,
    "PUT /api/workflow/{id}/variables": Workflow,
    "POST /api/workflow/{id}/variables": Workflow,
    "GET /api/workflow/{id}/status": WorkflowStatus,
    "GET /api/workflow/{id}/tasks": SearchResult[Task],
    "GET /api/workflow/running/{name}": list[str],
    "GET /api/workflow/{name}/correlated/{correlationId}": list[Workflow],
    "POST /api/workflow/{name}/correlated": dict[str, list[Workflow]],
    "GET /api/workflow/search": SearchResult[WorkflowSummary],
    "GET /api/workflow/search-v2": SearchResult[Workflow],
    "GET /api/workflow/search-by-tasks": SearchResult[WorkflowSummary],
    "GET /api/workflow/search-by-tasks-v2": SearchResult[Workflow],
    "POST /api/workflow/{id}/retry": NoBody,
    "POST /api/workflow/{id}/restart": NoBody,
    "POST /api/workflow/{id}/resetcallbacks": NoBody,
    "POST /api/workflow/{id}/rerun": PlainText,
    "PUT /api/workflow/bulk/pause": BulkResponse,
    "PUT /api/workflow/bulk/resume": BulkResponse,
    "POST /api/workflow/bulk/retry": BulkResponse,
    "POST /api/workflow/bulk/restart": BulkResponse,
    "POST /api/workflow/bulk/terminate": BulkResponse,
    "DELETE /api/workflow/bulk/remove": BulkResponse,
    "DELETE /api/workflow/bulk/terminate-remove": BulkResponse,
    "POST /api/workflow/bulk/search": JsonObject,
    "POST /api/scheduler/schedules": WorkflowSchedule,
    "GET /api/scheduler/schedules": list[WorkflowSchedule],
    "GET /api/scheduler/schedules/search": SearchResult[WorkflowSchedule],
    "GET /api/scheduler/schedules/{name}": WorkflowSchedule,
    "PUT /api/scheduler/bulk/pause": BulkResponse,
    "PUT /api/scheduler/bulk/resume": BulkResponse,
    "GET /api/scheduler/admin/pause": dict[str, str],
    "GET /api/scheduler/admin/resume": dict[str, str],
    "GET /api/scheduler/admin/requeue": JsonObject,
    "GET /api/scheduler/nextFewSchedules": list[int],
    "GET /api/scheduler/search/executions": SearchResult[WorkflowScheduleExecutionModel],
    "GET /api/event": list[EventHandler],
    "GET /api/event/{event}": list[EventHandler],
    "GET /api/secrets": list[str],
    "POST /api/secrets": list[str],
    "GET /api/secrets/{key}/exists": bool,
    "GET /api/keys": list[JsonObject],
    "POST /api/keys": NewSecret,
    "POST /api/keys/{name}/rotate": NewSecret,
    "GET /api/view/key": JsonObject,
    "GET /api/environment": list[dict[str, str]],
    "GET /api/environment/{key}": PlainText,
    "GET /api/admin/config": JsonObject,
    "GET /api/admin/task/{type}": list[Task],
    "GET /api/admin/queues": JsonObject,
    "POST /api/admin/sweep/requeue/{workflowId}": PlainText,
    "POST /api/admin/consistency/verifyAndRepair/{workflowId}": PlainText,
    "GET /api/queue/": dict[str, str],
    "GET /api/queue/size": _COUNTS,
    "GET /api/view/events": PlainText,
    "GET /metrics": PlainText,
    "GET /api-docs": JsonObject,
    "GET /health": JsonObject,
    "GET /api/health": JsonObject,
    "GET /api/version": PlainText,
}
