"""`/view/workflows`: the list of workflows, newest first. A page has the same cost however many workflows there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.statements import FIRST_WORKFLOW_FROM, LAST_KEY
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.activity import find_first_key
from conductor.coordinator.views.waiting_facts import FactReader, explain_workflow_row
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES, WorkflowStatus
from conductor.protocol.views import WorkflowEntry, WorkflowIds, WorkflowPage

MAX_SIZE = 200
#: Maximum number of workflows that are examined for one page. The next page continues after them.
MAX_EXAMINED = 50_000
#: `MAX_EXAMINED` for a filter by input, which is slower because it reads the input of each workflow.
MAX_INPUTS_EXAMINED = 5000
#: Matching workflows are counted up to this number.
MAX_COUNTED = 10_000
#: Maximum number of ids in an answer that lists all matching workflows, for an action on them.
MAX_IDS = 10_000
MAX_FILTER_CHARS = 1000
#: A filter by one value of the input, such as `order.id=7`.
_INPUT_VALUE = re.compile(r"([\w$-]+(?:\.[\w$-]+)*)\s*=\s*(.*)", re.DOTALL)


class PageFilter(NamedTuple):
    """Which workflows a page lists."""

    statuses: Sequence[str] = ()
    name: str | None = None
    #: The id of a workflow, or a part of its name, of its correlation id or of its failure reason.
    text: str | None = None
    #: A part of the input as JSON, or `field.field=value`.
    input: str | None = None
    #: Only workflows that started between these two times, in epoch milliseconds.
    started_from_ms: int | None = None
    started_to_ms: int | None = None
    #: Whether to leave out sub-workflows.
    top_level: bool = False
    #: The id of a workflow. Only workflows that started before it are listed.
    before: str | None = None
    size: int = 50
    #: Whether to count all workflows that match, not only those on this page.
    with_total: bool = False


class _Conditions(NamedTuple):
    """A filter in SQL."""

    clauses: list[str]
    values: list[str | int]
    #: True if an index finds all rows that match, so that `MAX_EXAMINED` is not needed.
    is_indexed: bool
    max_examined: int


def list_workflows(tx: Tx, facts: FactReader, wanted: PageFilter) -> WorkflowPage:
    """Return a page of the workflows that match, newest first."""
    if not 1 <= wanted.size <= MAX_SIZE:
        raise bad_request(f"size must be between 1 and {MAX_SIZE}, not {wanted.size}")
    conditions = _build_conditions(tx, wanted)
    last = (tx.first(LAST_KEY, "workflow") or 0) + 1
    before = last if wanted.before is None else tx.ids.workflow_pk(wanted.before) or 0
    floor = _find_floor(conditions, before)
    where = " AND ".join(["w.pk < ?", "w.pk >= ?", *conditions.clauses])
    found = tx.select(
        f"SELECT w.* FROM workflow w WHERE {where} ORDER BY w.pk DESC LIMIT ?",  # noqa: S608 - values are bound
        [before, floor, *conditions.values, wanted.size + 1],
    )
    rows = [WorkflowRow(*row) for row in found[: wanted.size]]
    has_more = len(found) > wanted.size
    next_pk = rows[-1].pk if has_more else floor
    total = _count(tx, conditions, last) if wanted.with_total else None
    return WorkflowPage(
        now_ms=tx.now_ms,
        results=[_make_entry(tx, facts, row) for row in rows],
        next=tx.ids.workflow(next_pk) if next_pk else None,
        looked_at_enough=not has_more and floor > 0,
        total=None if total is None else min(total, MAX_COUNTED),
        total_is_limited=total is not None and (total > MAX_COUNTED or _find_floor(conditions, last) > 0),
    )


def list_workflow_ids(tx: Tx, wanted: PageFilter) -> WorkflowIds:
    """Return the ids of all workflows that match, newest first, up to `MAX_IDS`."""
    conditions = _build_conditions(tx, wanted)
    floor = _find_floor(conditions, (tx.first(LAST_KEY, "workflow") or 0) + 1)
    where = " AND ".join(["w.pk >= ?", *conditions.clauses])
    found = tx.select(
        f"SELECT w.pk, w.status FROM workflow w WHERE {where} ORDER BY w.pk DESC LIMIT ?",  # noqa: S608 - values are bound
        [floor, *conditions.values, MAX_IDS + 1],
    )
    statuses = {tx.ids.workflow(pk): status for pk, status in found[:MAX_IDS]}
    return WorkflowIds(now_ms=tx.now_ms, statuses=statuses, has_more=len(found) > MAX_IDS or floor > 0)


def _find_floor(conditions: _Conditions, before: int) -> int:
    """Return the lowest key that a search below the key `before` examines; 0 if it examines all keys."""
    if conditions.is_indexed or before - 1 <= conditions.max_examined:
        return 0
    return before - conditions.max_examined


def _count(tx: Tx, conditions: _Conditions, last: int) -> int:
    where = " AND ".join(["w.pk >= ?", *conditions.clauses])
    ((total,),) = tx.select(
        f"SELECT count(*) FROM (SELECT 1 FROM workflow w WHERE {where} ORDER BY w.pk DESC LIMIT ?)",  # noqa: S608 - values are bound
        [_find_floor(conditions, last), *conditions.values, MAX_COUNTED + 1],
    )
    return int(total)


def _build_conditions(tx: Tx, wanted: PageFilter) -> _Conditions:
    known = sorted(WorkflowStatus)
    for status in wanted.statuses:
        if status not in known:
            raise bad_request(f"{status[:100]!r} is not a status of a workflow; use {', '.join(known)}")
    for text in (wanted.text, wanted.input):
        if text is not None and len(text) > MAX_FILTER_CHARS:
            raise bad_request(f"a filter has at most {MAX_FILTER_CHARS} characters, not {len(text)}")
    clauses: list[str] = []
    values: list[str | int] = []
    is_indexed = False
    if wanted.statuses:
        clauses.append(f"w.status IN ({', '.join('?' * len(wanted.statuses))})")
        values += wanted.statuses
        if TERMINAL_WORKFLOW_STATUSES.isdisjoint(wanted.statuses):
            clauses.append("w.ended_ms IS NULL")
            is_indexed = True
    if wanted.name:
        clauses.append("w.name = ?")
        values.append(wanted.name)
    if wanted.started_from_ms is not None:
        # Keys increase with time, so the key of the first workflow bounds the search.
        last = (tx.first(LAST_KEY, "workflow") or 0) + 1
        clauses.append("w.pk >= ? AND w.created_ms >= ?")
        values += [find_first_key(tx, FIRST_WORKFLOW_FROM, wanted.started_from_ms, 1, last), wanted.started_from_ms]
    if wanted.started_to_ms is not None:
        clauses.append("w.created_ms < ?")
        values.append(wanted.started_to_ms)
    if wanted.top_level:
        clauses.append("w.parent_task IS NULL")
    if wanted.text:
        pk = tx.ids.workflow_pk(wanted.text.strip())
        if pk is not None:
            return _Conditions(["w.pk = ?"], [pk], is_indexed=True, max_examined=MAX_EXAMINED)
        is_indexed = _add_text(tx, wanted.text, clauses, values) or is_indexed
    if wanted.input:
        _add_input(wanted.input, clauses, values)
        return _Conditions(clauses, values, is_indexed=False, max_examined=MAX_INPUTS_EXAMINED)
    return _Conditions(clauses, values, is_indexed, MAX_EXAMINED)


def _add_text(tx: Tx, text: str, clauses: list[str], values: list[str | int]) -> bool:
    """Add a condition that searches for a text.

    If a workflow has exactly this correlation id, the condition finds all workflows with it, however old they are, and
    partial matches among the newest `MAX_EXAMINED` workflows.

    Returns:
        Whether the condition limits itself in this way, so that the caller need not limit the search.
    """
    # Uses instr instead of LIKE, so that no character of the text has a special meaning.
    contains = (
        "(instr(lower(w.name), ?) OR instr(lower(w.correlation_id), ?) OR "
        "(w.status IN ('FAILED', 'TIMED_OUT', 'TERMINATED') AND "
        "instr(lower((SELECT reason FROM workflow_data d WHERE d.pk = w.pk)), ?)))"
    )
    exact = tx.select("SELECT 1 FROM workflow WHERE correlation_id = ? LIMIT 1", [text])
    if not exact:
        clauses.append(contains)
        values += [text.lower()] * 3
        return False
    clauses.append(
        "w.pk IN (SELECT pk FROM workflow WHERE correlation_id = ? "  # noqa: S608 - values are bound
        f"UNION SELECT w.pk FROM workflow w WHERE w.pk > ? AND {contains})"
    )
    values += [text, (tx.first(LAST_KEY, "workflow") or 0) - MAX_EXAMINED, *[text.lower()] * 3]
    return True


def _add_input(text: str, clauses: list[str], values: list[str | int]) -> None:
    body = "(SELECT CAST(d.input AS TEXT) FROM workflow_data d WHERE d.pk = w.pk)"
    found = _INPUT_VALUE.fullmatch(text.strip())
    if found is None:
        clauses.append(f"instr(lower({body}), ?)")
        values.append(text.lower())
        return
    path = "$" + "".join(f'."{part}"' for part in found[1].split("."))
    # CAST turns numbers into text. JSON true and false are 1 and 0 in SQLite.
    value = {"true": "1", "false": "0"}.get(found[2].strip().lower(), found[2].strip().strip("\"'"))
    clauses.append(f"CAST(json_extract({body}, ?) AS TEXT) = ?")
    values += [path, value]


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
