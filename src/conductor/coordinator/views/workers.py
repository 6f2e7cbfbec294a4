"""`/view/workers`: the worker processes, from their polls and from the tasks that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from conductor.coordinator.definitions.workflow_plan import SYSTEM_DOMAIN
from conductor.coordinator.store.statements import LEASED_BY_QUEUE, NEWEST_RUNS, QUEUES_OF_ALL_TYPES
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views.queue_load import NEWEST_TASKS, quantile
from conductor.protocol.views import WorkerQueue, WorkerState, WorkerStates

#: A worker counts as live if it polled within this time. A worker with free slots polls at least every few seconds.
LIVE_MS = 60_000


class WorkerPoll(NamedTuple):
    """The last poll of one worker for one queue, and the facts that the worker sent with it."""

    at_ms: int
    #: How many tasks of this type the worker can run at the same time; 0 if unknown.
    slots: int = 0
    #: Name and version of the SDK, or a user agent.
    client: str = ""


#: (worker id, task type, domain) → the last poll.
WorkerPolls = Mapping[tuple[str | None, str, str], WorkerPoll]


def list_workers(tx: Tx, polls: WorkerPolls, known_since_ms: int) -> WorkerStates:
    """Return the workers: live ones first, then those that polled last."""
    queues: dict[str | None, dict[tuple[str, str], WorkerQueue]] = {}
    clients: dict[str | None, str] = {}
    for (worker_id, name, domain), poll in polls.items():
        queue = WorkerQueue(name=name, domain=domain, last_poll_ms=poll.at_ms, slots=poll.slots)
        queues.setdefault(worker_id, {})[name, domain] = queue
        if poll.client:
            clients[worker_id] = poll.client
    names = {queue.pk: (queue.task_type, queue.domain) for queue in tx.rows(QUEUES_OF_ALL_TYPES)}
    for held in tx.rows(LEASED_BY_QUEUE):
        name, domain = names[held.queue]
        if domain.startswith(SYSTEM_DOMAIN):
            continue
        known = queues.setdefault(held.worker_id, {})
        queue = known.setdefault((name, domain), WorkerQueue(name=name, domain=domain))
        queue.in_hand = held.number
    runs: dict[str | None, list[int]] = {}
    for run in tx.rows(NEWEST_RUNS, NEWEST_TASKS):
        runs.setdefault(run.worker_id, []).append(run.duration_ms)
    workers = [
        _describe(tx, worker_id, found, clients.get(worker_id, ""), sorted(runs.get(worker_id, [])))
        for worker_id, found in queues.items()
    ]
    workers.sort(key=lambda worker: (not worker.is_live, -(worker.last_poll_ms or 0), worker.worker_id or ""))
    return WorkerStates(now_ms=tx.now_ms, known_since_ms=known_since_ms, workers=workers)


def _describe(
    tx: Tx, worker_id: str | None, queues: dict[tuple[str, str], WorkerQueue], client: str, runs_ms: list[int]
) -> WorkerState:
    last_poll_ms = max((queue.last_poll_ms or 0 for queue in queues.values()), default=0) or None
    in_hand = sum(queue.in_hand for queue in queues.values())
    return WorkerState(
        worker_id=worker_id,
        is_live=in_hand > 0 or (last_poll_ms is not None and tx.now_ms - last_poll_ms <= LIVE_MS),
        last_poll_ms=last_poll_ms,
        in_hand=in_hand,
        slots=sum(queue.slots for queue in queues.values()),
        client=client,
        runs=len(runs_ms),
        run_p50_ms=quantile(runs_ms, 0.5),
        run_p95_ms=quantile(runs_ms, 0.95),
        queues=[queues[key] for key in sorted(queues)],
    )
