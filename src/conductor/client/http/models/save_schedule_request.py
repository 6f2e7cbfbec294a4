"""The wish to start a workflow again and again."""

from __future__ import annotations

from conductor.client.http.models.cron_schedule import CronSchedule
from conductor.client.http.models.model import Model
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest


class SaveScheduleRequest(Model, kw_only=True):
    """When to start which workflow: a cron expression with seconds, and the request to start."""

    name: str | None = None
    cron_expression: str | None = None
    run_catchup_schedule_instances: bool | None = None
    paused: bool | None = None
    start_workflow_request: StartWorkflowRequest | None = None
    created_by: str | None = None
    updated_by: str | None = None
    schedule_start_time: int | None = None
    schedule_end_time: int | None = None
    zone_id: str | None = None
    description: str | None = None
    #: Several expressions, in place of the one
    cron_schedules: list[CronSchedule] | None = None
