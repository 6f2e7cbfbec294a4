"""`conductor-worker backup`: copy the database of a running coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conductor.cli.console import print_line
from conductor.cli.serve import default_database
from conductor.cli.support import UserError, examples, import_coordinator


@examples(
    "backup copy.db --database coordinator.db",
    "backup /var/backups/conductor/coordinator.db --database /var/lib/conductor/coordinator.db --keep 7",
)
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write the copy to.", show_default=False)],
    database: Annotated[
        Path | None,
        typer.Option(
            help="SQLite file to copy. (default: coordinator.db in the user's state directory)", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Keep N copies: FILE is the latest, FILE.1 the one before it, and so on.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Copy the database of a running or stopped coordinator.

    The copy is verified before it replaces an older one. The exit status is 2 if the database is damaged.
    """
    import_coordinator()  # raises UserError if an extra is missing
    from conductor.coordinator.store.database_file import StoreRefused
    from conductor.coordinator.store.online_backup import back_up

    source = database or default_database()
    try:
        size = back_up(source, file, replace=force, keep=keep)
    except StoreRefused as error:
        raise UserError(error) from None
    print_line(f"Copied {source} to {file.absolute()}: {size} bytes, verified. Serve it with --database.")
