"""`conductor-worker queues`: waiting tasks and the last poll of each queue."""

from __future__ import annotations

import asyncio
from typing import Any

from conductor.cli.console import print_json, print_line, print_table, silence_logger
from conductor.cli.queue_state import QueueState, read_queues
from conductor.cli.server_kind import describe_error
from conductor.cli.support import AsJson, Url, UserError, examples, make_configuration, show_web_ui
from conductor.client.http.async_rest import ConductorError
from conductor.protocol.why_waiting import format_duration


@examples("queues", "queues --json | jq '.[] | select(.unattended)'")
def queues(url: Url = None, as_json: AsJson = False) -> None:
    """List the queues of a server and their last polls.

    The command marks queues with waiting tasks that no worker polls.
    """
    configuration = make_configuration(url)
    try:
        with silence_logger("conductor.client.http.access_token"):
            found = asyncio.run(read_queues(configuration))
    except ConductorError as error:
        raise UserError(f"{configuration.shown_host} cannot list its queues: {describe_error(error)}") from None
    if as_json:
        print_json([_to_json(queue) for queue in found])
        return
    if found:
        print_table(["queue", "waiting", "oldest", "last poll", "by", ""], map(_row, found))
    else:
        print_line("There are no queues: no task waits, and no worker polls.")
    show_web_ui(url, "/queues")


def _to_json(queue: QueueState) -> dict[str, Any]:
    return {
        "queue": queue.name,
        "taskType": queue.task_type,
        "domain": queue.domain or None,
        "waiting": queue.waiting,
        "oldestSeconds": _round(queue.oldest_s),
        "lastPollSeconds": _round(queue.polled_s),
        "lastWorkerId": queue.worker_id,
        "unattended": queue.unattended,
    }


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _row(queue: QueueState) -> list[str]:
    oldest = "" if queue.oldest_s is None else format_duration(queue.oldest_s * 1000)
    polled = "none known" if queue.polled_s is None else f"{format_duration(queue.polled_s * 1000)} ago"
    flag = "NO WORKER POLLS" if queue.unattended else ""
    return [queue.name, str(queue.waiting), oldest, polled, queue.worker_id or "", flag]
