"""Prints one line for each workflow that ends, for the dev command."""

from __future__ import annotations

import asyncio

from conductor.cli.console import print_line
from conductor.cli.server_kind import open_client
from conductor.cli.support import web_ui_address
from conductor.cli.tail import WORKFLOW_STARTED, TailEvent, WorkflowFollower
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import ConductorError
from conductor.common.text import escape
from conductor.protocol.why_waiting import format_duration

#: Interval between two reads of the server.
READ_INTERVAL_S = 0.5


async def report_ends(server: Configuration) -> None:
    """Print a line for each workflow that ends, until the task is cancelled. Sub-workflows are left out."""
    async with open_client(server) as api:
        follower, started_ms = WorkflowFollower(api, None), dict[str, int]()
        while True:
            try:
                events = await follower.read_events()
            except ConductorError:  # the server is stopping, or is busy; the next round reads the same events
                events = []
            for event in events:
                if event.what == WORKFLOW_STARTED:
                    started_ms[event.workflow_id] = event.at_ms
                elif event.task is None and event.parent_id is None:
                    print_line(describe_end(event, started_ms.pop(event.workflow_id, event.at_ms), server.shown_host))
            await asyncio.sleep(READ_INTERVAL_S)


def describe_end(event: TailEvent, started_ms: int, url: str) -> str:
    """Return the line that reports the end of a workflow.

    If the workflow did not complete, the line contains the reason and the URL of the workflow in the web UI.
    """
    name = f"{event.workflow} {event.correlation_id or event.short_id}"
    status = event.what.removeprefix("workflow ")
    line = f"{name} {status} in {format_duration(event.at_ms - started_ms)}"
    if status != "completed":
        address = web_ui_address(url, f"/execution/{event.workflow_id}")
        line += f"{': ' + ' '.join(event.reason.split()) if event.reason else ''} ({address})"
    return escape(line)
