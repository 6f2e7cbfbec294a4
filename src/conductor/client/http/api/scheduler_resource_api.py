from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.tag_object import TagObject
from conductor.client.http.models.workflow_schedule import WorkflowSchedule
from conductor.client.http.models.workflow_schedule_execution_model import WorkflowScheduleExecutionModel


class SchedulerResourceApi(GeneratedApi):
    """Workflows that start on a schedule."""

    delete_schedule = generated("DELETE", "/scheduler/schedules/{name}", "name")
    delete_tag_for_schedule = generated("DELETE", "/scheduler/schedules/{name}/tags", "body, name")
    get_all_schedules = generated("GET", "/scheduler/schedules", "*, workflow_name", returns=list[WorkflowSchedule])
    get_next_few_schedules = generated(
        "GET",
        "/scheduler/nextFewSchedules",
        "cron_expression, *, schedule_start_time, schedule_end_time, limit",
        returns=list[int],
    )
    get_schedule = generated("GET", "/scheduler/schedules/{name}", "name", returns=WorkflowSchedule)
    get_tags_for_schedule = generated("GET", "/scheduler/schedules/{name}/tags", "name", returns=list[TagObject])
    pause_all_schedules = generated("GET", "/scheduler/admin/pause", returns=dict[str, Any])
    pause_schedule = generated("PUT", "/scheduler/schedules/{name}/pause", "name, *, reason")
    put_tag_for_schedule = generated("PUT", "/scheduler/schedules/{name}/tags", "body, name")
    requeue_all_execution_records = generated("GET", "/scheduler/admin/requeue", returns=dict[str, Any])
    resume_all_schedules = generated("GET", "/scheduler/admin/resume", returns=dict[str, Any])
    resume_schedule = generated("PUT", "/scheduler/schedules/{name}/resume", "name")
    save_schedule = generated("POST", "/scheduler/schedules", "body")
    search_v21 = generated(
        "GET",
        "/scheduler/search/executions",
        "*, start, size, sort, free_text, query",
        returns=SearchResult[WorkflowScheduleExecutionModel],
    )
    test_timeout = generated("GET", "/scheduler/test/timeout")
