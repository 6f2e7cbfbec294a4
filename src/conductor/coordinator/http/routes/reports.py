"""What workers say about tasks: reports, heartbeats, and the verdicts they get."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from conductor.coordinator.errors import ApiError, bad_request
from conductor.coordinator.http.app import Answer, Request, Route, as_json, as_text, read_json
from conductor.coordinator.http.routes.tasks import ANNOUNCED
from conductor.coordinator.limits import REPORTS_PER_TRANSACTION
from conductor.coordinator.tasks.report import Outcome, Report
from conductor.wire import LEASE_EXPIRES_HEADER, VERDICT_HEADER, Verdict

#: More reports in one request are refused.
MAX_REPORTS = 10_000


async def update(request: Request) -> Answer:
    """POST /tasks: one report or heartbeat; the answer is the task's id."""
    report = _read(request)
    core = request.core
    (outcome,) = await core.write(lambda tx: core.judge(tx, [report]))
    if outcome.status >= 400:
        outcome.raise_for_verdict()
    return as_text(report.task_id or "", *_verdict_headers(outcome))


async def update_and_poll(request: Request) -> Answer:
    """POST /tasks/update-v2: a report, answered with the next task of the same queue."""
    report = _read(request)
    core = request.core
    outcome, task = await core.write(lambda tx: core.judge_and_poll(tx, report))
    outcome.raise_for_verdict()
    headers = (*_verdict_headers(outcome), *ANNOUNCED)
    return as_json(task, *headers) if task is not None else Answer(204, headers=headers)


async def batch(request: Request) -> Answer:
    """POST /tasks/reports: an array of reports, answered by an array of verdicts in the same order."""
    raw = request.json(list[msgspec.Raw])
    if len(raw) > MAX_REPORTS:
        raise bad_request(f"at most {MAX_REPORTS} reports in one request, not {len(raw)}")
    answers: list[dict[str, Any]] = [{}] * len(raw)
    reports: list[tuple[int, Report]] = []
    for index, body in enumerate(raw):
        try:
            reports.append((index, read_json(bytes(body), Report)))
        except ApiError as error:
            answers[index] = Outcome("", Verdict.REJECTED, error.status, error.message).wire()
    for start in range(0, len(reports), REPORTS_PER_TRANSACTION):
        some = reports[start : start + REPORTS_PER_TRANSACTION]
        outcomes = await request.core.write(partial(request.core.judge, reports=[report for _, report in some]))
        for (index, _), outcome in zip(some, outcomes, strict=True):
            answers[index] = outcome.wire()
    return as_json(answers)


def _read(request: Request) -> Report:
    try:
        return request.json(Report)
    except ApiError as error:
        error.verdict = Verdict.REJECTED
        raise


def _verdict_headers(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    if outcome.verdict is None:
        return ()
    if outcome.lease_expires_ms is not None:
        return ((LEASE_EXPIRES_HEADER, str(outcome.lease_expires_ms)),)
    return ((VERDICT_HEADER, str(outcome.verdict)),)


ROUTES = [
    Route("POST", "/api/tasks", update, body=Report),
    Route("POST", "/api/tasks/update-v2", update_and_poll, body=Report),
    Route("POST", "/api/tasks/reports", batch, body=list[Report]),
]
