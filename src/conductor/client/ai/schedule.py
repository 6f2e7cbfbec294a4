"""Schedules of one workflow, with names that are unique only within that workflow.

`SchedulerClient.reconcile` stores `Schedule` objects. `SchedulerClient.run_now` takes a `ScheduleInfo`, which describes
a stored schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.workflow_schedule import WorkflowSchedule
from conductor.protocol.json_types import JsonObject


@dataclass(frozen=True)
class Schedule:
    """When a workflow starts. Times are epoch milliseconds.

    Example:
        Schedule("nightly", "0 0 2 * * *", timezone="Europe/Berlin")

    Attributes:
        name: Unique among the schedules of a workflow. The name on the server is `<workflow>-<name>`.
    """

    name: str
    cron: str
    timezone: str = "UTC"
    input: JsonObject = field(default_factory=dict)
    catchup: bool = False
    paused: bool = False
    start_at: int | None = None
    end_at: int | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        """Reject values that no server accepts."""
        if not self.name.strip():
            raise ValueError("the name of a schedule is empty")
        if not self.cron.strip():
            raise ValueError(f"the cron expression of schedule {self.name!r} is empty")
        if self.start_at is not None and self.end_at is not None and self.start_at >= self.end_at:
            raise ValueError(f"schedule {self.name!r} ends at {self.end_at}, which is not after {self.start_at}")

    def to_save_request(self, workflow: str) -> SaveScheduleRequest:
        """Return the request that stores this schedule for a workflow."""
        return SaveScheduleRequest(
            name=server_name(workflow, self.name),
            cron_expression=self.cron,
            zone_id=self.timezone,
            run_catchup_schedule_instances=self.catchup,
            paused=self.paused,
            schedule_start_time=self.start_at,
            schedule_end_time=self.end_at,
            description=self.description,
            start_workflow_request=StartWorkflowRequest(name=workflow, input=dict(self.input)),
        )


@dataclass(frozen=True)
class ScheduleInfo:
    """A schedule that is stored on a server. Times are epoch milliseconds.

    Attributes:
        name: The name on the server.
        short_name: The name among the schedules of the workflow.
        agent: The workflow that the schedule starts.
    """

    name: str
    short_name: str
    agent: str
    cron: str
    timezone: str
    input: JsonObject
    paused: bool
    paused_reason: str | None
    catchup: bool
    start_at: int | None
    end_at: int | None
    description: str | None
    next_run: int | None
    create_time: int | None
    update_time: int | None
    created_by: str | None
    updated_by: str | None

    @classmethod
    def of(cls, found: WorkflowSchedule) -> ScheduleInfo:
        """Return the schedule for an answer of `SchedulerClient.get_schedule`."""
        start = found.start_workflow_request or StartWorkflowRequest(name="")
        name, workflow = found.name or "", start.name or ""
        return cls(
            name=name,
            short_name=name.removeprefix(server_name(workflow, "")),
            agent=workflow,
            cron=found.cron_expression or "",
            timezone=found.zone_id or "UTC",
            input=dict(start.input or {}),
            paused=bool(found.paused),
            paused_reason=found.paused_reason,
            catchup=bool(found.run_catchup_schedule_instances),
            start_at=found.schedule_start_time,
            end_at=found.schedule_end_time,
            description=found.description,
            next_run=found.next_run_time,
            create_time=found.create_time,
            update_time=found.updated_time,
            created_by=found.created_by,
            updated_by=found.updated_by,
        )


def server_name(workflow: str, short_name: str) -> str:
    """Return the name of a schedule on the server."""
    return f"{workflow}-{short_name}"
