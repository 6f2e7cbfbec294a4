"""Searches for workflows, tasks and runs of schedules in Conductor's query language.

An example of a query: `status IN (RUNNING, FAILED) AND startTime > 0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.request_errors import bad_request, invalid
from conductor.coordinator.store.lookup import workflow_data
from conductor.coordinator.store.statements import SCHEDULE_RUN, WORKFLOW
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.task_views import read_task
from conductor.coordinator.views.workflow_views import read_whole_workflow
from conductor.protocol.json_types import JsonObject

#: Maximum number of results in one answer, and their total size as JSON. A single result may be larger.
MAX_SIZE = 5000
MAX_PAGE_BYTES = 10 * 1024 * 1024
#: Limits of a query: its characters, its conditions, and the values of one IN.
MAX_QUERY_CHARS = 10_000
MAX_CONDITIONS = 100
MAX_VALUES = 1000

#: Field and operator of a condition; the value follows.
_CONDITION = re.compile(r"(\w+)\s*(!=|>=|<=|=|>|<|\bIN\b)", re.IGNORECASE)
#: A value in quotes. AND and commas inside the quotes are a part of the value.
_QUOTED = r"""(?<=[=<>(,\s])(?:'[^'\n]*'|"[^"\n]*")(?=[\s,)]|$)"""
_AND = re.compile(rf"{_QUOTED}|(?P<cut>\sAND)(?=\s)", re.IGNORECASE)
_COMMA = re.compile(rf"{_QUOTED}|(?P<cut>,)")

#: Field of a query → column.
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
    """A search, as the query string of a request describes it."""

    start: int = 0
    size: int = 100
    sort: str | None = None
    free_text: str = "*"
    query: str | None = None


class SearchPage(msgspec.Struct, rename="camel"):
    """A page of results, and the number of all matches."""

    total_hits: int
    results: list[msgspec.Raw]


class _Condition(NamedTuple):
    """A condition in SQL, and the values that are bound to it."""

    sql: str
    values: list[str | int]


def search_workflows(tx: Tx, _snapshots: Snapshots, search: Search) -> SearchPage:
    """Return summaries of the workflows that match."""
    hits, keys = _find(tx, search, _WORKFLOWS, "w.pk", WORKFLOW_FIELDS)
    return SearchPage(hits, encode_page(_summarize_workflow(tx, key) for key in keys))


def search_whole_workflows(tx: Tx, snapshots: Snapshots, search: Search) -> SearchPage:
    """Return the workflows that match."""
    hits, keys = _find(tx, search, _WORKFLOWS, "w.pk", WORKFLOW_FIELDS)
    return SearchPage(hits, encode_page(_read_workflow(tx, snapshots, key) for key in keys))


def search_workflows_by_tasks(tx: Tx, _snapshots: Snapshots, search: Search) -> SearchPage:
    """Return summaries of the workflows that have a task that matches."""
    hits, keys = _find(tx, search, _TASKS, "w.pk", TASK_FIELDS)
    return SearchPage(hits, encode_page(_summarize_workflow(tx, key) for key in keys))


def search_whole_workflows_by_tasks(tx: Tx, snapshots: Snapshots, search: Search) -> SearchPage:
    """Return the workflows that have a task that matches."""
    hits, keys = _find(tx, search, _TASKS, "w.pk", TASK_FIELDS)
    return SearchPage(hits, encode_page(_read_workflow(tx, snapshots, key) for key in keys))


def search_tasks(tx: Tx, snapshots: Snapshots, search: Search) -> SearchPage:
    """Return summaries of the tasks that match."""
    hits, keys = _find(tx, search, _TASKS, "t.pk", TASK_FIELDS)
    return SearchPage(hits, encode_page(_summarize_task(read_task(tx, snapshots, tx.ids.task(key))) for key in keys))


def search_whole_tasks(tx: Tx, snapshots: Snapshots, search: Search) -> SearchPage:
    """Return the tasks that match."""
    hits, keys = _find(tx, search, _TASKS, "t.pk", TASK_FIELDS)
    return SearchPage(hits, encode_page(read_task(tx, snapshots, tx.ids.task(key)) for key in keys))


def search_schedule_runs(tx: Tx, search: Search) -> SearchPage:
    """Return the runs of schedules that match, newest first unless the search is sorted."""
    hits, keys = _find(tx, search, _RUNS, "r.pk", RUN_FIELDS)
    return SearchPage(hits, encode_page(_read_run(tx, key) for key in keys))


def _read_workflow(tx: Tx, snapshots: Snapshots, key: int) -> JsonObject:
    return read_whole_workflow(tx, snapshots, tx.rows(WORKFLOW, key)[0], with_tasks=True)


def _read_run(tx: Tx, key: int) -> JsonObject:
    found = tx.rows(SCHEDULE_RUN, key)[0]
    run = {
        "executionId": tx.ids.run(found.pk),
        "scheduleName": found.schedule,
        "scheduledTime": found.due_ms,
        "executionTime": found.ran_ms,
        "workflowName": found.workflow_name,
        "workflowId": None if found.workflow is None else tx.ids.workflow(found.workflow),
        "reason": found.reason,
        "startWorkflowRequest": msgspec.Raw(found.request),
        "state": found.state,
        "zoneId": found.zone,
    }
    return {name: value for name, value in run.items() if value is not None}


def encode_page(results: Iterable[JsonObject], parameter: str = "size") -> list[msgspec.Raw]:
    """Return the encoded results. They are encoded one by one, so that at most `MAX_PAGE_BYTES` are in memory.

    Raises:
        ApiError: The results are larger than that. The message names the query parameter that limits their number.
    """
    page: list[msgspec.Raw] = []
    total = 0
    for result in results:
        body = msgspec.json.encode(result)
        total += len(body)
        if total > MAX_PAGE_BYTES and page:
            fewer = f"{parameter}={len(page)}"
            raise bad_request(
                f"the results are larger than {MAX_PAGE_BYTES} bytes in all; ask for fewer at a time: {fewer}"
            )
        page.append(msgspec.Raw(body))
    return page


def _find(tx: Tx, search: Search, source: str, key: str, fields: dict[str, str]) -> tuple[int, list[int]]:
    """Return the number of matches and the keys of the page. Values are bound, never part of the SQL text."""
    if not 0 <= search.size <= MAX_SIZE:
        raise invalid([("search.size", f"Cannot return more than {MAX_SIZE} workflows. Please use pagination.")])
    conditions = _build_conditions(tx, search, fields)
    where = f" WHERE {' AND '.join(condition.sql for condition in conditions)}" if conditions else ""
    values = [value for condition in conditions for value in condition.values]
    hits = tx.select(f"SELECT count(DISTINCT {key}) {source}{where}", values)[0][0]
    order = _build_order(search.sort, fields, key)
    page = tx.select(
        f"SELECT {key} {source}{where} GROUP BY {key} ORDER BY {order} LIMIT ? OFFSET ?",
        [*values, search.size, max(0, search.start)],
    )
    return hits, [row[0] for row in page]


def _build_conditions(tx: Tx, search: Search, fields: dict[str, str]) -> list[_Condition]:
    conditions = [_build_condition(tx, text, fields) for text in _split_query((search.query or "").strip())]
    if search.free_text not in ("", "*"):
        names = ["w.name", "w.correlation_id", *(["r.schedule", "r.workflow_name"] if fields is RUN_FIELDS else [])]
        sql = f"(w.pk = ? OR {' OR '.join(f'{name} = ?' for name in names)})"
        pk = tx.ids.workflow_pk(search.free_text) or 0
        conditions.append(_Condition(sql, [pk, *([search.free_text] * len(names))]))
    return conditions


def _split_query(query: str) -> list[str]:
    """Return the conditions of a query, which AND separates."""
    if len(query) > MAX_QUERY_CHARS:
        raise bad_request(f"a query has at most {MAX_QUERY_CHARS} characters, not {len(query)}")
    conditions = _split_at(_AND, query) if query else []
    if len(conditions) > MAX_CONDITIONS:
        raise bad_request(f"a query has at most {MAX_CONDITIONS} conditions, not {len(conditions)}")
    return conditions


def _split_at(separator: re.Pattern[str], text: str) -> list[str]:
    pieces, start = [], 0
    for found in separator.finditer(text):
        if found["cut"]:
            pieces.append(text[start : found.start()].strip())
            start = found.end()
    return [*pieces, text[start:].strip()]


def _build_condition(tx: Tx, text: str, fields: dict[str, str]) -> _Condition:
    match = _CONDITION.match(text)
    value = text[match.end() :].strip() if match else ""
    if match is None or not value or "\n" in value:
        raise bad_request(f"Incorrectly formatted query string: {text[:200]}")
    field, operator = match[1], match[2].upper()
    values = _split_values(value) if operator == "IN" else [_unquote(value)]
    bound: list[str | int]
    if field == "workflowId":
        column, bound = "w.pk", [tx.ids.workflow_pk(value) or 0 for value in values]
    elif field == "taskId" and fields is TASK_FIELDS:
        column, bound = "t.pk", [tx.ids.task_pk(value) or 0 for value in values]
    elif field == "executionId" and fields is RUN_FIELDS:
        column, bound = "r.pk", [tx.ids.run_pk(value) or 0 for value in values]
    elif field in fields:
        column = fields[field]
        bound = [int(value) if _is_number(column, value) else value for value in values]
    else:
        raise bad_request(f"cannot search by {field!r}; these can be used: {', '.join(sorted(fields))}")
    if operator == "IN":
        return _Condition(f"{column} IN ({', '.join('?' * len(bound))})", bound)
    return _Condition(f"{column} {operator} ?", bound)


def _is_number(column: str, text: str) -> bool:
    """Return whether a column holds numbers: times, versions and priorities.

    Raises:
        ApiError: The column holds numbers, but `text` is not a number.
    """
    is_numeric = column.endswith("_ms") or column in ("w.version", "w.priority")
    if is_numeric and not re.fullmatch(r"-?\d{1,18}", text):
        raise bad_request(f"{text[:100]!r} is not a number (times are epoch milliseconds)")
    return is_numeric


def _split_values(text: str) -> list[str]:
    inner = f",{text.removeprefix('(').removesuffix(')')}"  # `_COMMA` recognizes a quote only after a comma
    values = [_unquote(part) for part in _split_at(_COMMA, inner)[1:]]
    if len(values) > MAX_VALUES:
        raise bad_request(f"IN takes at most {MAX_VALUES} values, not {len(values)}")
    return values


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text


def _build_order(sort: str | None, fields: dict[str, str], key: str) -> str:
    name, _, direction = (sort or "").partition(":")
    column = fields.get(name)
    if column is None:
        return f"{key} DESC"
    direction = "DESC" if direction.upper() == "DESC" else "ASC"
    return f"{column} {direction}, {key} {direction}"


def _summarize_workflow(tx: Tx, key: int) -> JsonObject:
    row = tx.rows(WORKFLOW, key)[0]
    data = workflow_data(tx, key)
    summary: JsonObject = {
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


def _summarize_task(task: JsonObject) -> JsonObject:
    summary = {name: task[name] for name in _SUMMARY_FIELDS if name in task}
    times = {name: _iso(task[name]) for name in ("scheduledTime", "startTime", "updateTime", "endTime")}
    return {
        "workflowId": task["workflowInstanceId"],
        **summary,
        **times,
        "queueWaitTime": task["queueWaitTime"],
        "executionTime": max(0, task["endTime"] - task["startTime"]) if task["endTime"] else 0,
        "input": bytes(task["inputData"]).decode(),
        "output": bytes(task["outputData"]).decode(),
    }


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
