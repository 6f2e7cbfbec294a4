"""`/view/leases`: the open leases, sorted by the time at which they expire."""

from __future__ import annotations

from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.statements import OPEN_LEASES
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.views import OpenLease, OpenLeases

MAX_SIZE = 200


def list_leases(tx: Tx, size: int) -> OpenLeases:
    """Return at most `size` leases. Leases of the coordinator's own system tasks are left out."""
    if not 1 <= size <= MAX_SIZE:
        raise bad_request(f"size must be between 1 and {MAX_SIZE}, not {size}")
    leases = [
        OpenLease(
            task_id=tx.ids.task(task),
            name=name,
            domain=domain,
            ref=ref,
            workflow_id=tx.ids.workflow(workflow),
            workflow_name=workflow_name,
            worker_id=worker_id,
            attempt=retries + 1,
            started_ms=started_ms,
            heard_ms=heard_ms,
            until_ms=until_ms,
        )
        for (
            task, name, domain, ref, workflow, workflow_name, worker_id, retries, started_ms, heard_ms, until_ms
        ) in tx.rows(OPEN_LEASES, size)
    ]  # fmt: skip
    return OpenLeases(now_ms=tx.now_ms, leases=leases)
