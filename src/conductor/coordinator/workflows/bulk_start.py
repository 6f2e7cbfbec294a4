"""Starts many workflows in few transactions of bounded length.

One call of `start_turn` starts workflows for about `TURN_S`, inside one transaction. The caller starts the remaining
workflows in further transactions, so that other requests are served in between. All starts of a call share one
savepoint, so their rows are written together, which makes bulk starts cheap. If a start is rejected after it has
changed something, all starts of the call are rolled back and repeated with a savepoint for each.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import msgspec

from conductor.coordinator.limits import TURN_S
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.store.statements import USED_IDEMPOTENCY_KEYS
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.workflows.effects import Start
from conductor.coordinator.workflows.executions import Executions


class _FailedHalfway(Exception):
    """A start was rejected after it had changed something."""


def start_turn(
    executions: Executions, starts: Sequence[Start | ApiError], started_by: str | None, tx: Tx
) -> list[str | ApiError]:
    """Start workflows in the order of `starts` for about `TURN_S`, and at least one.

    Args:
        executions: The object that starts a single workflow.
        started_by: The client, for the audit trail.
        starts: Start requests. An element that is already an error is returned unchanged.
        tx: The transaction.

    Returns:
        The id or the error of each element that was reached, in the same order.
    """
    _note_unused_keys(tx, starts)
    try:
        with tx.savepoint():
            return _start_each(executions, starts, started_by, tx)
    except _FailedHalfway:
        return _start_each(executions, starts, started_by, tx, with_savepoints=True)


def _start_each(
    executions: Executions,
    starts: Sequence[Start | ApiError],
    started_by: str | None,
    tx: Tx,
    *,
    with_savepoints: bool = False,
) -> list[str | ApiError]:
    ends_s, results = time.thread_time() + TURN_S, list[str | ApiError]()
    for start in starts:
        if results and time.thread_time() > ends_s:
            break
        if isinstance(start, ApiError):
            results.append(start)
            continue
        tx.cache.has_changes = False
        try:
            with tx.savepoint() if with_savepoints else contextlib.nullcontext():
                results.append(tx.ids.workflow(executions.start(tx, start, started_by=started_by)))
        except ApiError as error:
            if tx.cache.has_changes and not with_savepoints:
                raise _FailedHalfway from error
            results.append(error)
    tx.cache.has_changes = True
    return results


def _note_unused_keys(tx: Tx, starts: Sequence[Start | ApiError]) -> None:
    """Note in the cache which idempotency keys are unused.

    One query looks up all keys of a workflow name, because every query first writes the changed rows of the cache.
    """
    keys: dict[str | None, set[str]] = {}
    for start in starts:
        if isinstance(start, Start) and start.idempotency_key:
            keys.setdefault(start.name, set()).add(start.idempotency_key)
    for name, wanted in keys.items():
        used = set(tx.rows(USED_IDEMPOTENCY_KEYS, name, msgspec.json.encode(list(wanted)).decode()))
        tx.cache.unused_keys.update((name, key) for key in wanted - used)
