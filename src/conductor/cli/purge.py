"""`conductor-worker purge`: remove finished workflows that are older than a time."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from conductor.cli.console import print_json, print_line
from conductor.cli.newest_workflows import find_ended
from conductor.cli.server_kind import identify_server
from conductor.cli.support import AsJson, Url, UserError, call_server, examples, make_configuration, to_one_line
from conductor.cli.times import TIME_FORMATS, format_time, parse_time
from conductor.cli.workflow_commands import read_statuses
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.errors import ApiException, NotFoundException
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.protocol.statuses import TERMINAL_WORKFLOW_STATUSES
from conductor.protocol.views import WorkflowEntry

#: The longest time that the rewrite of a large database file may take.
VACUUM_TIMEOUT_S = 3600.0


@examples(
    "purge --older-than 30d --dry-run",
    "purge --older-than 2026-01-01 --status COMPLETED --name order_flow --yes",
)
def purge(
    older_than: Annotated[
        str, typer.Option(metavar="TIME", help=f"Workflows that ended before: {TIME_FORMATS}.", show_default=False)
    ],
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS",
            help=f"Only workflows with this status: {', '.join(sorted(TERMINAL_WORKFLOW_STATUSES))}; separate several "
            "with commas.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only workflows of this name.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the workflows that would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    vacuum: Annotated[
        bool,
        typer.Option(
            "--vacuum",
            help="Also make the file of a coordinator smaller. This needs free space of twice the file's size, "
            "and all changes wait until it is done.",
        ),
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Remove finished workflows permanently from a server.

    The command asks for confirmation. The exit status is 1 if a workflow cannot be removed.
    """
    before_ms = parse_time(older_than, "--older-than")
    statuses = read_statuses(status or sorted(TERMINAL_WORKFLOW_STATUSES), TERMINAL_WORKFLOW_STATUSES)
    found = call_server(url, lambda api: find_ended(api, statuses, before_ms, name))
    if dry_run or (not found and not vacuum):
        return _print_result(found, [], {}, as_json=as_json, what="would be removed" if dry_run else "to remove")
    if found and not yes and not _confirm(found, url):
        typer.echo("Nothing was removed.", err=True)
        return 1
    removed, kept = _remove(found, url)
    sizes = call_server(url, _vacuum) if vacuum else None
    return _print_result(found, removed, kept, as_json=as_json, what="found", sizes=sizes)


async def _vacuum(api: AsyncApiClient) -> dict[str, int | None]:
    if not (await identify_server(api.configuration)).is_coordinator:
        raise UserError("--vacuum works only on a coordinator; a Conductor server has a database of its own")
    return await api.call_for(dict[str, int | None], "POST", "/admin/vacuum", timeout_s=VACUUM_TIMEOUT_S)


def _confirm(found: list[WorkflowEntry], url: str | None) -> bool:
    """Return whether the user agrees to remove the workflows.

    The question goes to standard error, because standard output is for the result.
    """
    host = make_configuration(url).shown_host
    typer.echo(f"{_describe(found)} on {host} will be removed permanently. Remove them? [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        typer.echo("", err=True)
        raise UserError("nothing was removed, because the question was not answered; use --yes to skip it")
    return answer.strip().lower() in ("y", "yes")


def _describe(found: list[WorkflowEntry]) -> str:
    if not found:
        return "No finished workflows"
    ended = sorted(entry.end_time or 0 for entry in found)
    what = "1 finished workflow" if len(found) == 1 else f"{len(found):,} finished workflows"
    return f"{what}, ended from {format_time(ended[0])} to {format_time(ended[-1])}"


def _remove(found: list[WorkflowEntry], url: str | None) -> tuple[list[str], dict[str, str]]:
    """Remove the workflows. Return the ids of the removed ones, and the reason for each one that was kept."""
    removed: list[str] = []
    kept: dict[str, str] = {}

    async def remove_all(api: AsyncApiClient) -> None:
        workflows = AsyncWorkflowClient(api)
        # A Conductor server keeps an archived workflow in its index, where the next purge would find it again. A
        # coordinator has no archive, and with this flag it rejects a workflow that was restarted in the meantime.
        archive = (await identify_server(api.configuration)).is_coordinator
        for entry in found:
            try:
                if not archive and (await workflows.get_workflow_status(entry.workflow_id)).is_running():
                    kept[entry.workflow_id] = "it is running again"
                    continue
                await workflows.delete_workflow(entry.workflow_id, archive_workflow=archive)
                removed.append(entry.workflow_id)
            except NotFoundException:
                kept[entry.workflow_id] = "it was already removed"
            except ApiException as error:
                if error.status in (401, 403):
                    raise
                kept[entry.workflow_id] = to_one_line(error.reason or error)

    try:
        call_server(url, remove_all)
    except UserError as error:
        raise UserError(f"{error} ({len(removed):,} of {len(found):,} were removed before)") from None
    return removed, kept


def _print_result(
    found: list[WorkflowEntry],
    removed: list[str],
    kept: dict[str, str],
    *,
    as_json: bool,
    what: str,
    sizes: dict[str, int | None] | None = None,
) -> int:
    if as_json:
        vacuumed = {} if sizes is None else {"vacuum": sizes}
        print_json({"found": [entry.workflow_id for entry in found], "removed": removed, "kept": kept, **vacuumed})
    else:
        done = f": {len(removed):,} removed, {len(kept):,} kept" if removed or kept else ""
        print_line(f"{_describe(found)} {what}{done}.")
        for workflow_id, reason in kept.items():
            print_line(to_one_line(f"{workflow_id}: kept: {reason}"))
        if sizes is not None:
            print_line(f"The file had {sizes['bytesBefore'] or 0:,} bytes and now has {sizes['bytesAfter'] or 0:,}.")
    return 1 if kept else 0
