"""Rate limits of workflows (`rateLimitConfig`): workflows that share a limit start in the order of their requests.

A limit applies to all workflows of one name whose definition resolves to the same key. Each of them that has not ended
has a row in the table `turn`: with a place while it waits, without one while it runs. A waiting workflow is RUNNING and
has no tasks. A workflow that had ended and is to run again waits too; its row keeps the action until its turn comes.
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
    """How many workflows of a name may run with the same key."""

    name: str
    key: str
    max_running: int
    #: Whether a further workflow is rejected instead of queued.
    rejects: bool

    def __str__(self) -> str:
        return f"`{self.name}` workflows" + (f" with key {self.key!r}" if self.key else "")


class WaitingAction(msgspec.Struct, frozen=True):
    """The action that runs an ended workflow again, while it waits for its turn."""

    action: str
    #: The status in which the workflow had ended.
    status: WorkflowStatus
    options: dict[str, Any]


class Turn(NamedTuple):
    """The result of `take_turn`."""

    waits: bool = False
    #: Whether the workflow waited until now and starts.
    starts: bool = False
    #: The action that runs instead of the first step.
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
        ApiError: The limit is reached, and its policy is to reject.
    """
    if limit.rejects:
        running = tx.first(RUNNING_IN_LINE, limit.name, limit.key, limit.max_running) or 0
        if running >= limit.max_running:
            raise ApiError(429, f"the limit of {limit.max_running} concurrent {limit} is reached", retryable=True)
    body = None if action is None else msgspec.json.encode(action)
    tx.run(LINE_UP, workflow=row.pk, name=limit.name, key=limit.key, asked=body)


def take_turn(tx: Tx, row: WorkflowRow, definition: Mapping[str, Any]) -> Turn:
    """Let a workflow start if it is waiting and its turn has come."""
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
    """Remove a workflow that has ended or is removed. Return the workflow that may start now, if there is one."""
    found = tx.first(TURN, pk)
    if found is None:
        return []
    tx.run(LEAVE_LINE, pk)
    return tx.rows(FIRST_IN_LINE, found.name, found.key)


def next_in_line(tx: Tx, pk: int) -> list[int]:
    """Return the first waiting workflow in the line of this one, if there is one."""
    found = tx.first(TURN, pk)
    return [] if found is None else tx.rows(FIRST_IN_LINE, found.name, found.key)
