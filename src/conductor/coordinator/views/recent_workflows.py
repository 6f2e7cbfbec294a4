"""`/view/workflows`: the list of workflows, newest first. A page has the same cost however many workflows there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.statements import LAST_KEY
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.waiting_facts import FactReader, explain_workflow_row
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES, WorkflowStatus
from conductor.protocol.views import WorkflowEntry, WorkflowPage

MAX_SIZE = 200
#: Maximum number of workflows that are examined for one page. The next page continues after them.
MAX_EXAMINED = 50_000


class PageFilter(NamedTuple):
    """Which workflows a page lists."""

    statuses: Sequence[str] = ()
    name: str | None = None
    #: An id, a correlation id, or a part of a name or correlation id.
    text: str | None = None
    #: Only workflows that are older than this one.
    before: str | None = None
    size: int = 50


class _Conditions(NamedTuple):
    """A filter in SQL."""

    clauses: list[str]
    values: list[str | int]
    #: True if an index finds all rows that match, so that `MAX_EXAMINED` is not needed.
    is_indexed: bool


def list_workflows(tx: Tx, facts: FactReader, wanted: PageFilter) -> WorkflowPage:
    """Return the workflows that match, newest first."""
    if not 1 <= wanted.size <= MAX_SIZE:
        raise bad_request(f"a page has from 1 to {MAX_SIZE} workflows, not {wanted.size}")
    known = sorted(WorkflowStatus)
    for status in wanted.statuses:
        if status not in known:
            raise bad_request(f"{status[:100]!r} is not a status of a workflow; use {', '.join(known)}")
    before = (tx.first(LAST_KEY, "workflow") or 0) + 1
    if wanted.before is not None:
        before = tx.ids.workflow_pk(wanted.before) or 0
    conditions = _build_conditions(tx, wanted)
    floor = 0 if conditions.is_indexed else max(0, before - MAX_EXAMINED)
    where = " AND ".join(["pk < ?", "pk >= ?", *conditions.clauses])
    found = tx.select(
        f"SELECT * FROM workflow WHERE {where} ORDER BY pk DESC LIMIT ?",  # noqa: S608 - values are bound
        [before, floor, *conditions.values, wanted.size + 1],
    )
    rows = [WorkflowRow(*row) for row in found[: wanted.size]]
    has_more = len(found) > wanted.size
    next_pk = rows[-1].pk if has_more else floor
    return WorkflowPage(
        now_ms=tx.now_ms,
        results=[_make_entry(tx, facts, row) for row in rows],
        next=tx.ids.workflow(next_pk) if next_pk else None,
        looked_at_enough=not has_more and floor > 0,
    )


def _build_conditions(tx: Tx, wanted: PageFilter) -> _Conditions:
    clauses: list[str] = []
    values: list[str | int] = []
    is_indexed = False
    if wanted.statuses:
        clauses.append(f"status IN ({', '.join('?' * len(wanted.statuses))})")
        values += wanted.statuses
        if TERMINAL_WORKFLOW_STATUSES.isdisjoint(wanted.statuses):
            clauses.append("ended_ms IS NULL")
            is_indexed = True
    if wanted.name:
        clauses.append("name = ?")
        values.append(wanted.name)
    if wanted.text:
        pk = tx.ids.workflow_pk(wanted.text)
        if pk is not None:
            return _Conditions(["pk = ?"], [pk], is_indexed=True)
        if tx.select("SELECT 1 FROM workflow WHERE correlation_id = ? LIMIT 1", [wanted.text]):
            return _Conditions([*clauses, "correlation_id = ?"], [*values, wanted.text], is_indexed=True)
        # instr, not LIKE: no character that people type has a special meaning.
        clauses.append("(instr(lower(name), ?) OR instr(lower(correlation_id), ?))")
        values += [wanted.text.lower()] * 2
    return _Conditions(clauses, values, is_indexed)


def _make_entry(tx: Tx, facts: FactReader, row: WorkflowRow) -> WorkflowEntry:
    return WorkflowEntry(
        workflow_id=tx.ids.workflow(row.pk),
        name=row.name,
        version=row.version,
        status=row.status,
        correlation_id=row.correlation_id,
        start_time=row.created_ms,
        end_time=row.ended_ms,
        is_sub_workflow=row.parent_task is not None,
        waiting=None if row.status == WorkflowStatus.COMPLETED else explain_workflow_row(tx, facts, row),
    )
