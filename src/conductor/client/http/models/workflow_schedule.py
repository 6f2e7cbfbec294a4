from conductor.client.http.models.cron_schedule import CronSchedule
from conductor.client.http.models.model import Model
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.tag_object import TagObject


class WorkflowSchedule(Model, kw_only=True):
    """A schedule stored on a server. Times are epoch milliseconds."""

    name: str | None = None
    cron_expression: str | None = None
    run_catchup_schedule_instances: bool | None = None
    paused: bool | None = None
    start_workflow_request: StartWorkflowRequest | None = None
    schedule_start_time: int | None = None
    schedule_end_time: int | None = None
    create_time: int | None = None
    updated_time: int | None = None
    created_by: str | None = None
    updated_by: str | None = None
    zone_id: str | None = None
    tags: list[TagObject] | None = None
    paused_reason: str | None = None
    description: str | None = None
    next_run_time: int | None = None
    #: Several cron expressions, in place of `cron_expression`.
    cron_schedules: list[CronSchedule] | None = None
