"""`/view/inbox`: the tasks that wait for a person or a signal, oldest first."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.lookup import get_task
from conductor.coordinator.store.statements import COUNT_OF_TASKS_BY_HAND, TASKS_BY_HAND, TaskByHand
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.json_types import JsonObject
from conductor.protocol.views import Inbox, InboxTask

MAX_SIZE = 200
#: The inbox counts at most this many tasks.
MAX_COUNTED = 1000
#: An inbox task shows at most `MAX_FACTS` values of its input, each cut to `MAX_FACT_CHARS`.
MAX_FACTS = 4
MAX_FACT_CHARS = 80


def count_inbox(tx: Tx) -> int:
    """Return the number of tasks that wait for a person or a signal, at most `MAX_COUNTED`."""
    return tx.first(COUNT_OF_TASKS_BY_HAND, MAX_COUNTED) or 0


def list_inbox(tx: Tx, size: int, after: str | None) -> Inbox:
    """Return one page of the inbox.

    Args:
        tx: The transaction to read from.
        size: Maximum number of tasks on the page.
        after: The id of the last task on the previous page; None for the first page.
    """
    if not 1 <= size <= MAX_SIZE:
        raise bad_request(f"size must be between 1 and {MAX_SIZE}, not {size}")
    last = None if after is None else get_task(tx, tx.ids.task_pk(after))
    if after is not None and last is None:
        raise bad_request(f"after={after[:100]!r} is not the id of a task")
    start = (-1, 0) if last is None else (last.scheduled_ms, last.pk)
    found = tx.rows(TASKS_BY_HAND, *start, size + 1)
    tasks = [_make_task(tx, row) for row in found[:size]]
    return Inbox(
        now_ms=tx.now_ms,
        count=count_inbox(tx),
        tasks=tasks,
        next=tasks[-1].task_id if len(found) > size else None,
    )


def _make_task(tx: Tx, row: TaskByHand) -> InboxTask:
    task_input: JsonObject = {} if row.input is None else msgspec.json.decode(row.input)
    human = task_input.get("__humanTaskDefinition")
    title = human.get("displayName") if isinstance(human, dict) else None
    return InboxTask(
        task_id=tx.ids.task(row.pk),
        ref=row.ref,
        type=row.operator,
        title=title[:MAX_FACT_CHARS] if isinstance(title, str) else None,
        since_ms=row.scheduled_ms,
        workflow_id=tx.ids.workflow(row.workflow),
        workflow_name=row.workflow_name,
        workflow_status=row.workflow_status,
        correlation_id=row.correlation_id,
        facts=_read_facts(task_input),
    )


def _read_facts(task_input: JsonObject) -> dict[str, Any]:
    """Return the first strings, numbers and booleans of an input by name, at most `MAX_FACTS`."""
    facts: dict[str, Any] = {}
    for name, value in task_input.items():
        if len(facts) == MAX_FACTS:
            break
        if isinstance(value, str):
            facts[name[:MAX_FACT_CHARS]] = value[:MAX_FACT_CHARS]
        elif isinstance(value, int | float):
            facts[name[:MAX_FACT_CHARS]] = value
    return facts
