"""The list of workflows, newest first, page by page: each page costs the same, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.waiting_facts import Facts, why
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES
from conductor.protocol.views import WorkflowEntry, WorkflowPage

MAX_SIZE = 200
#: One page looks at no more workflows than this; what matches further down is found from there on.
LOOKED_AT = 50_000
STATUSES = frozenset({"RUNNING", "PAUSED"}) | TERMINAL_WORKFLOW_STATUSES


class Asked(NamedTuple):
    """One page as it was asked for."""

    statuses: Sequence[str] = ()
    name: str | None = None
    #: An id, a correlation id, or a part of a name or correlation id.
    text: str | None = None
    #: The page begins behind this workflow.
    before: str | None = None
    size: int = 50


def recent(tx: Tx, facts: Facts, asked: Asked) -> WorkflowPage:
    """The workflows that match, newest first."""
    _check(asked)
    rows, next_pk, enough = _rows(tx, asked)
    return WorkflowPage(
        now_ms=tx.now_ms,
        results=[_entry(tx, facts, row) for row in rows],
        next=None if next_pk is None else tx.ids.workflow(next_pk),
        looked_at_enough=enough,
    )


def _check(asked: Asked) -> None:
    if not 1 <= asked.size <= MAX_SIZE:
        raise bad_request(f"a page has from 1 to {MAX_SIZE} workflows, not {asked.size}")
    for status in asked.statuses:
        if status not in STATUSES:
            raise bad_request(f"{status[:100]!r} is no status of a workflow; use {', '.join(sorted(STATUSES))}")


def _rows(tx: Tx, asked: Asked) -> tuple[list[WorkflowRow], int | None, bool]:
    newest = int(tx.value("last key", "workflow") or 0)
    before = newest + 1 if asked.before is None else tx.ids.workflow_pk(asked.before) or 0
    conditions, values, quick = _conditions(tx, asked)
    # An index has all that match: nothing needs to be looked at in vain.
    floor = 0 if quick else max(0, before - LOOKED_AT)
    where = " AND ".join(["pk < ?", "pk >= ?", *conditions])
    found = tx.select(
        f"SELECT * FROM workflow WHERE {where} ORDER BY pk DESC LIMIT ?",  # noqa: S608 - our own words; values are bound
        [before, floor, *values, asked.size + 1],
    )
    rows = [WorkflowRow(*row) for row in found[: asked.size]]
    if len(found) > asked.size:
        return rows, rows[-1].pk, False
    return rows, (floor if floor > 0 else None), floor > 0


def _conditions(tx: Tx, asked: Asked) -> tuple[list[str], list[Any], bool]:
    conditions: list[str] = []
    values: list[Any] = []
    quick = False
    if asked.statuses:
        conditions.append(f"status IN ({', '.join('?' * len(asked.statuses))})")
        values += asked.statuses
        if not TERMINAL_WORKFLOW_STATUSES & set(asked.statuses):
            conditions.append("ended_ms IS NULL")
            quick = True
    if asked.name:
        conditions.append("name = ?")
        values.append(asked.name)
    if asked.text:
        pk = tx.ids.workflow_pk(asked.text)
        if pk is not None:
            return ["pk = ?"], [pk], True
        if tx.select("SELECT 1 FROM workflow WHERE correlation_id = ? LIMIT 1", [asked.text]):
            return [*conditions, "correlation_id = ?"], [*values, asked.text], True
        # instr, not LIKE: nothing in what people type has a meaning of its own.
        conditions.append("(instr(lower(name), ?) OR instr(lower(correlation_id), ?))")
        values += [asked.text.lower()] * 2
    return conditions, values, quick


def _entry(tx: Tx, facts: Facts, row: WorkflowRow) -> WorkflowEntry:
    return WorkflowEntry(
        workflow_id=tx.ids.workflow(row.pk),
        name=row.name,
        version=row.version,
        status=row.status,
        correlation_id=row.correlation_id,
        start_time=row.created_ms,
        end_time=row.ended_ms,
        is_sub_workflow=row.parent_task is not None,
        waiting=None if row.status == "COMPLETED" else why(tx, facts, row),
    )
