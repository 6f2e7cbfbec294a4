"""One workflow to look at: where it stands, why it waits, and every attempt at its tasks, without their payloads."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.rows import TASK_WIDTH, TaskRow, WorkflowRow
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.waiting_facts import MAX_TASKS as MAX_SENTENCES
from conductor.coordinator.views.waiting_facts import Facts, Polls, why
from conductor.coordinator.views.workflow_views import whole_workflow
from conductor.protocol.views import TaskAttempt, WorkflowDetails, base_reference
from conductor.protocol.why_waiting import why_task

#: More attempts than this are not sent at once.
MAX_TASKS = 5000


def execution(
    tx: Tx, snapshots: Snapshots, polls: Polls, workflow_id: str, *, with_definition: bool
) -> WorkflowDetails:
    """One workflow; 404 if unknown."""
    row = find_workflow(tx, workflow_id)
    workflow = whole_workflow(tx, snapshots, row, with_tasks=False)
    del workflow["tasks"]
    if not with_definition:
        del workflow["workflowDefinition"]
    facts = Facts(tx, snapshots, polls)
    found = tx.rows("tasks of workflow without payload", row.pk, MAX_TASKS + 1)
    lines = [_line(tx, one) for one in found[:MAX_TASKS]]
    _add_sentences(tx, facts, row, lines, [TaskRow(*one[:TASK_WIDTH]) for one in found[:MAX_TASKS]])
    return WorkflowDetails(
        now_ms=tx.now_ms,
        workflow=workflow,
        tasks=lines,
        more_tasks=len(found) > MAX_TASKS,
        waiting=why(tx, facts, row),
    )


def _add_sentences(tx: Tx, facts: Facts, workflow: WorkflowRow, lines: list[TaskAttempt], rows: list[TaskRow]) -> None:
    still_open = [(line, row) for line, row in zip(lines, rows, strict=True) if not row.terminal]
    for line, row in still_open[:MAX_SENTENCES]:
        line.waiting = why_task(facts.task(workflow, row), tx.now_ms)


def _line(tx: Tx, found: Any) -> TaskAttempt:
    row = TaskRow(*found[:TASK_WIDTH])
    reason, output, name = found[TASK_WIDTH:]
    queue = None if row.queue is None else tx.fact("queue of", row.queue)
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
        chosen=_chosen(output),
    )


def _chosen(output: bytes | None) -> str | None:
    """What a SWITCH has evaluated to; a DECISION calls it otherwise."""
    if not output:
        return None
    said = msgspec.json.decode(output)
    values = said.get("evaluationResult") or said.get("caseOutput") or [None]
    return None if values[0] is None else str(values[0])
