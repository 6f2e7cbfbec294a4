"""Whose turn it is: workflows that share a limit (`rateLimitConfig`) begin in the order in which they were asked for.

A limit is for all workflows of one name whose definition gives the same key. Those that run and those that wait are
rows of `turn`; one that has ended has none. A workflow that waits is RUNNING, without tasks. One that had ended and is
to run again waits too: what was asked of it is kept, and done when its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from conductor.coordinator.language.expressions import lookup_in, resolve, to_text
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.settings.environment import environment
from conductor.coordinator.store.rows import WorkflowRow
from conductor.coordinator.store.transaction import Tx


class Limit(NamedTuple):
    """How many workflows of a name may run with the same key."""

    name: str
    key: str
    at_most: int
    #: Whether one more is refused, instead of kept waiting.
    rejects: bool


class Asked(msgspec.Struct, frozen=True):
    """What was asked of a workflow that had ended and waits for its turn to run again."""

    action: str
    #: How it had ended.
    status: str
    options: dict[str, Any]


class Turn(NamedTuple):
    """Where a workflow is in its line."""

    waits: bool = False
    #: Whether it did wait, and waits no more from now on.
    begins: bool = False
    #: Only of one that had ended before.
    asked: Asked | None = None


def limit_of(definition: Mapping[str, Any], row: WorkflowRow, given: Mapping[str, Any]) -> Limit | None:
    """The limit that a workflow is under; None: none. A key that comes to nothing is a key like any other."""
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
    return Limit(row.name, key, config["concurrentExecLimit"], config.get("policy") == "REJECT")


def line_up(tx: Tx, row: WorkflowRow, limit: Limit, asked: Asked | None = None) -> None:
    """Take the last place. ApiError if the limit has no places to wait."""
    if limit.rejects and _running(tx, limit) >= limit.at_most:
        raise ApiError(429, f"{limit.at_most} of {_named(limit)} run already, as many as may at once", retryable=True)
    body = None if asked is None else msgspec.json.encode(asked)
    tx.change("line up", {"workflow": row.pk, "name": limit.name, "key": limit.key, "asked": body})


def take(tx: Tx, row: WorkflowRow, definition: Mapping[str, Any]) -> Turn:
    """Begin, if it is this workflow's turn; where it is in its line."""
    found = tx.row("turn", row.pk)
    if found is None or found[2] is None:
        return Turn()
    name, key, place, body = found
    at_most = definition["rateLimitConfig"].get("concurrentExecLimit") or 0
    if at_most and int(tx.value("before in line", name, key, place, at_most) or 0) >= at_most:
        return Turn(waits=True)
    tx.run("begin turn", row.pk)
    return Turn(begins=True, asked=None if body is None else msgspec.json.decode(body, type=Asked))


def waits(tx: Tx, pk: int) -> bool:
    """Whether a workflow waits for its turn."""
    found = tx.row("turn", pk)
    return found is not None and found[2] is not None


def first_in_line(tx: Tx, name: str, key: str) -> list[int]:
    """The workflow that begins next, if there is one."""
    return [pk for (pk,) in tx.rows("first in line", name, key)]


def leave(tx: Tx, pk: int) -> list[int]:
    """A workflow has ended, or is gone: who must look whether it may begin."""
    found = tx.row("turn", pk)
    if found is None:
        return []
    tx.run("leave line", pk)
    return first_in_line(tx, found[0], found[1])


def next_of(tx: Tx, pk: int) -> list[int]:
    """The first of those that wait in the line of a workflow."""
    found = tx.row("turn", pk)
    return [] if found is None else first_in_line(tx, found[0], found[1])


def _running(tx: Tx, limit: Limit) -> int:
    return int(tx.value("running in line", limit.name, limit.key, limit.at_most) or 0)


def _named(limit: Limit) -> str:
    return f"workflow {limit.name}" + (f" with key '{limit.key}'" if limit.key else "")
