"""Warnings about valid schedules that are probably mistakes. All functions run inside transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from conductor.coordinator.definitions.likely_mistakes import find_similar
from conductor.coordinator.definitions.workflow_defs import workflow_def_body
from conductor.coordinator.schedules import schedule_store
from conductor.coordinator.schedules.cron_schedule import CronSchedule, Schedule
from conductor.coordinator.store.statements import WORKFLOW_DEFINITION_NAMES
from conductor.coordinator.store.transaction import Tx


class EqualSchedules:
    """Finds schedules that start the same workflow with the same input at the same times.

    Args:
        schedules: All schedules of the workflows that are compared.
    """

    def __init__(self, schedules: Iterable[Schedule]) -> None:
        self._names: defaultdict[bytes, list[str]] = defaultdict(list)
        for schedule in schedules:
            self._names[_digest(schedule)].append(schedule.name or "")

    @classmethod
    def load(cls, tx: Tx, workflow: str | None = None) -> EqualSchedules:
        """Load all schedules, or those that start `workflow`, and return an object that compares them."""
        names = schedule_store.find_names(tx, workflow=workflow)
        return cls(schedule_store.load(tx, name) for name in names)

    def find(self, schedule: Schedule) -> list[str]:
        """Return the names of the other schedules with the same workflow, the same input and the same times."""
        return [name for name in self._names.get(_digest(schedule), ()) if name != schedule.name]


def find_schedule_warnings(tx: Tx, schedule: Schedule, equal: EqualSchedules | None = None) -> list[str]:
    """Return the likely mistakes in a valid schedule.

    Args:
        tx: The transaction.
        schedule: The schedule.
        equal: Compares `schedule` with others; None loads them. A caller that checks many schedules loads them once.
    """
    equal = equal or EqualSchedules.load(tx, schedule.start.name)
    return [
        f"schedule {schedule.name}: {message}"
        for found in (
            _find_unknown_workflow(tx, schedule),
            _find_unused_cron(schedule),
            (
                f"schedule '{name}' starts workflow '{schedule.start.name}' with the same input at the same times"
                for name in equal.find(schedule)
            ),
        )
        for message in found
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


def _find_unused_cron(schedule: Schedule) -> Iterator[str]:
    if not schedule.cron_expression or not schedule.cron_schedules:
        return
    expressions = {cron.cron_expression for cron in schedule.cron_schedules}
    if schedule.cron_expression not in expressions:
        yield f"cronExpression '{schedule.cron_expression}' has no effect, because cronSchedules is set"


def _digest(schedule: Schedule) -> bytes:
    """Return a digest of the workflow that a schedule starts, its input and its times."""
    start = schedule.start
    times = sorted({_time_of(cron) for cron in schedule.crons})
    limits = schedule.schedule_start_time, schedule.schedule_end_time
    compared = start.name, start.version or None, start.input or {}, times, limits
    return blake2b(msgspec.json.encode(compared, order="deterministic"), digest_size=16).digest()


def _time_of(cron: CronSchedule) -> tuple[str, str]:
    return " ".join(cron.cron_expression.split()).upper(), cron.zone
