"""Rate limits of workflows (`rateLimitConfig`): workflows that share a limit start in the order of their requests.

A limit applies to all workflows of one name whose `rateLimitKey` resolves to the same value. These workflows form a
line: each workflow that has not ended has a row in the table `turn`. The column `place` is its place in the line while
it waits, and NULL while it runs. A waiting workflow has the status RUNNING, but no tasks. A workflow that had ended and
runs again must also wait; its row stores the action, such as a retry, until its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.language.expressions import lookup_in, resolve, to_text
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.settings.environment import environment
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.statements import (
    BEFORE_IN_LINE,
    BEGIN_TURN,
    FIRST_IN_LINE,
    LEAVE_LINE,
    LINE_UP,
    RUNNING_IN_LINE,
    TURN,
)
from conductor.coordinator.store.transaction import Tx
from conductor.protocol.statuses import WorkflowStatus


class RateLimit(NamedTuple):
    """The maximum number of workflows of a name that run with the same key."""

    name: str
    key: str
    max_running: int
    #: Whether a workflow beyond the limit is rejected instead of queued.
    rejects: bool

    def __str__(self) -> str:
        return f"`{self.name}` workflows" + (f" with key {self.key!r}" if self.key else "")


class WaitingAction(msgspec.Struct, frozen=True):
    """An action that runs an ended workflow again, stored until the workflow's turn comes."""

    action: str
    #: The status in which the workflow had ended.
    status: WorkflowStatus
    options: dict[str, Any]


class Turn(NamedTuple):
    """The result of `take_turn`."""

    waits: bool = False
    #: Whether the workflow has waited, and starts now.
    starts: bool = False
    #: The stored action, such as a retry, that waited for this turn; None if the workflow starts with its first step.
    action: WaitingAction | None = None


def find_limit(definition: Mapping[str, Any], row: WorkflowRow, given: Mapping[str, Any]) -> RateLimit | None:
    """Return the limit that applies to a workflow, or None. An empty key is a valid key."""
    config = definition.get("rateLimitConfig")
    if not config or not config.get("concurrentExecLimit"):
        return None
    names = {
        "input": given,
        "correlationId": row.correlation_id,
        "workflowType": row.name,
        "version": row.version,
        "env": environment(),
    }
    found = resolve(config.get("rateLimitKey"), lookup_in({"workflow": names}))
    key = "" if found is None else to_text(found)
    return RateLimit(row.name, key, config["concurrentExecLimit"], config.get("policy") == "REJECT")


def line_up(tx: Tx, row: WorkflowRow, limit: RateLimit, action: WaitingAction | None = None) -> None:
    """Give a workflow the last place in the line of its limit.

    Raises:
        ApiError: The limit is reached, and its policy is REJECT.
    """
    if limit.rejects:
        running = tx.first(RUNNING_IN_LINE, limit.name, limit.key, limit.max_running) or 0
        if running >= limit.max_running:
            raise ApiError(429, f"the limit of {limit.max_running} concurrent {limit} is reached", retryable=True)
    body = None if action is None else msgspec.json.encode(action)
    tx.run(LINE_UP, workflow=row.pk, name=limit.name, key=limit.key, asked=body)


def take_turn(tx: Tx, row: WorkflowRow, definition: Mapping[str, Any]) -> Turn:
    """Check whether the turn of a waiting workflow has come. If so, mark it as running."""
    found = tx.first(TURN, row.pk)
    if found is None or found.place is None:
        return Turn()
    limit = definition["rateLimitConfig"].get("concurrentExecLimit") or 0
    if limit and (tx.first(BEFORE_IN_LINE, found.name, found.key, found.place, limit) or 0) >= limit:
        return Turn(waits=True)
    tx.run(BEGIN_TURN, row.pk)
    action = None if found.action is None else msgspec.json.decode(found.action, type=WaitingAction)
    return Turn(starts=True, action=action)


def is_waiting(tx: Tx, pk: int) -> bool:
    """Return whether a workflow waits for its turn."""
    found = tx.first(TURN, pk)
    return found is not None and found.place is not None


def leave_line(tx: Tx, pk: int) -> list[int]:
    """Remove a workflow from its line. Return a list with the workflow that can start now, if there is one."""
    found = tx.first(TURN, pk)
    if found is None:
        return []
    tx.run(LEAVE_LINE, pk)
    return tx.rows(FIRST_IN_LINE, found.name, found.key)


def next_in_line(tx: Tx, pk: int) -> list[int]:
    """Return a list with the first workflow that waits in the same line as `pk`, if there is one."""
    found = tx.first(TURN, pk)
    return [] if found is None else tx.rows(FIRST_IN_LINE, found.name, found.key)
