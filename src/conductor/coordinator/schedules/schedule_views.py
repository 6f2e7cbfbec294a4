"""`/view/schedules`: schedules with their cron expressions in words, their next due times, and their warnings."""

from __future__ import annotations

from datetime import UTC, datetime

from conductor.coordinator.language.cron import CronError, read_cron, read_zone
from conductor.coordinator.language.cron_words import describe_cron
from conductor.coordinator.schedules import schedule_store
from conductor.coordinator.schedules.cron_schedule import CronSchedule, Schedule
from conductor.coordinator.schedules.schedule_warnings import EqualSchedules, find_schedule_warnings
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.views import CronView, DueTime, ScheduleEntry, ScheduleList

#: Number of due times that an answer lists for each cron expression.
MAX_NEXT = 5


def list_schedule_entries(tx: Tx, *, name: str | None, workflow: str | None) -> ScheduleList:
    """Return the schedule with this name, the schedules of a workflow, or all schedules."""
    if name is not None:
        return ScheduleList(now_ms=tx.now_ms, schedules=[_make_entry(tx, name)])
    names, equal = schedule_store.find_names(tx, workflow=workflow), EqualSchedules.load(tx, workflow)
    return ScheduleList(now_ms=tx.now_ms, schedules=[_make_entry(tx, one, equal) for one in names])


def _make_entry(tx: Tx, name: str, equal: EqualSchedules | None = None) -> ScheduleEntry:
    schedule = schedule_store.load(tx, name)
    prefix = f"schedule {name}: "
    return ScheduleEntry(
        schedule=schedule_store.get(tx, name),
        times=[_view_cron(schedule, position, tx.now_ms) for position in range(len(schedule.crons))],
        warnings=[warning.removeprefix(prefix) for warning in find_schedule_warnings(tx, schedule, equal)],
    )


def view_cron(expression: str, zone: str, now_ms: int) -> CronView:
    """Return an expression in words and its next due times, or the reason why it is invalid."""
    schedule = Schedule(cron_schedules=[CronSchedule(cron_expression=expression, zone_id=zone)])
    try:
        read_cron(expression)
        read_zone(zone)
    except CronError as error:
        return CronView(expression=expression, zone=zone, problem=str(error))
    return _view_cron(schedule, 0, now_ms)


def _view_cron(schedule: Schedule, position: int, now_ms: int) -> CronView:
    cron = schedule.crons[position]
    zone = read_zone(cron.zone)
    found: list[DueTime] = []
    at_ms = now_ms
    while len(found) < MAX_NEXT and (due_ms := schedule.next_due(position, at_ms, now_ms)) is not None:
        local = datetime.fromtimestamp(due_ms / 1000, UTC).astimezone(zone)
        found.append(DueTime(at_ms=due_ms, local=f"{local:%a %Y-%m-%d %H:%M:%S}"))
        at_ms = due_ms
    return CronView(
        expression=cron.cron_expression, zone=cron.zone, words=describe_cron(cron.cron_expression), next=found
    )
