"""All schedules in the store: save, read, pause, resume, remove. Runs inside transactions."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.coordinator.request_errors import not_found
from conductor.coordinator.schedules.cron_schedule import Schedule, view_schedule
from conductor.coordinator.store.transaction import Tx

_read = msgspec.json.Decoder(Schedule).decode


def save(tx: Tx, schedule: Schedule) -> dict[str, Any]:
    """Create or replace one that was checked; as it is shown. It is due from now on, not for what it has missed."""
    found = tx.row("schedule", schedule.name)
    if found is not None:
        schedule.created_by = _read(found[0]).created_by
    if not schedule.paused:
        schedule.paused_reason = None
    _put(tx, schedule)
    return get(tx, schedule.name or "")


def get(tx: Tx, name: str) -> dict[str, Any]:
    """A schedule as it is shown; 404 if there is none."""
    found = tx.row("schedule", name)
    if found is None:
        raise _unknown(name)
    body, created_ms, updated_ms = found
    return view_schedule(_read(body), created_ms, updated_ms, tx.value("next due of schedule", name))


def load(tx: Tx, name: str) -> Schedule:
    """A schedule that is to be changed or run; 404 if there is none."""
    found = tx.row("schedule", name)
    if found is None:
        raise _unknown(name)
    return _read(found[0])


def matching(
    tx: Tx,
    *,
    workflow: str | None = None,
    name: str | None = None,
    paused: bool | None = None,
    text: str | None = None,
) -> list[str]:
    """The names of those that start this workflow, have this in their name, are paused or not."""
    asked = {"workflow": workflow, "name": name, "paused": paused, "text": text}
    return [found for (found,) in tx.matching("matching schedules", asked)]


def remove(tx: Tx, name: str) -> None:
    """Forget a schedule; what it has started stays."""
    tx.run("drop all due", name)
    tx.run("drop schedule", name)


def pause(tx: Tx, name: str, reason: str | None) -> None:
    """Start nothing by it until it is resumed."""
    schedule = load(tx, name)
    schedule.paused, schedule.paused_reason = True, reason
    _put(tx, schedule)


def resume(tx: Tx, name: str) -> None:
    """Go on, with the first moment from now."""
    schedule = load(tx, name)
    if not schedule.paused:
        raise not_found(f"Schedule '{name}' is not paused")
    schedule.paused, schedule.paused_reason = False, None
    _put(tx, schedule)


def pause_all(tx: Tx) -> None:
    """Start nothing by any schedule until `resume_all`."""
    tx.run("pause schedules")


def resume_all(tx: Tx) -> None:
    """Go on. What was due meanwhile is made up for as after a time in which the coordinator did not run."""
    tx.run("resume schedules")
    tx.notes.add_wake(tx.value("earliest due"))


def set_due(tx: Tx, name: str, position: int, at_ms: int | None) -> None:
    """When one of a schedule's expressions is due next; None: never again."""
    if at_ms is None:
        tx.run("drop due", name, position)
    else:
        tx.run("set due", name, position, at_ms)
        tx.notes.add_wake(at_ms)


def _put(tx: Tx, schedule: Schedule) -> None:
    name = schedule.name or ""
    body = msgspec.json.encode(schedule)
    tx.run("set schedule", name, schedule.start.name, schedule.paused, body, tx.now_ms, tx.now_ms)
    tx.run("drop all due", name)
    if not schedule.paused:
        for position in range(len(schedule.crons)):
            set_due(tx, name, position, schedule.next_due(position, tx.now_ms, tx.now_ms))


def _unknown(name: str) -> Exception:
    return not_found(f"Schedule '{name}' not found")
