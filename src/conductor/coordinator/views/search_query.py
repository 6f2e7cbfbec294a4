"""Searching workflows, tasks and runs of schedules with Conductor's query language.

status IN (RUNNING, FAILED) AND startTime > 0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.request_errors import bad_request, invalid
from conductor.coordinator.store.lookup import workflow_data
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.task_views import task
from conductor.coordinator.views.workflow_views import whole_workflow

#: Results in one answer, and what they may come to as JSON. One alone is answered however large it is.
MAX_SIZE = 5000
MAX_PAGE_BYTES = 10 * 1024 * 1024
#: A query: its characters, what AND joins, and the values of an IN.
MAX_QUERY = 10_000
MAX_CLAUSES = 100
MAX_VALUES = 1000

#: What a clause begins with; the value is all that follows.
_CLAUSE = re.compile(r"(\w+)\s*(!=|>=|<=|=|>|<|\bIN\b)", re.IGNORECASE)
#: A value in quotes: no AND and no comma in it counts.
_QUOTED = r"""(?<=[=<>(,\s])(?:'[^'\n]*'|"[^"\n]*")(?=[\s,)]|$)"""
_AND = re.compile(rf"{_QUOTED}|(?P<cut>\sAND)(?=\s)", re.IGNORECASE)
_COMMA = re.compile(rf"{_QUOTED}|(?P<cut>,)")

#: What may be asked for → the column that holds it.
WORKFLOW_FIELDS = {
    "workflowType": "w.name",
    "workflowName": "w.name",
    "name": "w.name",
    "version": "w.version",
    "status": "w.status",
    "correlationId": "w.correlation_id",
    "priority": "w.priority",
    "startTime": "w.created_ms",
    "createTime": "w.created_ms",
    "updateTime": "w.updated_ms",
    "endTime": "w.ended_ms",
    "modifiedTime": "w.updated_ms",
}
TASK_FIELDS = {
    "taskType": "y.name",
    "taskDefName": "y.name",
    "taskDefinitionName": "y.name",
    "status": "t.status",
    "taskRefName": "t.ref",
    "referenceTaskName": "t.ref",
    "workerId": "t.worker_id",
    "workflowType": "w.name",
    "correlationId": "w.correlation_id",
    "scheduledTime": "t.scheduled_ms",
    "startTime": "t.started_ms",
    "updateTime": "t.updated_ms",
    "endTime": "t.ended_ms",
}
RUN_FIELDS = {
    "scheduleName": "r.schedule",
    "workflowName": "r.workflow_name",
    "workflowType": "r.workflow_name",
    "state": "r.state",
    "reason": "r.reason",
    "zoneId": "r.zone",
    "scheduledTime": "r.due_ms",
    "executionTime": "r.ran_ms",
}
_WORKFLOWS = "FROM workflow w"
_TASKS = "FROM task t JOIN workflow w ON w.pk = t.workflow JOIN task_type y ON y.pk = t.type"

_RUNS = "FROM schedule_run r LEFT JOIN workflow w ON w.pk = r.workflow"


class Search(NamedTuple):
    """One search as it was asked."""

    start: int = 0
    size: int = 100
    sort: str | None = None
    free_text: str = "*"
    query: str | None = None


def workflows(tx: Tx, search: Search) -> dict[str, Any]:
    """Summaries of the workflows that match."""
    hits, keys = _find(tx, search, _WORKFLOWS, "w.pk", WORKFLOW_FIELDS)
    return {"totalHits": hits, "results": _page(_workflow_summary(tx, key) for key in keys)}


def whole_workflows(tx: Tx, snapshots: Snapshots, search: Search) -> dict[str, Any]:
    """The workflows that match, whole."""
    hits, keys = _find(tx, search, _WORKFLOWS, "w.pk", WORKFLOW_FIELDS)
    return {"totalHits": hits, "results": _page(_whole_workflows(tx, snapshots, keys))}


def workflows_by_tasks(tx: Tx, search: Search) -> dict[str, Any]:
    """Summaries of the workflows that have a task which matches."""
    hits, keys = _find(tx, search, _TASKS, "w.pk", TASK_FIELDS)
    return {"totalHits": hits, "results": _page(_workflow_summary(tx, key) for key in keys)}


def whole_workflows_by_tasks(tx: Tx, snapshots: Snapshots, search: Search) -> dict[str, Any]:
    """The workflows that have a task which matches, whole."""
    hits, keys = _find(tx, search, _TASKS, "w.pk", TASK_FIELDS)
    return {"totalHits": hits, "results": _page(_whole_workflows(tx, snapshots, keys))}


def _whole_workflows(tx: Tx, snapshots: Snapshots, keys: list[int]) -> Iterator[dict[str, Any]]:
    for key in keys:
        yield whole_workflow(tx, snapshots, WorkflowRow(*(tx.row("workflow", key) or ())), with_tasks=True)


def tasks(tx: Tx, snapshots: Snapshots, search: Search) -> dict[str, Any]:
    """Summaries of the tasks that match."""
    hits, keys = _find(tx, search, _TASKS, "t.pk", TASK_FIELDS)
    return {"totalHits": hits, "results": _page(_task_summary(one) for one in _whole_tasks(tx, snapshots, keys))}


def whole_tasks(tx: Tx, snapshots: Snapshots, search: Search) -> dict[str, Any]:
    """The tasks that match, whole."""
    hits, keys = _find(tx, search, _TASKS, "t.pk", TASK_FIELDS)
    return {"totalHits": hits, "results": _page(_whole_tasks(tx, snapshots, keys))}


def _whole_tasks(tx: Tx, snapshots: Snapshots, keys: list[int]) -> Iterator[dict[str, Any]]:
    return (task(tx, snapshots, tx.ids.task(key)) for key in keys)


def schedule_runs(tx: Tx, search: Search) -> dict[str, Any]:
    """The runs of schedules that match, the newest first unless a sort is asked for."""
    hits, keys = _find(tx, search, _RUNS, "r.pk", RUN_FIELDS)
    return {"totalHits": hits, "results": _page(_run(tx, key) for key in keys)}


def _run(tx: Tx, key: int) -> dict[str, Any]:
    row: tuple[Any, ...] = tx.rows("schedule run", key)[0]
    pk, schedule, due_ms, ran_ms, workflow_name, workflow, state, reason, zone, request = row
    run = {
        "executionId": tx.ids.run(pk),
        "scheduleName": schedule,
        "scheduledTime": due_ms,
        "executionTime": ran_ms,
        "workflowName": workflow_name,
        "workflowId": None if workflow is None else tx.ids.workflow(workflow),
        "reason": reason,
        "startWorkflowRequest": msgspec.Raw(request),
        "state": state,
        "zoneId": zone,
    }
    return {name: value for name, value in run.items() if value is not None}


def _page(results: Iterable[dict[str, Any]]) -> list[msgspec.Raw]:
    """The results as JSON, one after the other, so that no more than a page of them is ever in memory."""
    page: list[msgspec.Raw] = []
    total = 0
    for result in results:
        body = msgspec.json.encode(result)
        total += len(body)
        if total > MAX_PAGE_BYTES and page:
            raise bad_request(
                f"the results are larger than {MAX_PAGE_BYTES} bytes in all; ask for fewer at a time: size={len(page)}"
            )
        page.append(msgspec.Raw(body))
    return page


def _find(tx: Tx, search: Search, source: str, key: str, fields: dict[str, str]) -> tuple[int, list[int]]:
    """How many there are, and the keys of the page that was asked for. Only our own words become SQL."""
    if not 0 <= search.size <= MAX_SIZE:
        raise invalid([("search.size", f"Cannot return more than {MAX_SIZE} workflows. Please use pagination.")])
    conditions, values = _conditions(tx, search, fields)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    hits = tx.select(f"SELECT count(DISTINCT {key}) {source}{where}", values)[0][0]
    order = _order(search.sort, fields, key)
    page = tx.select(
        f"SELECT {key} {source}{where} GROUP BY {key} ORDER BY {order} LIMIT ? OFFSET ?",
        [*values, search.size, max(0, search.start)],
    )
    return hits, [row[0] for row in page]


def _conditions(tx: Tx, search: Search, fields: dict[str, str]) -> tuple[list[str], list[Any]]:
    conditions: list[str] = []
    values: list[Any] = []
    for clause in _clauses((search.query or "").strip()):
        condition, found = _condition(tx, clause, fields)
        conditions.append(condition)
        values += found
    if search.free_text not in ("", "*"):
        names = ["w.name", "w.correlation_id", *(["r.schedule", "r.workflow_name"] if fields is RUN_FIELDS else [])]
        conditions.append(f"(w.pk = ? OR {' OR '.join(f'{name} = ?' for name in names)})")
        values += [tx.ids.workflow_pk(search.free_text) or 0, *([search.free_text] * len(names))]
    return conditions, values


def _clauses(query: str) -> list[str]:
    """What AND joins."""
    if len(query) > MAX_QUERY:
        raise bad_request(f"a query has at most {MAX_QUERY} characters, not {len(query)}")
    clauses = _cut_at(_AND, query) if query else []
    if len(clauses) > MAX_CLAUSES:
        raise bad_request(f"a query has at most {MAX_CLAUSES} conditions, not {len(clauses)}")
    return clauses


def _cut_at(separator: re.Pattern[str], text: str) -> list[str]:
    pieces, start = [], 0
    for found in separator.finditer(text):
        if found["cut"]:
            pieces.append(text[start : found.start()].strip())
            start = found.end()
    return [*pieces, text[start:].strip()]


def _condition(tx: Tx, clause: str, fields: dict[str, str]) -> tuple[str, list[Any]]:
    match = _CLAUSE.match(clause)
    value = clause[match.end() :].strip() if match else ""
    if match is None or not value or "\n" in value:
        raise bad_request(f"Incorrectly formatted query string: {clause[:200]}")
    field, operator = match[1], match[2].upper()
    values = _values(value) if operator == "IN" else [_unquoted(value)]
    if field == "workflowId" or (field == "taskId" and fields is TASK_FIELDS):
        key = tx.ids.workflow_pk if field == "workflowId" else tx.ids.task_pk
        column = "w.pk" if field == "workflowId" else "t.pk"
        bound: list[Any] = [key(text) or 0 for text in values]
    elif field == "executionId" and fields is RUN_FIELDS:
        column, bound = "r.pk", [tx.ids.run_pk(text) or 0 for text in values]
    elif field in fields:
        column = fields[field]
        bound = [int(text) if _is_number(column, text) else text for text in values]
    else:
        raise bad_request(f"cannot search by {field!r}; these can be used: {', '.join(sorted(fields))}")
    if operator == "IN":
        return f"{column} IN ({', '.join('?' * len(bound))})", bound
    return f"{column} {operator} ?", bound


def _is_number(column: str, text: str) -> bool:
    """Times, versions and priorities are compared as numbers."""
    numeric = column.endswith("_ms") or column in ("w.version", "w.priority")
    if numeric and not re.fullmatch(r"-?\d{1,18}", text):
        raise bad_request(f"{text[:100]!r} is not a number (times are epoch milliseconds)")
    return numeric


def _values(text: str) -> list[str]:
    inner = f",{text.removeprefix('(').removesuffix(')')}"  # so that a quote can follow the comma, as everywhere else
    values = [_unquoted(part) for part in _cut_at(_COMMA, inner)[1:]]
    if len(values) > MAX_VALUES:
        raise bad_request(f"IN takes at most {MAX_VALUES} values, not {len(values)}")
    return values


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text


def _order(sort: str | None, fields: dict[str, str], key: str) -> str:
    name, _, direction = (sort or "").partition(":")
    column = fields.get(name)
    if column is None:
        return f"{key} DESC"
    return f"{column} {'DESC' if direction.upper() == 'DESC' else 'ASC'}, {key}"


def _workflow_summary(tx: Tx, key: int) -> dict[str, Any]:
    row = WorkflowRow(*(tx.row("workflow", key) or ()))
    data = workflow_data(tx, key)
    summary: dict[str, Any] = {
        "workflowType": row.name,
        "version": row.version,
        "workflowId": tx.ids.workflow(key),
        "correlationId": row.correlation_id,
        "startTime": _iso(row.created_ms),
        "updateTime": _iso(row.updated_ms),
        "endTime": None if row.ended_ms is None else _iso(row.ended_ms),
        "status": row.status,
        "input": data.input.decode(),
        "output": (data.output or b"{}").decode(),
        "inputSize": len(data.input),
        "outputSize": len(data.output or b"{}"),
        "reasonForIncompletion": data.reason,
        "executionTime": (row.ended_ms or row.created_ms) - row.created_ms,
        "priority": row.priority,
        "createdBy": data.created_by,
    }
    return {name: value for name, value in summary.items() if value is not None}


_SUMMARY_FIELDS = (
    "workflowType",
    "correlationId",
    "status",
    "taskDefName",
    "taskType",
    "taskId",
    "reasonForIncompletion",
    "workflowPriority",
    "domain",
    "workerId",
)


def _task_summary(found: dict[str, Any]) -> dict[str, Any]:
    summary = {name: found[name] for name in _SUMMARY_FIELDS if name in found}
    times = {name: _iso(found[name]) for name in ("scheduledTime", "startTime", "updateTime", "endTime")}
    return {
        "workflowId": found["workflowInstanceId"],
        **summary,
        **times,
        "queueWaitTime": found["queueWaitTime"],
        "executionTime": max(0, found["endTime"] - found["startTime"]) if found["endTime"] else 0,
        "input": bytes(found["inputData"]).decode(),
        "output": bytes(found["outputData"]).decode(),
    }


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
