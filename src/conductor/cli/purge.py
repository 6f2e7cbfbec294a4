"""`conductor-worker purge`: remove finished workflows that are older than a time."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from conductor.cli.console import say, say_json
from conductor.cli.newest_workflows import find_ended
from conductor.cli.server_kind import ask_server
from conductor.cli.support import AsJson, Url, UserError, ask, configuration_of, examples, one_line
from conductor.cli.times import TAKES, moment, moment_of
from conductor.cli.workflow_commands import read_statuses
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.errors import ApiException, NotFoundException
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES
from conductor.protocol.views import WorkflowEntry


@examples(
    "purge --older-than 30d --dry-run",
    "purge --older-than 2026-01-01 --status COMPLETED --name order_flow --yes",
)
def purge(
    older_than: Annotated[
        str, typer.Option(metavar="TIME", help=f"Those that ended before: {TAKES}.", show_default=False)
    ],
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS",
            help=f"Only those: {', '.join(sorted(TERMINAL_WORKFLOW_STATUSES))}; several with commas.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only of this workflow.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; say what would be.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Remove finished workflows and their tasks from a server, for good. It asks first; status 1 if one stays."""
    before_ms = moment_of(older_than, "--older-than")
    statuses = read_statuses(status or sorted(TERMINAL_WORKFLOW_STATUSES), TERMINAL_WORKFLOW_STATUSES)
    found = ask(url, lambda api: find_ended(api, statuses, before_ms, name))
    if dry_run or not found:
        return _told(found, [], {}, as_json=as_json, what="would be removed" if dry_run else "to remove")
    if not yes and not _is_agreed(found, url):
        typer.echo("Nothing was removed.", err=True)
        return 1
    removed, kept = _remove(found, url)
    return _told(found, removed, kept, as_json=as_json, what="found")


def _is_agreed(found: list[WorkflowEntry], url: str | None) -> bool:
    """Ask, beside the standard output: that is for what was asked for."""
    host = configuration_of(url).shown_host
    typer.echo(f"{_described(found)} on {host} will be removed for good. Remove them? [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        typer.echo("", err=True)
        raise UserError("nobody is there to say yes: nothing was removed; --yes does not ask")
    return answer.strip().lower() in ("y", "yes")


def _described(found: list[WorkflowEntry]) -> str:
    if not found:
        return "No finished workflows"
    ended = sorted(entry.end_time or 0 for entry in found)
    what = "1 finished workflow" if len(found) == 1 else f"{len(found):,} finished workflows"
    return f"{what}, ended from {moment(ended[0])} to {moment(ended[-1])}"


def _remove(found: list[WorkflowEntry], url: str | None) -> tuple[list[str], dict[str, str]]:
    """Those that are removed, and why the others are not."""
    removed: list[str] = []
    kept: dict[str, str] = {}

    async def remove_all(api: AsyncApiClient) -> None:
        workflows = AsyncWorkflowClient(api)
        # A plain server would keep an archived one in its index, where the next purge found it again. A coordinator has
        # no archive, and with this it refuses one that somebody has restarted meanwhile.
        archive = (await ask_server(api.configuration)).is_coordinator
        for entry in found:
            try:
                if not archive and (await workflows.get_workflow_status(entry.workflow_id)).is_running():
                    kept[entry.workflow_id] = "it runs again"
                    continue
                await workflows.delete_workflow(entry.workflow_id, archive_workflow=archive)
                removed.append(entry.workflow_id)
            except NotFoundException:
                kept[entry.workflow_id] = "it is gone already"
            except ApiException as error:
                if error.status in (401, 403):
                    raise
                kept[entry.workflow_id] = one_line(error.reason or error)

    try:
        ask(url, remove_all)
    except UserError as error:
        raise UserError(f"{error} ({len(removed):,} of {len(found):,} were removed before)") from None
    return removed, kept


def _told(found: list[WorkflowEntry], removed: list[str], kept: dict[str, str], *, as_json: bool, what: str) -> int:
    if as_json:
        say_json({"found": [entry.workflow_id for entry in found], "removed": removed, "kept": kept})
    else:
        done = f": {len(removed):,} removed, {len(kept):,} kept" if removed or kept else ""
        say(f"{_described(found)} {what}{done}.")
        for workflow_id, reason in kept.items():
            say(one_line(f"{workflow_id}: kept: {reason}"))
    return 1 if kept else 0
