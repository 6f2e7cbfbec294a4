"""A schedule: its fields, its next due time, and its JSON."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from conductor.coordinator.language.cron import CronError, read_cron, read_zone
from conductor.coordinator.limits import MAKE_UP_MS, MAX_CRON_SCHEDULES, MAX_MISSED_COUNTED
from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.workflows.effects import Start, check_start
from conductor.protocol.json_types import JsonObject

UTC_ZONE = "UTC"

_EpochMs = Annotated[int, Meta(ge=0, lt=2**53)]


class CronSchedule(msgspec.Struct, rename="camel", kw_only=True):
    """A cron expression of a schedule, and its time zone."""

    cron_expression: str
    zone_id: str | None = UTC_ZONE

    @property
    def zone(self) -> str:
        """The name of the time zone."""
        return self.zone_id or UTC_ZONE


class Schedule(msgspec.Struct, rename="camel", kw_only=True):
    """A schedule, as a client sends it and as the store holds it: the workflow to start, and when."""

    name: str | None = None
    cron_expression: str | None = None
    run_catchup_schedule_instances: bool = False
    paused: bool = False
    paused_reason: str | None = None
    start_workflow_request: Start | None = None
    zone_id: str | None = UTC_ZONE
    cron_schedules: list[CronSchedule] | None = None
    schedule_start_time: _EpochMs | None = None
    schedule_end_time: _EpochMs | None = None
    created_by: str | None = None
    updated_by: str | None = None
    description: str | None = None

    @property
    def crons(self) -> list[CronSchedule]:
        """The cron expressions: `cron_schedules` if it is set, else `cron_expression` alone."""
        if self.cron_schedules:
            return self.cron_schedules
        if not self.cron_expression:
            return []
        return [CronSchedule(cron_expression=self.cron_expression, zone_id=self.zone_id)]

    @property
    def start(self) -> Start:
        """The start request, which `check` has validated."""
        return self.start_workflow_request or Start()

    def check(self) -> None:
        """Raise an ApiError if the schedule is invalid."""
        if not (self.name or "").strip():
            raise bad_request("a schedule needs a name")
        if not (self.start.name or "").strip():
            raise bad_request("a schedule needs startWorkflowRequest.name, the workflow to start")
        if not self.crons:
            raise bad_request("a schedule needs a cronExpression, or cronSchedules")
        if len(self.crons) > MAX_CRON_SCHEDULES:
            raise bad_request(f"a schedule has at most {MAX_CRON_SCHEDULES} cronSchedules, not {len(self.crons)}")
        for cron in self.crons:
            _check_cron(cron)
        starts_ms, ends_ms = self.schedule_start_time, self.schedule_end_time
        if starts_ms is not None and ends_ms is not None and ends_ms < starts_ms:
            raise bad_request(f"scheduleEndTime {ends_ms} is before scheduleStartTime {starts_ms}")
        check_start(self.start)

    def next_due(self, position: int, last_ms: int, now_ms: int) -> int | None:
        """Return when the expression at `position` is due next, or None if it never is.

        Without catch-up, due times more than `MAKE_UP_MS` in the past are left out. The result is always after
        `last_ms`, even if the clock was set back, so no time is due twice.
        """
        catches_up = self.run_catchup_schedule_instances
        return self._first_after(position, last_ms if catches_up else max(last_ms, now_ms - MAKE_UP_MS))

    def count_missed(self, position: int, last_ms: int, next_ms: int | None, now_ms: int) -> int:
        """Count the due times that were missed between two runs, up to `MAX_MISSED_COUNTED`.

        Args:
            position: The index of the cron expression in the schedule.
            last_ms: The due time of the last run.
            next_ms: The due time of the next run; None if there is no next run.
            now_ms: The current time. A due time in the future is not missed.
        """
        if now_ms - last_ms <= MAKE_UP_MS:
            return 0
        ends_ms = now_ms + 1 if next_ms is None else min(next_ms, now_ms + 1)
        count, at_ms = 0, self._first_after(position, last_ms)
        while at_ms is not None and at_ms < ends_ms and count < MAX_MISSED_COUNTED:
            count, at_ms = count + 1, self._first_after(position, at_ms)
        return count

    def _first_after(self, position: int, after_ms: int) -> int | None:
        """Return the first due time after `after_ms` within the start and end of the schedule."""
        cron = self.crons[position]
        if self.schedule_start_time is not None:
            after_ms = max(after_ms, self.schedule_start_time - 1)
        found = read_cron(cron.cron_expression).next(after_ms, read_zone(cron.zone))
        if found is None or (self.schedule_end_time is not None and found > self.schedule_end_time):
            return None
        return found


def _check_cron(cron: CronSchedule) -> None:
    try:
        read_cron(cron.cron_expression)
        read_zone(cron.zone)
    except CronError as error:
        raise bad_request(str(error)) from error


def next_due_times(expression: str, now_ms: int, starts_ms: int | None, ends_ms: int | None, count: int) -> list[int]:
    """Return the next `count` times at which an expression would be due, in UTC."""
    cron = CronSchedule(cron_expression=expression)
    _check_cron(cron)
    schedule = Schedule(cron_schedules=[cron], schedule_start_time=starts_ms, schedule_end_time=ends_ms)
    found: list[int] = []
    at_ms = now_ms
    while len(found) < count and (due_ms := schedule.next_due(0, at_ms, now_ms)) is not None:
        found.append(due_ms)
        at_ms = due_ms
    return found


def view_start_request(start: Start) -> JsonObject:
    """Return a start request as Conductor shows it."""
    fields = {name: value for name, value in msgspec.to_builtins(start).items() if value is not None}
    return {**fields, "taskToDomain": fields.get("taskToDomain", {})}


def view_schedule(schedule: Schedule, created_ms: int, updated_ms: int, next_ms: int | None) -> JsonObject:
    """Return a schedule as Conductor shows it."""
    fields = msgspec.to_builtins(schedule) | {
        "startWorkflowRequest": view_start_request(schedule.start),
        "cronSchedules": msgspec.to_builtins(schedule.cron_schedules or []),
        "createTime": created_ms,
        "updatedTime": updated_ms,
        "createdBy": schedule.created_by or "",
        "updatedBy": schedule.updated_by or "",
        "nextRunTime": next_ms,
    }
    return {name: value for name, value in fields.items() if value is not None}
