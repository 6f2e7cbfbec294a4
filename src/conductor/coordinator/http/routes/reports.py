"""What workers say about tasks: reports, heartbeats, and the verdicts they get."""

from __future__ import annotations

import contextlib
from functools import partial

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
    read = _read_all(request)
    if len(read) > MAX_REPORTS:
        raise bad_request(f"at most {MAX_REPORTS} reports in one request, not {len(read)}")
    reports = [report for report in read if isinstance(report, Report)]
    outcomes: list[Outcome] = []
    for start in range(0, len(reports), REPORTS_PER_TRANSACTION):
        some = reports[start : start + REPORTS_PER_TRANSACTION]
        outcomes += await request.core.write(partial(request.core.judge, reports=some), work=len(some))
    judged = iter(outcomes)
    return as_json([(next(judged) if isinstance(one, Report) else one).wire() for one in read])


def _read_all(request: Request) -> list[Report] | list[Report | Outcome]:
    """The reports of an array. What is wrong with one is the answer to that one, and not to the others."""
    with contextlib.suppress(ApiError):
        return request.json(list[Report])
    return [_read_one(bytes(body)) for body in request.json(list[msgspec.Raw])]


def _read_one(body: bytes) -> Report | Outcome:
    try:
        return read_json(body, Report)
    except ApiError as error:
        return Outcome("", Verdict.REJECTED, error.status, error.message)


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
