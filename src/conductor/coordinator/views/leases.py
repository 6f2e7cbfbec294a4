"""Who holds what, until when: the leases that are open, those that end soonest first."""

from __future__ import annotations

from msgspec import Struct

from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.transaction import Tx

MAX_SIZE = 200


class Lease(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A task in the hands of a worker."""

    task_id: str
    name: str
    domain: str = ""
    ref: str
    workflow_id: str
    workflow_name: str
    worker_id: str | None = None
    #: Which attempt at the task this is; the first is 1.
    attempt: int
    #: When the task was first given to a worker.
    started_ms: int
    #: When its worker was last heard of: the poll, or a heartbeat.
    heard_ms: int
    until_ms: int


def leases(tx: Tx, size: int) -> list[Lease]:
    """At most `size` of them. Those of the coordinator's own workers are its own affair."""
    if not 1 <= size <= MAX_SIZE:
        raise bad_request(f"size must be between 1 and {MAX_SIZE}, not {size}")
    return [
        Lease(
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
