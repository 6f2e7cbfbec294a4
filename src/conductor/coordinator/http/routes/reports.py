"""Reports and heartbeats of workers, and their verdicts."""

from __future__ import annotations

import contextlib
from functools import partial

import msgspec
from msgspec.structs import replace

from conductor.coordinator.audit import Action
from conductor.coordinator.http.answer import Answer, as_json, as_text
from conductor.coordinator.http.memory_budget import UNCOUNTED_BYTES
from conductor.coordinator.http.permissions import check_may_poll, report_check
from conductor.coordinator.http.request import ApiRequest, read_json
from conductor.coordinator.http.routes.tasks import deliver_or_requeue
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.limits import MAX_POLL_BYTES, REPORTS_PER_TRANSACTION
from conductor.coordinator.request_errors import ApiError, bad_request
from conductor.coordinator.store.lookup import get_task, get_workflow
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.task_authority import TaskCheck
from conductor.coordinator.tasks.task_queue import count_task_bytes
from conductor.coordinator.tasks.task_report import Outcome, Report
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import LEASE_EXPIRES_HEADER, NEXT_QUERY, VERDICT_HEADER, Verdict

#: Maximum number of reports in one request.
MAX_REPORTS = 10_000


async def update(request: ApiRequest) -> Answer:
    """POST /tasks: accept a report or heartbeat; return the task's id."""
    report, tasks, check = _read_report(request), request.tasks, report_check(request)

    def judge(tx: Tx) -> Outcome:
        (outcome,) = tasks.judge(tx, [report], check=check)
        if _is_by_hand(request, outcome):
            _record_report(request, tx, report)
        return outcome

    outcome = await request.write(judge)
    if outcome.status >= 400:
        outcome = outcome.as_answer_to(report)
        outcome.raise_for_verdict()
    return as_text(report.task_id or "", *verdict_headers(outcome))


async def update_and_poll(request: ApiRequest) -> Answer:
    """POST /tasks/update-v2: accept a report; return the next task of the same queue, or 204."""
    report, tasks, check = _read_report(request), request.tasks, report_check(request)

    def judge(tx: Tx) -> tuple[Outcome, JsonObject | None]:
        outcome, task = tasks.judge_and_poll(tx, report, check)
        if _is_by_hand(request, outcome):
            _record_report(request, tx, report)
        return outcome, task

    outcome, task = await request.write(judge)
    outcome = outcome.as_answer_to(report)
    outcome.raise_for_verdict()
    headers = (*verdict_headers(outcome), *request.core.poll_headers)
    nothing = Answer(204, headers=headers)
    return deliver_or_requeue(request, [task], as_json(task, *headers), nothing) if task is not None else nothing


async def batch(request: ApiRequest) -> Answer:
    """POST /tasks/reports: accept an array of reports; return an array of verdicts in the same order.

    With `next=N` the workers that sent the first N reports are granted one more task each, from the queue of the
    reported task. A verdict and the lease that is granted with it are committed together.
    """
    read = _read_batch(request)
    if len(read) > MAX_REPORTS:
        raise bad_request(f"at most {MAX_REPORTS} reports in one request, not {len(read)}")
    wanted = request.query_int(NEXT_QUERY, 0)
    if not 0 <= wanted <= len(read):
        raise bad_request(f"{NEXT_QUERY} is {wanted}; it must be between 0 and {len(read)}, the number of reports")
    if wanted:
        check_may_poll(request)
    check = report_check(request)
    reports = [report for report in read if isinstance(report, Report)]
    wanted = sum(isinstance(report, Report) for report in read[:wanted])
    outcomes: list[Outcome] = []
    size = 0
    for start in range(0, len(reports), REPORTS_PER_TRANSACTION):
        some = reports[start : start + REPORTS_PER_TRANSACTION]
        left = max(0, min(wanted - start, len(some))) if size <= MAX_POLL_BYTES else 0
        judge = partial(_judge_batch, request=request, reports=some, wanted=left, check=check)
        found = await request.write(judge, work=len(some))
        size += sum(count_task_bytes(outcome.next_task) for outcome in found if outcome.next_task is not None)
        outcomes += [outcome.as_answer_to(report) for outcome, report in zip(found, some, strict=True)]
    judged = iter(outcomes)
    answered = [next(judged) if isinstance(one, Report) else one for one in read]
    answer = as_json([outcome.wire() for outcome in answered])
    next_tasks = [outcome.next_task for outcome in answered if outcome.next_task is not None]
    if not next_tasks or len(answer.body) <= UNCOUNTED_BYTES:
        return answer
    verdicts = as_json([replace(outcome, next_task=None).wire() for outcome in answered])
    return deliver_or_requeue(request, next_tasks, answer, verdicts)


def _judge_batch(
    tx: Tx, request: ApiRequest, reports: list[Report], wanted: int, check: TaskCheck | None
) -> list[Outcome]:
    outcomes = request.tasks.judge(tx, reports, wanted, check)
    for report, outcome in zip(reports, outcomes, strict=True):
        if _is_by_hand(request, outcome):
            _record_report(request, tx, report)
    return outcomes


def _is_by_hand(request: ApiRequest, outcome: Outcome) -> bool:
    """Return whether a report has ended a task that no worker polled, or comes from a client that cannot poll.

    A task without a queue cannot be polled, and a client with the key of an operator cannot poll.
    """
    if Access.POLL not in request.identity.levels:
        return outcome.is_stored
    return outcome.workflow is not None and (outcome.ended_queue is None or not outcome.was_polled)


def _record_report(request: ApiRequest, tx: Tx, report: Report) -> None:
    row = get_task(tx, tx.ids.task_pk(report.task_id or ""))
    if row is not None:
        record_by_hand(request, tx, row, str(report.status))


def record_by_hand(request: ApiRequest, tx: Tx, row: TaskRow, status: str) -> None:
    """Record that a client has set the status of a task by hand."""
    workflow = get_workflow(tx, row.workflow)
    request.audit(tx, Action.UPDATE_TASK, workflow.name, workflow=row.workflow, reason=f"{row.ref}: {status}")


def _read_batch(request: ApiRequest) -> list[Report] | list[Report | Outcome]:
    """Return the reports of an array. An invalid report becomes a REJECTED outcome, so that the others are judged."""
    with contextlib.suppress(ApiError):
        return request.json(list[Report])
    return [_read_batch_item(bytes(body)) for body in request.json(list[msgspec.Raw])]


def _read_batch_item(body: bytes) -> Report | Outcome:
    try:
        return read_json(body, Report)
    except ApiError as error:
        return Outcome("", Verdict.REJECTED, error.status, error.message)


def _read_report(request: ApiRequest) -> Report:
    try:
        return request.json(Report)
    except ApiError as error:
        error.verdict = Verdict.REJECTED
        raise


def verdict_headers(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    """Return the headers that carry a verdict; none for clients without leases."""
    if outcome.verdict is None:
        return ()
    if outcome.lease_expires_ms is not None:
        return ((LEASE_EXPIRES_HEADER, str(outcome.lease_expires_ms)),)
    return ((VERDICT_HEADER, str(outcome.verdict)),)


ROUTES = [
    Route("POST", "/api/tasks", update, Access.REPORT, body=Report),
    Route("POST", "/api/tasks/update-v2", update_and_poll, Access.POLL, body=Report),
    Route("POST", "/api/tasks/reports", batch, Access.REPORT, body=list[Report], query={NEXT_QUERY: "integer"}),
]
