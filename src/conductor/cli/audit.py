"""`conductor-worker audit`: which key did what on a coordinator, and when."""

from __future__ import annotations

from typing import Annotated

import typer

from conductor.cli.console import print_json, print_line, print_table
from conductor.cli.support import Url, call_server, examples, to_one_line
from conductor.cli.times import format_time
from conductor.client.http.async_api_client import AsyncApiClient, QueryValue
from conductor.protocol.json_types import JsonObject

#: The number of entries that the command reads with one request.
PAGE = 500


@examples(
    "audit", "audit --workflow $WORKFLOW_ID", "audit --key ada --action terminate", "audit --all --json > audit.jsonl"
)
def audit(
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="ID", help="Only actions on this workflow.", show_default=False)
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="Only this action, for example start or terminate.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="Only actions with this key.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most this many entries.")] = 50,
    every: Annotated[bool, typer.Option("--all", help="Print all entries.")] = False,
    url: Url = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print the audit trail of a coordinator, the newest entries first."""
    query: dict[str, QueryValue] = {"workflowId": workflow, "action": action, "key": key}
    rows: list[tuple[str, ...]] = []

    async def read(api: AsyncApiClient) -> None:
        left, before = limit, None
        while every or left > 0:
            size = PAGE if every else min(PAGE, left)
            page = await api.call_for(JsonObject, "GET", "/view/audit", query={**query, "size": size, "before": before})
            for entry in page["entries"]:
                if as_json:
                    print_json(entry)
                else:
                    rows.append(_row(entry))
            left, before = left - len(page["entries"]), page["next"]
            if before is None:
                return

    call_server(url, read)
    if rows:
        print_table(("time", "action", "key", "address", "subject", "workflow", "reason"), rows)
    elif not as_json:
        print_line("There are no entries.")


def _row(entry: JsonObject) -> tuple[str, ...]:
    texts = (entry.get(name) or "" for name in ("action", "key", "address", "subject", "workflowId", "reason"))
    return (format_time(entry["atMs"]), *(to_one_line(text) for text in texts))
