"""`/view/workflow/{id}`: one workflow, why it waits, and every attempt at its tasks without their payloads."""

from __future__ import annotations

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.store.lookup import find_workflow, get_task, get_workflow
from conductor.coordinator.store.rows import TaskRow, WorkflowRow
from conductor.coordinator.store.statements import (
    NEWEST_STEPS,
    QUEUE_OF,
    TASKS_WITHOUT_PAYLOAD,
    WAITING_STEPS,
    WORKFLOW,
    StepPreview,
)
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.waiting_facts import MAX_OPEN_TASKS, FactReader, PollRecords, explain_workflow_row
from conductor.coordinator.views.workflow_views import read_whole_workflow
from conductor.protocol.json_types import JsonObject
from conductor.protocol.steps import CANCELLED_PREFIX
from conductor.protocol.views import RelatedWorkflow, StepView, TaskAttempt, WorkflowDetails, base_reference
from conductor.protocol.why_waiting import StepFacts, Waiting, describe_wait, explain_waiting_task

#: Maximum number of attempts in one answer.
MAX_ATTEMPTS = 5000
#: Maximum number of parents, and of nested sub-workflows, in one answer.
MAX_RELATED = 10
#: Maximum number of durable steps of one task. After `MAX_STEPS` steps in one answer, further tasks come without their
#: steps.
MAX_STEPS_PER_TASK = 200
MAX_STEPS = 2000
#: A longer result of a durable step is cut.
MAX_RESULT_CHARS = 300


def read_details(
    tx: Tx, snapshots: Snapshots, polls: PollRecords, workflow_id: str, *, with_definition: bool
) -> WorkflowDetails:
    """Return the details of a workflow, or raise a 404."""
    row = find_workflow(tx, workflow_id)
    workflow = read_whole_workflow(tx, snapshots, row, with_tasks=False)
    del workflow["tasks"]
    if not with_definition:
        del workflow["workflowDefinition"]
    facts = FactReader(tx, snapshots, polls)
    waiting = explain_workflow_row(tx, facts, row)
    found = tx.rows(TASKS_WITHOUT_PAYLOAD, row.pk, MAX_ATTEMPTS + 1)
    attempts, explained, shown_steps = [], 0, 0
    for task, reason, output, name in found[:MAX_ATTEMPTS]:
        attempt = _make_attempt(tx, task, reason, output, name)
        if not task.terminal and explained < MAX_OPEN_TASKS:
            attempt.waiting = explain_waiting_task(facts.read_task(row, task), tx.now_ms)
            explained += 1
        if task.step_count and not task.retried and shown_steps < MAX_STEPS:
            attempt.step_count, attempt.steps = task.step_count, _read_steps(tx, task)
            shown_steps += len(attempt.steps)
        attempts.append(attempt)
    return WorkflowDetails(
        now_ms=tx.now_ms,
        workflow=workflow,
        tasks=attempts,
        more_tasks=len(found) > MAX_ATTEMPTS,
        waiting=waiting,
        parents=_list_parents(tx, row),
        causes=_list_causes(tx, facts, waiting),
    )


def _list_parents(tx: Tx, row: WorkflowRow) -> list[RelatedWorkflow]:
    """Return the workflows that started this one, the outermost first."""
    parents: list[RelatedWorkflow] = []
    task = get_task(tx, row.parent_task)
    while task is not None and len(parents) < MAX_RELATED:
        parent = get_workflow(tx, task.workflow)
        parents.append(_make_related(tx, parent))
        task = get_task(tx, parent.parent_task)
    return parents[::-1]


def _list_causes(tx: Tx, facts: FactReader, waiting: Waiting) -> list[RelatedWorkflow]:
    """Return the sub-workflow that a workflow waits for, or that made it fail, then its sub-workflow, and so on.

    A workflow that a durable step has called counts as a sub-workflow.
    """
    causes: list[RelatedWorkflow] = []
    while waiting.task_id is not None and len(causes) < MAX_RELATED:
        task = get_task(tx, tx.ids.task_pk(waiting.task_id))
        child = None if task is None else _find_child(tx, task)
        if child is None:
            break
        waiting = explain_workflow_row(tx, facts, child)
        causes.append(_make_related(tx, child, waiting))
    return causes


def _find_child(tx: Tx, task: TaskRow) -> WorkflowRow | None:
    """Return the sub-workflow of a task, or the workflow that its first waiting step has called."""
    child = task.sub_workflow
    if child is None and task.suspended and not task.terminal:
        child = next((step.workflow for step in tx.rows(WAITING_STEPS, task.step_line)[:1]), None)
    return None if child is None else tx.first(WORKFLOW, child)


def _make_related(tx: Tx, row: WorkflowRow, waiting: Waiting | None = None) -> RelatedWorkflow:
    return RelatedWorkflow(workflow_id=tx.ids.workflow(row.pk), name=row.name, status=row.status, waiting=waiting)


def _make_attempt(tx: Tx, row: TaskRow, reason: str | None, output: bytes | None, name: str) -> TaskAttempt:
    queue = None if row.queue is None else tx.cached_first(QUEUE_OF, row.queue)
    return TaskAttempt(
        task_id=tx.ids.task(row.pk),
        ref=row.ref,
        base_ref=base_reference(row.ref, row.iteration, row.operator),
        name=name,
        type=row.operator,
        status=row.status,
        seq=row.seq,
        iteration=row.iteration,
        retry_count=row.retry_count,
        retried=bool(row.retried),
        scheduled_ms=row.scheduled_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        updated_ms=row.updated_ms,
        start_delay_s=row.start_delay_s,
        worker_id=row.worker_id,
        former_workers=msgspec.json.decode(row.former_workers) if row.former_workers else [],
        lease_until_ms=row.lease_until_ms,
        due_at_ms=row.due_at_ms,
        ready_since_ms=row.ready_since_ms,
        domain=queue[1] if queue else "",
        poll_count=row.poll_count,
        sub_workflow_id=None if row.sub_workflow is None else tx.ids.workflow(row.sub_workflow),
        reason=reason,
        chosen=_read_chosen_case(output),
    )


def _read_steps(tx: Tx, row: TaskRow) -> list[StepView]:
    """Return the newest durable steps of a task, in the order in which they were recorded."""
    found = tx.rows(NEWEST_STEPS, 4 * MAX_RESULT_CHARS, row.step_line, MAX_STEPS_PER_TASK)
    cancelled = {
        (step.name.removeprefix(CANCELLED_PREFIX), step.number)
        for step in found
        if step.name.startswith(CANCELLED_PREFIX)
    }
    return [_make_step(tx, step, is_cancelled=(step.name, step.number) in cancelled) for step in reversed(found)]


def _make_step(tx: Tx, step: StepPreview, *, is_cancelled: bool) -> StepView:
    workflow_id = None if step.workflow is None else tx.ids.workflow(step.workflow)
    waits = None
    if step.ended_ms is None:
        facts = StepFacts(
            name=step.name, kind=step.kind, since_ms=step.started_ms, due_at_ms=step.due_at_ms, workflow_id=workflow_id
        )
        waits = "was cancelled by the function" if is_cancelled else describe_wait(facts, tx.now_ms)
    return StepView(
        name=step.name,
        number=step.number,
        kind=step.kind,
        state=step.state,
        started_ms=step.started_ms,
        ended_ms=step.ended_ms,
        due_at_ms=step.due_at_ms,
        workflow_id=workflow_id,
        result=None if step.result is None else step.result.decode("utf-8", "replace")[:MAX_RESULT_CHARS],
        result_bytes=step.result_bytes or 0,
        waits=waits,
    )


def _read_chosen_case(output: bytes | None) -> str | None:
    """Return the case that a SWITCH (`evaluationResult`) or a DECISION (`caseOutput`) chose."""
    if not output:
        return None
    fields: JsonObject = msgspec.json.decode(output)
    cases = fields.get("evaluationResult") or fields.get("caseOutput") or [None]
    return None if cases[0] is None else str(cases[0])
