"""The audit trail: which client did what, when, on which workflow.

An entry is written in the transaction of its action, so neither exists without the other. A start is not an entry at
first: the column `started_by` of the workflow stores its client, because an entry would cost a further statement for
every start. When the workflow is removed, its start becomes an entry.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import StrEnum
from heapq import merge

import msgspec

from conductor.common.clock import Clock
from conductor.coordinator.request_errors import bad_request
from conductor.coordinator.store.lookup import find_workflow
from conductor.coordinator.store.statements import (
    ADD_AUDIT_ENTRY,
    AUDIT_BEFORE,
    AUDIT_OF_WORKFLOW,
    FORGET_AUDIT,
    OLDEST_AUDIT,
    START_OF_WORKFLOW,
    STARTS_BEFORE,
    AuditRow,
)
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store, StoreError
from conductor.protocol.views import AuditEntry, AuditPage
from conductor.protocol.wire import MAX_REASON_CHARS

logger = logging.getLogger(__name__)

MAX_PAGE = 1000
#: Longer names and worker ids are cut, because a client can send up to 64 KB of them in a path or a query.
MAX_NAME_CHARS = 500
#: The largest number of entries that one transaction removes.
REMOVED_PER_TRANSACTION = 500
#: The retention looks for old entries at least this often.
MAX_SLEEP_S = 3600.0
#: The pause after a failed attempt to remove entries.
RETRY_S = 60.0
#: The time and the keys in the cursor of the first page. Every real time and key is smaller, so no entry is left out.
_AFTER_ALL = 2**62


class Action(StrEnum):
    """An action that the audit trail records."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    TERMINATE = "terminate"
    RETRY = "retry"
    RERUN = "rerun"
    RESTART = "restart"
    REMOVE = "remove"
    TERMINATE_REMOVE = "terminate remove"
    RESET_CALLBACKS = "reset callbacks"
    DECIDE = "decide"
    SKIP_TASK = "skip task"
    UPDATE_TASK = "update task"
    REQUEUE_TASKS = "requeue tasks"
    SEND_MESSAGE = "send message"
    SET_VARIABLES = "set variables"
    REGISTER_TASK_DEFINITION = "register task definition"
    UPDATE_TASK_DEFINITION = "update task definition"
    DELETE_TASK_DEFINITION = "delete task definition"
    REGISTER_WORKFLOW_DEFINITION = "register workflow definition"
    DELETE_WORKFLOW_DEFINITION = "delete workflow definition"
    REGISTER_SCHEMA = "register schema"
    DELETE_SCHEMA = "delete schema"
    REGISTER_EVENT_HANDLER = "register event handler"
    UPDATE_EVENT_HANDLER = "update event handler"
    DELETE_EVENT_HANDLER = "delete event handler"
    SAVE_SCHEDULE = "save schedule"
    PAUSE_SCHEDULE = "pause schedule"
    RESUME_SCHEDULE = "resume schedule"
    DELETE_SCHEDULE = "delete schedule"
    PAUSE_SCHEDULER = "pause scheduler"
    RESUME_SCHEDULER = "resume scheduler"
    SET_SECRET = "set secret"  # noqa: S105
    DELETE_SECRET = "delete secret"  # noqa: S105
    CREATE_KEY = "create key"
    ROTATE_KEY = "rotate key"
    REVOKE_KEY = "revoke key"
    VACUUM = "vacuum"


def encode_actor(key: str | None, address: str) -> str:
    """Return the key and the address of a client as JSON, which the database stores."""
    return msgspec.json.encode((key, address)).decode()


def record(
    tx: Tx,
    actor: str,
    action: str,
    subject: str,
    *,
    workflow: int | None = None,
    reason: str | None = None,
    worker_id: str | None = None,
) -> None:
    """Add the entry of an action, in the transaction that performs the action."""
    reason = None if reason is None else reason[:MAX_REASON_CHARS]
    worker_id = None if worker_id is None else worker_id[:MAX_NAME_CHARS]
    tx.run(ADD_AUDIT_ENTRY, tx.now_ms, Action(action), actor, worker_id, workflow, subject[:MAX_NAME_CHARS], reason)


def read_of_workflow(
    tx: Tx, workflow_id: str, before: str | None, size: int, action: str | None, key: str | None
) -> AuditPage:
    """Return a page of the actions on one workflow, the newest first and its start last.

    This also works after the workflow was removed. The arguments are those of `read_page`.
    """
    pk = tx.ids.workflow_pk(workflow_id)
    if pk is None:
        find_workflow(tx, workflow_id)  # raises the 404 of an unknown workflow
    at_ms, entry, _ = _read_cursor(before)
    size = _check_size(size)
    found = tx.rows(AUDIT_OF_WORKFLOW, workflow=pk, at_ms=at_ms, pk=entry, action=action, key=key, size=size + 1)
    if action in (None, Action.START):
        found = [*found, *tx.rows(START_OF_WORKFLOW, workflow=pk, key=key)]
    if not found and not (before or action or key):
        find_workflow(tx, workflow_id)
    page = [_make_entry(tx, row) for row in found[:size]]
    if len(found) <= size:
        return AuditPage(page)
    last = found[size - 1]
    return AuditPage(page, f"{last.at_ms}.{last.pk}.{_AFTER_ALL}")


def read_page(tx: Tx, before: str | None, size: int, action: str | None, key: str | None) -> AuditPage:
    """Return a page of all actions, the newest first.

    Args:
        tx: The transaction.
        before: The `next` of the previous page; None for the first page.
        size: The largest number of entries.
        action: Only entries of this action.
        key: Only actions of clients with this API key.
    """
    at_ms, entry, workflow = _read_cursor(before)
    size = _check_size(size)
    entries = tx.rows(AUDIT_BEFORE, at_ms=at_ms, pk=entry, action=action, key=key, size=size + 1)
    starts = tx.rows(STARTS_BEFORE, pk=workflow, key=key, size=size + 1) if action in (None, Action.START) else []
    tagged: Iterable[tuple[int, bool, AuditRow]] = merge(
        ((-row.at_ms, False, row) for row in entries),
        ((-row.at_ms, True, row) for row in starts),
        key=lambda found: found[0],
    )
    page: list[AuditEntry] = []
    for _, is_start, row in tagged:
        if len(page) == size:
            return AuditPage(page, f"{at_ms}.{entry}.{workflow}")
        page.append(_make_entry(tx, row))
        if is_start:
            workflow = row.pk
        else:
            at_ms, entry = row.at_ms, row.pk
    return AuditPage(page)


def _check_size(size: int) -> int:
    if not 0 < size <= MAX_PAGE:
        raise bad_request(f"size must be between 1 and {MAX_PAGE}, not {size}")
    return size


def _read_cursor(text: str | None) -> tuple[int, int, int]:
    if text is None:
        return _AFTER_ALL, _AFTER_ALL, _AFTER_ALL
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 19 for part in parts):
        raise bad_request(f"before must be the `next` of the previous page, not {text[:100]!r}")
    at_ms, entry, workflow = (min(int(part), _AFTER_ALL) for part in parts)
    return at_ms, entry, workflow


def _make_entry(tx: Tx, row: AuditRow) -> AuditEntry:
    key, address = msgspec.json.decode(row.actor, type=tuple[str | None, str])
    return AuditEntry(
        at_ms=row.at_ms,
        action=row.action,
        key=key,
        address=address,
        worker_id=row.worker_id,
        workflow_id=None if row.workflow is None else tx.ids.workflow(row.workflow),
        subject=row.subject,
        reason=row.reason,
    )


class AuditRetention:
    """Removes entries that are older than `keep_s`."""

    def __init__(self, store: Store, clock: Clock, keep_s: float) -> None:
        self._store = store
        self._clock = clock
        self._keep_s = keep_s

    async def run(self) -> None:
        """Remove old entries at intervals, until cancelled."""
        while True:
            await self._clock.sleep(await self.sweep())

    async def sweep(self) -> float:
        """Remove old entries. Return the seconds until the next sweep."""
        try:
            while await self._store.write(self._remove_batch) == REMOVED_PER_TRANSACTION:
                pass
            oldest_ms: int | None = await self._store.write(lambda tx: tx.first(OLDEST_AUDIT))
        except StoreError as error:
            logger.error("Audit entries could not be removed: error=%r", str(error))
            return RETRY_S
        if oldest_ms is None:
            return MAX_SLEEP_S
        due_s = self._keep_s - (self._clock.wall_ms() - oldest_ms) / 1000
        return min(max(1.0, due_s), MAX_SLEEP_S)

    def _remove_batch(self, tx: Tx) -> int:
        return tx.run(FORGET_AUDIT, tx.now_ms - int(self._keep_s * 1000), REMOVED_PER_TRANSACTION)
