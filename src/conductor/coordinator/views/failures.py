"""`/view/failures`: failed workflows grouped by cause. Only the newest `MAX_EXAMINED` failures are examined."""

from __future__ import annotations

import re
from hashlib import blake2b

from conductor.coordinator.request_errors import bad_request, not_found
from conductor.coordinator.store.statements import FAILED_WORKFLOWS, FailedWorkflow
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.statuses import WorkflowStatus
from conductor.protocol.views import FailureGroup, Failures, WorkflowIds

MAX_HOURS = 366 * 24
MAX_SIZE = 200
MAX_EXAMINED = 5000
#: Number of workflows that a group names.
NEWEST_IN_GROUP = 10
MAX_CAUSE_CHARS = 200

_FAILED = (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT)
#: Parts of a reason that differ between failures of the same cause, and their replacements.
_VARIABLE_PARTS = (
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"(?<![A-Za-z0-9])\d+(?:[.,:]\d+)*"), "#"),
)
_NO_REASON = "no reason was given"


def find_cause(reason: str | None) -> str:
    """Return the first line of a reason without numbers and ids."""
    lines = (reason or "").strip().splitlines()
    cause = " ".join(lines[0].split())[: 2 * MAX_CAUSE_CHARS] if lines else _NO_REASON
    for pattern, replacement in _VARIABLE_PARTS:
        cause = pattern.sub(replacement, cause)
    return cause[:MAX_CAUSE_CHARS]


def group_failures(tx: Tx, hours: int, size: int) -> Failures:
    """Return the largest groups of failures in the last `hours`."""
    if not 1 <= size <= MAX_SIZE:
        raise bad_request(f"size must be between 1 and {MAX_SIZE}, not {size}")
    found, parents, is_partial = _read_failures(tx, hours)
    groups: dict[str, FailureGroup] = {}
    for row in found:  # newest first
        key, cause = _find_key(row)
        group = groups.get(key)
        if group is None:
            group = groups[key] = FailureGroup(
                key=key,
                workflow_name=row.name,
                task_type=row.task,
                cause=cause,
                reason=row.reason or _NO_REASON,
                count=0,
                first_ms=row.ended_ms,
                last_ms=row.ended_ms,
                newest=[],
            )
        group.count += 1
        group.first_ms = row.ended_ms
        if len(group.newest) < NEWEST_IN_GROUP:
            group.newest.append(tx.ids.workflow(row.pk))
    ordered = sorted(groups.values(), key=lambda group: (-group.count, -group.last_ms))
    return Failures(
        now_ms=tx.now_ms,
        from_ms=_begin_ms(tx, hours),
        groups=ordered[:size],
        group_count=len(ordered),
        failed=len(found),
        parents=parents,
        is_partial=is_partial,
    )


def list_failed_ids(tx: Tx, hours: int, key: str) -> WorkflowIds:
    """Return the ids of the workflows of one group."""
    found, _, is_partial = _read_failures(tx, hours)
    statuses = {tx.ids.workflow(row.pk): row.status for row in found if _find_key(row)[0] == key}
    if not statuses:
        raise not_found(f"no workflow has failed with the cause {key[:100]!r} in the last {hours} h")
    return WorkflowIds(now_ms=tx.now_ms, statuses=statuses, has_more=is_partial)


def _begin_ms(tx: Tx, hours: int) -> int:
    if not 1 <= hours <= MAX_HOURS:
        raise bad_request(f"hours must be between 1 and {MAX_HOURS}, not {hours}")
    return tx.now_ms - hours * 3_600_000


def _read_failures(tx: Tx, hours: int) -> tuple[list[FailedWorkflow], int, bool]:
    """Return the failures, the number of parents that are left out, and whether more than `MAX_EXAMINED` failed.

    A parent whose sub-workflow failed is left out: the sub-workflow has the cause.
    """
    rows = tx.rows(FAILED_WORKFLOWS, _begin_ms(tx, hours), MAX_EXAMINED + 1)
    is_partial = len(rows) > MAX_EXAMINED
    rows = rows[:MAX_EXAMINED]
    causes = [row for row in rows if row.child not in _FAILED]
    return causes, len(rows) - len(causes), is_partial


def _find_key(row: FailedWorkflow) -> tuple[str, str]:
    """Return the key of a failure's group, and its cause."""
    cause = find_cause(row.reason)
    parts = "\0".join((row.name, row.task or "", cause))
    return blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(), cause
