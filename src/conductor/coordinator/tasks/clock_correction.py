"""Shifts the times of running and delayed tasks after a jump of the wall clock (`store/clock_jumps.py`).

Without the shift, setting the clock forward by an hour would end every lease, and setting it back would extend every
lease by an hour. Schedules, WAIT tasks, waits of durable steps, and the timeouts of workflows and queues are not
shifted, because they follow the wall clock.
"""

from __future__ import annotations

from typing import Any

from conductor.coordinator.store.statements import RUNNING_OR_DELAYED_TASKS, SHIFT_RATE_STARTS
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.tasks.task_queue import update_task_and_wake


def shift_running_times(tx: Tx, jump_ms: int) -> None:
    """Shift the leases of running tasks, the delays of retries and callbacks, and the windows of rate limits."""
    rows = tx.rows(RUNNING_OR_DELAYED_TASKS)
    tx.cache.load(tx, [row.workflow for row in rows])
    for row in rows:
        if row.suspended and row.lease_until_ms is None:
            continue
        columns: dict[str, Any] = {}
        if row.lease_until_ms is not None:
            columns |= {"lease_until_ms": row.lease_until_ms + jump_ms, "started_ms": row.started_ms + jump_ms}
        if row.due_at_ms is not None:
            columns["due_at_ms"] = row.due_at_ms + jump_ms
        workflow, task = tx.cache.get_task(tx, row.workflow, row.pk)
        update_task_and_wake(tx, workflow, task, **columns)
    tx.run(SHIFT_RATE_STARTS, jump_ms)
