"""Schedules in the store: save, read, pause, resume, remove. All functions run inside transactions."""

from __future__ import annotations

import msgspec

from conductor.coordinator.request_errors import ApiError, not_found
from conductor.coordinator.schedules.cron_schedule import Schedule, view_schedule
from conductor.coordinator.store.statements import (
    DROP_ALL_DUE,
    DROP_DUE,
    DROP_SCHEDULE,
    EARLIEST_DUE,
    MATCHING_SCHEDULES,
    NEXT_DUE_OF_SCHEDULE,
    PAUSE_SCHEDULES,
    RESUME_SCHEDULES,
    SCHEDULE,
    SET_DUE,
    SET_SCHEDULE,
)
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import JsonObject

_decode = msgspec.json.Decoder(Schedule).decode


def save(tx: Tx, schedule: Schedule) -> JsonObject:
    """Create or replace a validated schedule, and return its JSON. Workflows for past due times are not started."""
    found = tx.first(SCHEDULE, schedule.name)
    if found is not None:
        schedule.created_by = _decode(found[0]).created_by
    if not schedule.paused:
        schedule.paused_reason = None
    _put(tx, schedule)
    return get(tx, schedule.name or "")


def get(tx: Tx, name: str) -> JsonObject:
    """Return the JSON of a schedule; 404 if the name is unknown."""
    found = tx.first(SCHEDULE, name)
    if found is None:
        raise _unknown(name)
    body, created_ms, updated_ms = found
    return view_schedule(_decode(body), created_ms, updated_ms, tx.first(NEXT_DUE_OF_SCHEDULE, name))


def load(tx: Tx, name: str) -> Schedule:
    """Return a schedule; 404 if the name is unknown."""
    found = tx.first(SCHEDULE, name)
    if found is None:
        raise _unknown(name)
    return _decode(found[0])


def find_names(
    tx: Tx,
    *,
    workflow: str | None = None,
    name: str | None = None,
    paused: bool | None = None,
    text: str | None = None,
) -> list[str]:
    """Return the names of the schedules that match all given conditions.

    Args:
        tx: The transaction.
        workflow: The workflow that the schedule starts.
        name: A part of the schedule's name.
        paused: Whether the schedule is paused.
        text: A part of the schedule's name or of its workflow's name.
    """
    return tx.rows(MATCHING_SCHEDULES, workflow=workflow, name=name, paused=paused, text=text)


def remove(tx: Tx, name: str) -> None:
    """Remove a schedule; the workflows that it started stay."""
    tx.run(DROP_ALL_DUE, name)
    tx.run(DROP_SCHEDULE, name)


def pause(tx: Tx, name: str, reason: str | None) -> None:
    """Pause a schedule: it starts no workflow until it is resumed."""
    schedule = load(tx, name)
    schedule.paused, schedule.paused_reason = True, reason
    _put(tx, schedule)


def resume(tx: Tx, name: str) -> None:
    """Resume a paused schedule. Its next due time is the first one after now."""
    schedule = load(tx, name)
    if not schedule.paused:
        raise not_found(f"Schedule '{name}' is not paused")
    schedule.paused, schedule.paused_reason = False, None
    _put(tx, schedule)


def pause_all(tx: Tx) -> None:
    """Pause all schedules: they start no workflow until `resume_all`."""
    tx.run(PAUSE_SCHEDULES)


def resume_all(tx: Tx) -> None:
    """Resume all schedules.

    Due times during the pause are treated like due times that pass while the coordinator is stopped.
    """
    tx.run(RESUME_SCHEDULES)
    tx.notes.add_wake(tx.first(EARLIEST_DUE))


def set_due(tx: Tx, name: str, position: int, at_ms: int | None) -> None:
    """Set when the cron expression at `position` is due next; None means never."""
    if at_ms is None:
        tx.run(DROP_DUE, name, position)
    else:
        tx.run(SET_DUE, name, position, at_ms)
        tx.notes.add_wake(at_ms)


def _put(tx: Tx, schedule: Schedule) -> None:
    name = schedule.name or ""
    body = msgspec.json.encode(schedule)
    tx.run(SET_SCHEDULE, name, schedule.start.name, schedule.paused, body, tx.now_ms, tx.now_ms)
    tx.run(DROP_ALL_DUE, name)
    if not schedule.paused:
        for position in range(len(schedule.crons)):
            set_due(tx, name, position, schedule.next_due(position, tx.now_ms, tx.now_ms))


def _unknown(name: str) -> ApiError:
    return not_found(f"Schedule '{name}' not found")
