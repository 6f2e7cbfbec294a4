"""Searching workflows and tasks with Conductor's query language: `status IN (RUNNING, FAILED) AND startTime > 0`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from conductor.coordinator.definitions import Snapshots
from conductor.coordinator.errors import bad_request, invalid
from conductor.coordinator.queries import task, whole_workflow, workflow_data
from conductor.coordinator.store import Tx
from conductor.coordinator.workflow_row import WorkflowRow

MAX_SIZE = 5000

_CLAUSE = re.compile(r"\s*(\w+)\s*(!=|>=|<=|=|>|<|\bIN\b)\s*(.+?)\s*", re.IGNORECASE)
_AND = re.compile(r"\s+AND\s+", re.IGNORECASE)

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
_WORKFLOWS = "FROM workflow w"
_TASKS = "FROM task t JOIN workflow w ON w.pk = t.workflow JOIN task_type y ON y.pk = t.type"


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
    return {"totalHits": hits, "results": [_workflow_summary(tx, key) for key in keys]}


def whole_workflows(tx: Tx, snapshots: Snapshots, search: Search) -> dict[str, Any]:
    """The workflows that match, whole."""
    hits, keys = _find(tx, search, _WORKFLOWS, "w.pk", WORKFLOW_FIELDS)
    return {"totalHits": hits, "results": _whole_workflows(tx, snapshots, keys)}


def workflows_by_tasks(tx: Tx, search: Search) -> dict[str, Any]:
    """Summaries of the workflows that have a task which matches."""
    hits, keys = _find(tx, search, _TASKS, "w.pk", TASK_FIELDS)
    return {"totalHits": hits, "results": [_workflow_summary(tx, key) for key in keys]}


def whole_workflows_by_tasks(tx: Tx, snapshots: Snapshots, search: Search) -> dict[str, Any]:
    """The workflows that have a task which matches, whole."""
    hits, keys = _find(tx, search, _TASKS, "w.pk", TASK_FIELDS)
    return {"totalHits": hits, "results": _whole_workflows(tx, snapshots, keys)}


def _whole_workflows(tx: Tx, snapshots: Snapshots, keys: list[int]) -> list[dict[str, Any]]:
    rows = [WorkflowRow._make(tx.row("workflow", key) or ()) for key in keys]
    return [whole_workflow(tx, snapshots, row, with_tasks=True) for row in rows]


def tasks(tx: Tx, snapshots: Snapshots, search: Search) -> dict[str, Any]:
    """Summaries of the tasks that match."""
    found = whole_tasks(tx, snapshots, search)
    return {**found, "results": [_task_summary(one) for one in found["results"]]}


def whole_tasks(tx: Tx, snapshots: Snapshots, search: Search) -> dict[str, Any]:
    """The tasks that match, whole."""
    hits, keys = _find(tx, search, _TASKS, "t.pk", TASK_FIELDS)
    return {"totalHits": hits, "results": [task(tx, snapshots, tx.ids.task(key)) for key in keys]}


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
    for clause in _AND.split(search.query.strip()) if search.query and search.query.strip() else []:
        condition, found = _condition(tx, clause, fields, search.query or "")
        conditions.append(condition)
        values += found
    if search.free_text not in ("", "*"):
        conditions.append("(w.pk = ? OR w.name = ? OR w.correlation_id = ?)")
        values += [tx.ids.workflow_pk(search.free_text) or 0, search.free_text, search.free_text]
    return conditions, values


def _condition(tx: Tx, clause: str, fields: dict[str, str], query: str) -> tuple[str, list[Any]]:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        raise bad_request(f"Incorrectly formatted query string: {query}")
    field, operator, value = match[1], match[2].upper(), match[3]
    values = _values(value) if operator == "IN" else [_unquoted(value)]
    if field in ("workflowId", "taskId"):
        key = tx.ids.workflow_pk if field == "workflowId" else tx.ids.task_pk
        column = "w.pk" if field == "workflowId" else "t.pk"
        bound: list[Any] = [key(text) or 0 for text in values]
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
    return [_unquoted(part.strip()) for part in text.strip().removeprefix("(").removesuffix(")").split(",")]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text


def _order(sort: str | None, fields: dict[str, str], key: str) -> str:
    name, _, direction = (sort or "").partition(":")
    column = fields.get(name)
    if column is None:
        return f"{key} DESC"
    return f"{column} {'DESC' if direction.upper() == 'DESC' else 'ASC'}, {key}"


def _workflow_summary(tx: Tx, key: int) -> dict[str, Any]:
    row = WorkflowRow._make(tx.row("workflow", key) or ())
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
