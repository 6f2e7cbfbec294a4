"""Who holds what, until when: the leases that are open, those that end soonest first."""

from __future__ import annotations

from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.views import OpenLease

MAX_SIZE = 200


def leases(tx: Tx, size: int) -> list[OpenLease]:
    """At most `size` of them. Those of the coordinator's own workers are its own affair."""
    if not 1 <= size <= MAX_SIZE:
        raise bad_request(f"size must be between 1 and {MAX_SIZE}, not {size}")
    return [
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
            task,
            name,
            domain,
            ref,
            workflow,
            workflow_name,
            worker_id,
            retries,
            started_ms,
            heard_ms,
            until_ms,
        ) in tx.rows("open leases", size)
    ]
