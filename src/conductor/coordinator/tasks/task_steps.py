"""The durable steps of tasks. A worker records them under its lease, and the next attempt of the task receives them.

All attempts of a task share their steps: `line` in a step is the attempt that recorded the first step. A task whose
function waits is suspended: it has no lease, and becomes ready when a sleep is over, a message has arrived, or a called
workflow has ended. A sleep that is over is ended in the database only when the task is delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec

from conductor.coordinator.request_errors import ApiError, not_found
from conductor.coordinator.store.row_cache import CachedTask, CachedWorkflow
from conductor.coordinator.store.rows import StepRow, TaskRow
from conductor.coordinator.store.statements import (
    ADD_MESSAGE,
    ADD_STEP,
    END_STEP,
    FORGET_ENDED_CALLS,
    FORGET_STEP,
    REMOVE_STEPS,
    SET_WORKFLOW_OF_STEP,
    STEP,
    STEP_OF_WORKFLOW,
    STEPS_AFTER,
    TASK,
    WAITING_FOR_MESSAGE,
    WAITING_STEPS,
)
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.task_report import NewWait, Report
from conductor.protocol.json_types import JsonObject
from conductor.protocol.steps import (
    CANCELLED_PREFIX,
    MAX_DELIVERED_STEP_BYTES,
    MAX_STEP_BYTES,
    STEP_PAGE_BYTES,
    Step,
    StepError,
    StepKind,
    StepState,
    find_exceeded_limit,
    raw_bytes,
)
from conductor.protocol.wire import STEPS, STEPS_OMITTED, Verdict

_encode = msgspec.json.encode
_NULL = b"null"
#: Values of `suspended`: the task waits for its steps, or one of its waits has ended while a worker holds the task.
SUSPENDED, WOKEN = 1, 2
#: The error type of a step whose called workflow was terminated because its parent had ended. A retry of the task calls
#: the workflow again.
ENDED_WITH_PARENT = "EndedWithParent"


def record(tx: Tx, workflow: CachedWorkflow, task: CachedTask, report: Report) -> tuple[NewWait, ...]:
    """Record the steps of a report whose lease is open. Return those that wait for a message or a workflow.

    A step that is recorded already is not recorded again.

    Raises:
        ApiError: A step is invalid (400), too large (413), or was recorded before with another result (409). Nothing is
            changed.
    """
    row = task.row
    steps = report.steps or []
    new = _find_new(tx, row, steps)
    if not new:
        return ()
    for step in new:
        _check_step(step)
    problem = find_exceeded_limit(new, row.step_count, row.step_bytes)
    if problem is not None:
        raise ApiError(413, problem, verdict=Verdict.REJECTED)
    line = row.step_line or row.pk
    for step in new:
        has_ended = step.state != StepState.WAITING
        result = step.result_json if step.error is None else _encode(step.error)
        tx.run(
            ADD_STEP,
            line=line,
            name=step.name,
            number=step.number,
            kind=step.kind.value,
            state=step.state.value,
            fingerprint=step.fingerprint,
            result=result or _NULL if has_ended else None,
            started_ms=step.started_at or tx.now_ms,
            ended_ms=tx.now_ms if has_ended else None,
            due_at_ms=None if has_ended or step.wait_ms is None else tx.now_ms + step.wait_ms,
        )
    grown_by = sum(step.size for step in new) - sum(_return_message(tx, row, line, step) for step in new)
    workflow.update_task(
        tx, task, step_line=line, step_count=row.step_count + len(new), step_bytes=row.step_bytes + grown_by
    )
    waits = [step for step in new if step.state is StepState.WAITING and step.kind is not StepKind.SLEEP]
    return tuple(NewWait(row.workflow, row.pk, line, step) for step in waits)


def _return_message(tx: Tx, row: TaskRow, line: int, cancellation: Step) -> int:
    """If a step records that the program has cancelled a wait, put the message of that wait back into the queue.

    The wait received the message while a worker held the task, so the program has not seen the message. Return the
    size of the message in bytes; 0 if there is no such message.
    """
    wait = _find_cancelled_wait(tx, line, cancellation.name, cancellation.number)
    if wait is None or wait.state != StepState.DONE or wait.result in (None, _NULL):
        return 0
    tx.run(ADD_MESSAGE, row.workflow, str(uuid4()), wait.name, tx.now_ms, wait.result)
    tx.run(END_STEP, StepState.WAITING.value, None, None, wait.pk)
    return len(wait.result or b"")


def _find_cancelled_wait(tx: Tx, line: int | None, name: str, number: int) -> StepRow | None:
    """Return the wait for a message whose cancellation the step `name` records; None if there is none."""
    if not name.startswith(CANCELLED_PREFIX):
        return None
    found = tx.first(STEP, line, name.removeprefix(CANCELLED_PREFIX), number)
    return found if found is not None and found.kind == StepKind.MESSAGE else None


def _find_new(tx: Tx, row: TaskRow, steps: Sequence[Step]) -> list[Step]:
    """Return the steps that are not recorded yet."""
    new: dict[tuple[str, int], Step] = {}
    for step in steps:
        known = tx.first(STEP, row.step_line, step.name, step.number) if row.step_count else None
        if known is None:
            if new.setdefault((step.name, step.number), step) != step:
                raise ApiError(
                    409,
                    f"step {step.key} occurs twice in this report, with different content",
                    verdict=Verdict.REJECTED,
                )
        elif not _is_same(step, known):
            message = f"step {step.key} of this task was recorded before, with another fingerprint or result"
            raise ApiError(409, message, verdict=Verdict.REJECTED)
    return list(new.values())


def _check_step(step: Step) -> None:
    """Reject a step that no worker could read again, or that would wait forever."""
    problem = None
    if not step.name.isprintable():
        problem = "its name has characters that are not printable"
    elif step.name.startswith(CANCELLED_PREFIX) and (step.kind, step.state) != (StepKind.STEP, StepState.FAILED):
        problem = f"a name that begins with {CANCELLED_PREFIX!r} records the cancellation of another step"
    elif step.state is StepState.WAITING and step.kind is StepKind.STEP:
        problem = "a step that calls a function is recorded after the call, not while it waits"
    elif step.state is StepState.WAITING and step.kind is StepKind.SLEEP and step.wait_ms is None:
        problem = "a sleep needs waitMs"
    elif (step.state is StepState.FAILED) != (step.error is not None):
        problem = "only a failed step has an error, and a failed step needs one"
    error = step.error or StepError("", "")
    try:
        # The result and the parts of the error are raw JSON, which the decoder of the request did not check.
        for part in (step.result_json, raw_bytes(error.args), raw_bytes(error.attributes)):
            if part:
                msgspec.json.decode(part)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as invalid:
        problem = f"its result or error is not valid JSON: {invalid}"
    if problem is not None:
        raise ApiError(400, f"step {step.name[:50]!r} cannot be recorded: {problem}", verdict=Verdict.REJECTED)


def _is_same(step: Step, known: StepRow) -> bool:
    if (step.kind, step.fingerprint) != (known.kind, known.fingerprint):
        return False
    if step.state is StepState.WAITING:
        return True  # the recorded step may have ended in the meantime
    result = step.result_json if step.error is None else _encode(step.error)
    return step.state == known.state and (result or _NULL) == known.result


def forget(tx: Tx, workflow: CachedWorkflow, task: CachedTask, report: Report) -> tuple[NewWait, ...]:
    """Remove the failed steps that have ended this attempt, so that the next attempt runs them again.

    Return the steps that wait for a message again, because their cancellation was removed.
    """
    row = task.row
    count, size, waits = row.step_count, row.step_bytes, list[NewWait]()
    for name, number in report.forget_steps or ():
        step = tx.first(STEP, row.step_line, name, number)
        if step is not None and tx.run(FORGET_STEP, row.step_line, name, number):
            count, size = count - 1, size - len(name) - len(step.fingerprint) - len(step.result or b"")
            wait = _find_cancelled_wait(tx, row.step_line, name, number)
            if wait is not None:
                waits.append(NewWait(row.workflow, row.pk, wait.line, Step(name=wait.name, kind=StepKind.MESSAGE)))
    workflow.update_task(tx, task, step_count=count, step_bytes=max(0, size))
    return tuple(waits)


def forget_all(tx: Tx, workflow: CachedWorkflow, task: CachedTask) -> None:
    """Remove all steps of a task that runs again from its beginning."""
    tx.run(REMOVE_STEPS, task.row.step_line)
    workflow.update_task(tx, task, step_line=None, step_count=0, step_bytes=0, suspended=0)


def forget_ended_calls(tx: Tx, row: TaskRow) -> None:
    """Remove the calls of workflows that have ended only because the workflow of the task had ended.

    `step_count` still includes the removed calls. That is harmless, because the count only serves as a limit.
    """
    tx.run(FORGET_ENDED_CALLS, row.step_line)


def inherit(tx: Tx, workflow: CachedWorkflow, previous: int) -> dict[str, Any]:
    """Return the columns of a retry that link it to the steps of the previous attempt; empty without steps."""
    before = workflow.task(tx, previous)
    if before is None or not before.row.step_count:
        return {}
    row = before.row
    forget_ended_calls(tx, row)
    return {"step_line": row.step_line, "step_count": row.step_count, "step_bytes": row.step_bytes}


# -- waiting ----------------------------------------------------------------------------------------------------------


def find_due(tx: Tx, row: TaskRow) -> tuple[bool, int | None]:
    """Return whether a task that its worker suspends is ready at once, and when the first of its waits is over."""
    if row.suspended == WOKEN:
        return True, None
    waits = tx.rows(WAITING_STEPS, row.step_line)
    due = [step.due_at_ms for step in waits if step.due_at_ms is not None]
    nearest = min(due, default=None)
    return not waits or (nearest is not None and nearest <= tx.now_ms), nearest


def end_due_waits(tx: Tx, workflow: CachedWorkflow, task: CachedTask) -> None:
    """End the waiting steps of a task that have passed their due time. Called when the task is delivered."""
    for step in tx.rows(WAITING_STEPS, task.row.step_line):
        if step.due_at_ms is not None and step.due_at_ms <= tx.now_ms:
            tx.run(END_STEP, StepState.DONE.value, _NULL, tx.now_ms, step.pk)
    workflow.update_task(tx, task, suspended=0)


def end_wait(tx: Tx, step: StepRow, result: bytes | None, message: str | None = None, error_type: str = "") -> int:
    """End the wait of a step with a result, or with an error if `result` is None or too large.

    Returns:
        The size of the stored result or error in bytes.
    """
    state, stored = StepState.DONE, result
    if stored is not None and len(stored) > MAX_STEP_BYTES:
        message = (
            f"the result of step {step.name} has {len(stored)} bytes; the limit is {MAX_STEP_BYTES} per step; "
            "store large data elsewhere and return a reference to it"
        )
        stored = None
    if stored is None:
        state, stored = StepState.FAILED, _encode({"type": error_type, "message": message or ""})
    tx.run(END_STEP, state.value, stored, tx.now_ms, step.pk)
    return len(stored)


def find_call(tx: Tx, child: int) -> StepRow | None:
    """Return the step that waits for the end of a called workflow."""
    return tx.first(STEP_OF_WORKFLOW, child)


def find_message_wait(tx: Tx, row: TaskRow, name: str) -> StepRow | None:
    """Return the first step of a task that waits for a message with this name."""
    return tx.first(WAITING_FOR_MESSAGE, row.step_line, name) if row.step_count else None


def set_called_workflow(tx: Tx, wait: NewWait, child: int) -> None:
    """Record which workflow a step has started."""
    tx.run(SET_WORKFLOW_OF_STEP, child, wait.line, wait.step.name, wait.step.number)


def find_step(tx: Tx, wait: NewWait) -> StepRow | None:
    """Return the row of a step that has begun to wait."""
    return tx.first(STEP, wait.line, wait.step.name, wait.step.number)


# -- reading ----------------------------------------------------------------------------------------------------------


def read_steps(tx: Tx, row: TaskRow, after: int = 0) -> list[StepRow]:
    """Return the steps of all attempts of a task, in the order in which they were recorded.

    Only steps whose database key is greater than `after` are returned.
    """
    return tx.rows(STEPS_AFTER, row.step_line, after) if row.step_count else []


def read_page(tx: Tx, task_id: str, after: int) -> JsonObject:
    """Return a page of a task's steps, or raise a 404. `next` is the key after which the next page begins."""
    row = tx.first(TASK, tx.ids.task_pk(task_id) or 0)
    if row is None:
        raise not_found(f"Task not found for taskId: {task_id}")
    page: list[JsonObject] = []
    size, last = 0, None
    for step in read_steps(tx, row, after):
        if page and size > STEP_PAGE_BYTES:
            return {"steps": page, "next": last}
        page.append(make_step_json(tx, step))
        size, last = size + len(step.result or b""), step.pk
    return {"steps": page, "next": None}


def deliver(tx: Tx, row: TaskRow, answer: JsonObject) -> None:
    """Add the steps to a polled task. If they are too large for the answer, the worker reads them separately."""
    if row.step_bytes > MAX_DELIVERED_STEP_BYTES:
        answer[STEPS_OMITTED] = True
    else:
        answer[STEPS] = [make_step_json(tx, step) for step in read_steps(tx, row)]


def make_step_json(tx: Tx, step: StepRow) -> JsonObject:
    """Return a step as workers and clients read it. `waitMs` is the remaining time of a wait."""
    found: JsonObject = {
        "name": step.name,
        "number": step.number,
        "kind": step.kind,
        "state": step.state,
        "fingerprint": step.fingerprint,
        "startedAt": step.started_ms,
    }
    if step.result is not None:
        found["error" if step.state == StepState.FAILED else "result"] = msgspec.Raw(step.result)
    if step.ended_ms is not None:
        found["endedAt"] = step.ended_ms
    if step.due_at_ms is not None:
        found["dueAt"] = step.due_at_ms
        if step.ended_ms is None:
            found["waitMs"] = max(0, step.due_at_ms - tx.now_ms)
    if step.workflow is not None:
        found["workflowId"] = tx.ids.workflow(step.workflow)
    return found
