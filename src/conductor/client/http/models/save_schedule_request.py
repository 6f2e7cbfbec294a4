from conductor.client.http.models.cron_schedule import CronSchedule
from conductor.client.http.models.model import Model
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest


class SaveScheduleRequest(Model, kw_only=True):
    """A schedule to store: a cron expression with seconds, and the workflow to start."""

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
    #: Several cron expressions, in place of `cron_expression`.
    cron_schedules: list[CronSchedule] | None = None
