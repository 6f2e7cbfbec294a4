"""Warnings about valid schedules that are probably mistakes. All functions run inside transactions."""

from __future__ import annotations

from collections.abc import Iterator

from conductor.coordinator.definitions.likely_mistakes import find_similar
from conductor.coordinator.definitions.workflow_defs import workflow_def_body
from conductor.coordinator.schedules import schedule_store
from conductor.coordinator.schedules.cron_schedule import CronSchedule, Schedule
from conductor.coordinator.store.statements import WORKFLOW_DEFINITION_NAMES
from conductor.coordinator.store.transaction import Tx


def find_schedule_warnings(tx: Tx, schedule: Schedule) -> list[str]:
    """Return the likely mistakes in a valid schedule."""
    return [
        f"schedule {schedule.name}: {message}"
        for find in (_find_unknown_workflow, _find_unused_cron, _find_same_schedules)
        for message in find(tx, schedule)
    ]


def _find_unknown_workflow(tx: Tx, schedule: Schedule) -> Iterator[str]:
    name, version = schedule.start.name or "", schedule.start.version
    if schedule.start.workflow_def is not None or workflow_def_body(tx, name, version) is not None:
        return
    if version and workflow_def_body(tx, name, None) is not None:
        yield f"workflow '{name}' has no version {version}, so every run fails until it is registered"
        return
    meant = find_similar(name, tx.rows(WORKFLOW_DEFINITION_NAMES))
    advice = f"; did you mean '{meant}'?" if meant else ""
    yield f"there is no workflow '{name}', so every run fails until it is registered{advice}"


def _find_unused_cron(_tx: Tx, schedule: Schedule) -> Iterator[str]:
    if not schedule.cron_expression or not schedule.cron_schedules:
        return
    expressions = {cron.cron_expression for cron in schedule.cron_schedules}
    if schedule.cron_expression not in expressions:
        yield f"cronExpression '{schedule.cron_expression}' has no effect, because cronSchedules is set"


def _find_same_schedules(tx: Tx, schedule: Schedule) -> Iterator[str]:
    """Yield a warning for each other schedule with the same workflow, input and times."""
    for name in schedule_store.find_names(tx, workflow=schedule.start.name):
        if name != schedule.name and _input_and_times(schedule_store.load(tx, name)) == _input_and_times(schedule):
            yield f"schedule '{name}' starts workflow '{schedule.start.name}' with the same input at the same times"


def _input_and_times(schedule: Schedule) -> tuple[object, ...]:
    start = schedule.start
    times = {_time_of(cron) for cron in schedule.crons}
    return times, start.version or None, start.input or {}, schedule.schedule_start_time, schedule.schedule_end_time


def _time_of(cron: CronSchedule) -> tuple[str, str]:
    return " ".join(cron.cron_expression.split()).upper(), cron.zone
