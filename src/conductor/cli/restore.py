"""`conductor-worker restore`: make a database from a copy or a replica."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conductor.cli.console import print_json, print_line
from conductor.cli.serve import default_database, warn_of_visible_password
from conductor.cli.support import AsJson, UserError, examples, import_coordinator
from conductor.cli.times import TIME_FORMATS, format_age, format_time, now_ms, parse_time

if TYPE_CHECKING:
    from conductor.coordinator.replication.restore import Restored


@examples(
    "restore /var/backups/conductor/coordinator.db --database coordinator.db",
    "restore s3://bucket/conductor --database /var/lib/conductor/coordinator.db",
    "restore /mnt/replica --timestamp 2026-11-17T03:00 --database yesterday.db",
)
def restore(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="A copy made by `backup`, or the URL or directory of `serve --replicate`. A number at its end, "
            "such as /000012, selects one replica; otherwise the newest is used. (default: CONDUCTOR_REPLICATE)",
            show_default=False,
        ),
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(
            help="File to create. (default: coordinator.db in the user's state directory)", show_default=False
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Restore a replica as of this time: {TIME_FORMATS}.", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing file, which is renamed to FILE.replaced.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore the database of a coordinator from a copy or a replica.

    The database is verified before it replaces a file. A file that a coordinator
    uses is not replaced. The exit status is 2 if nothing was restored.
    """
    import_coordinator()  # raises UserError if an extra is missing
    from conductor.coordinator.replication.replica_url import InvalidReplicaUrl
    from conductor.coordinator.replication.restore import restore as restore_database
    from conductor.coordinator.store.database_file import StoreRefused

    given, source = source, source or os.environ.get("CONDUCTOR_REPLICATE")
    if not source:
        raise UserError("a restore needs a source: pass a copy or the URL of a replica, or set CONDUCTOR_REPLICATE")
    target = database or default_database()
    at_ms = None if timestamp is None else parse_time(timestamp, "--timestamp")
    try:
        if given and "://" in given:
            warn_of_visible_password(given)
        found = restore_database(source, target, timestamp_ms=at_ms, force=force)
    except (StoreRefused, InvalidReplicaUrl) as error:
        raise UserError(error) from None
    if as_json:
        print_json(
            {
                "source": found.source,
                "database": str(target.absolute()),
                "bytes": found.size,
                **found.state._asdict(),
                "lost": found.lost._asdict() if found.lost else None,
                "replaced": str(found.replaced) if found.replaced else None,
                "skipped": dict(found.skipped),
            }
        )
    else:
        _print(found, target)


def _print(found: Restored, target: Path) -> None:
    for replica, reason in found.skipped:
        print_line(f"Newer replica not used: {replica}: {reason}")
    print_line(f"Restored {found.source} to {target.absolute()}: {found.size} bytes, verified.")
    if found.replaced is not None:
        print_line(f"The previous database is now {found.replaced}.")
    state = found.state
    newest = state.newest_change_ms
    when = (
        f"{format_time(newest)}, {format_age(newest, now_ms())}"
        if newest
        else "none, because the database has no workflows"
    )
    print_line(f"Newest change of a workflow: {when}. Later changes of workflows are lost.")
    if (lost := found.lost) is not None:
        print_line(
            f"Compared with the previous database: {lost.started_workflows} started workflows are gone, "
            f"{lost.ended_workflows} ended workflows run again, {lost.ended_tasks} ended tasks are open again."
        )
    print_line(
        f"The database has {state.running_workflows} running workflows; workers hold {state.leased_tasks} of their "
        "tasks. Workers can finish these tasks, and the results count. Results of tasks that the database does not "
        "know get the verdict CANCELLED or REJECTED, and the workers continue with other work."
    )
    print_line(
        f"Start it: conductor-worker serve --database {target}. Stop the old coordinator first if it still runs."
    )
