"""`/view/workflow/{id}`: one workflow, why it waits, and every attempt at its tasks without their payloads."""

from __future__ import annotations

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.rows import TaskRow
from conductor.coordinator.store.statements import QUEUE_OF, TASKS_WITHOUT_PAYLOAD
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.waiting_facts import MAX_OPEN_TASKS, FactReader, PollRecords, explain_workflow_row
from conductor.coordinator.views.workflow_views import read_whole_workflow
from conductor.protocol.json_types import JsonObject
from conductor.protocol.views import TaskAttempt, WorkflowDetails, base_reference
from conductor.protocol.why_waiting import explain_waiting_task

#: Maximum number of attempts in one answer.
MAX_ATTEMPTS = 5000


def read_details(
    tx: Tx, snapshots: Snapshots, polls: PollRecords, workflow_id: str, *, with_definition: bool
) -> WorkflowDetails:
    """Return a workflow, or raise a 404."""
    row = find_workflow(tx, workflow_id)
    workflow = read_whole_workflow(tx, snapshots, row, with_tasks=False)
    del workflow["tasks"]
    if not with_definition:
        del workflow["workflowDefinition"]
    facts = FactReader(tx, snapshots, polls)
    found = tx.rows(TASKS_WITHOUT_PAYLOAD, row.pk, MAX_ATTEMPTS + 1)
    attempts, explained = [], 0
    for task, reason, output, name in found[:MAX_ATTEMPTS]:
        attempt = _make_attempt(tx, task, reason, output, name)
        if not task.terminal and explained < MAX_OPEN_TASKS:
            attempt.waiting = explain_waiting_task(facts.read_task(row, task), tx.now_ms)
            explained += 1
        attempts.append(attempt)
    return WorkflowDetails(
        now_ms=tx.now_ms,
        workflow=workflow,
        tasks=attempts,
        more_tasks=len(found) > MAX_ATTEMPTS,
        waiting=explain_workflow_row(tx, facts, row),
    )


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


def _read_chosen_case(output: bytes | None) -> str | None:
    """Return the case that a SWITCH (`evaluationResult`) or a DECISION (`caseOutput`) chose."""
    if not output:
        return None
    fields: JsonObject = msgspec.json.decode(output)
    cases = fields.get("evaluationResult") or fields.get("caseOutput") or [None]
    return None if cases[0] is None else str(cases[0])
