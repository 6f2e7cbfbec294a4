"""The schedule that a workflow declares with `workflow(..., cron=...)`."""

from __future__ import annotations

from typing import NamedTuple
from zoneinfo import available_timezones

from conductor.client.http.models.save_schedule_request import SaveScheduleRequest
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.workflow.authoring_errors import WorkflowError, suggest_name


class Cron(NamedTuple):
    """The times at which a workflow starts."""

    expression: str
    time_zone: str | None

    def make_schedule(self, workflow_name: str, version: int | None) -> SaveScheduleRequest:
        """Return the schedule, which has the name of the workflow."""
        return SaveScheduleRequest(
            name=workflow_name,
            cron_expression=self.expression,
            zone_id=self.time_zone,
            start_workflow_request=StartWorkflowRequest(name=workflow_name, version=version),
        )


def read_cron(workflow_name: str, expression: str | None, time_zone: str | None) -> Cron | None:
    """Return the times of a workflow; None if it has no schedule.

    Raises:
        WorkflowError: The expression does not have six fields, or the time zone is unknown.
    """
    owner = f"workflow {workflow_name!r}"
    if expression is None:
        if time_zone is not None:
            raise WorkflowError(f"{owner} has a time_zone but no cron expression")
        return None
    if not expression.startswith("@") and len(expression.split()) != 6:
        raise WorkflowError(
            f"{owner}: a cron expression has six fields (second, minute, hour, day of month, month, day of week), such "
            f"as '0 0 2 * * *' for every day at 2:00; got {expression!r}"
        )
    zones = available_timezones()
    if time_zone is not None and zones and time_zone not in zones:
        raise WorkflowError(f"{owner}: there is no time zone {time_zone!r}; {suggest_name(time_zone, zones)}")
    return Cron(expression, time_zone)
