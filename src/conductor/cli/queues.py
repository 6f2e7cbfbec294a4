"""`conductor-worker queues`: what waits where, and whether anybody comes for it."""

from __future__ import annotations

import asyncio
from typing import Any

from conductor.cli.console import print_table, quiet, say, say_json
from conductor.cli.queue_state import Queue, ask_queues, span
from conductor.cli.server_kind import why
from conductor.cli.support import AsJson, Url, UserError, configuration_of, examples
from conductor.client.http.async_rest import ConductorError


@examples("queues", "queues --json | jq '.[] | select(.unattended)'")
def queues(url: Url = None, as_json: AsJson = False) -> None:
    """List the queues of the server: how much waits and since when, who polled last, and which ones nobody polls."""
    configuration = configuration_of(url)
    try:
        with quiet("conductor.client.http.access_token"):
            found = asyncio.run(ask_queues(configuration))
    except ConductorError as error:
        raise UserError(f"{configuration.shown_host} cannot be asked for its queues: {why(error)}") from None
    if as_json:
        say_json([_wire(queue) for queue in found])
    elif found:
        print_table(["queue", "waiting", "oldest", "last poll", "by", ""], map(_row, found))
    else:
        say("There are no queues yet: nothing waits, and nobody polls.")


def _wire(queue: Queue) -> dict[str, Any]:
    return {
        "queue": queue.name,
        "taskType": queue.task_type,
        "domain": queue.domain or None,
        "waiting": queue.waiting,
        "oldestSeconds": _rounded(queue.oldest_s),
        "lastPollSeconds": _rounded(queue.polled_s),
        "lastWorkerId": queue.worker_id,
        "unattended": queue.unattended,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _row(queue: Queue) -> list[str]:
    oldest = "" if queue.oldest_s is None else span(queue.oldest_s)
    polled = "none known" if queue.polled_s is None else f"{span(queue.polled_s)} ago"
    flag = "NOBODY POLLS" if queue.unattended else ""
    return [queue.name, str(queue.waiting), oldest, polled, queue.worker_id or "", flag]
