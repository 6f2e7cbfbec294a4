"""Registers all commands, and converts a user's mistake to one line and an exit status."""

from __future__ import annotations

import errno
import io
import os
import platform
import sys
from collections.abc import Sequence

import typer

from conductor.cli import BAD_INPUT
from conductor.cli.audit import audit
from conductor.cli.backup import backup
from conductor.cli.demo import demo
from conductor.cli.dev import dev
from conductor.cli.doctor import doctor
from conductor.cli.exec import exec_task
from conductor.cli.help_format import make_group_class
from conductor.cli.init import init
from conductor.cli.key_commands import key
from conductor.cli.purge import purge
from conductor.cli.queues import queues
from conductor.cli.restore import restore
from conductor.cli.run import run
from conductor.cli.schedule_commands import schedule
from conductor.cli.secret_commands import secret
from conductor.cli.serve import serve
from conductor.cli.support import UserError, add_command, find_conflict, to_one_line
from conductor.cli.tail import tail
from conductor.cli.task_commands import task
from conductor.cli.top import top
from conductor.cli.workers import workers
from conductor.cli.workflow_group import workflow
from conductor.version import __version__

PROGRAM = "conductor-worker"

#: click's UsageError. It is not imported by name, because its module depends on the release of typer.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def version() -> None:
    """Print the version."""
    typer.echo(f"{PROGRAM} {__version__} (Python {platform.python_version()})")


SECTIONS = {
    "Get started": ("init", "dev", "demo"),
    "Run": ("serve", "run"),
    "Manage workflows": ("workflow", "task", "schedule", "secret"),
    "Find problems": ("doctor", "top", "tail", "queues"),
    "Try workers without a server": ("workers", "exec"),
    "Maintain a coordinator": ("key", "audit", "backup", "restore", "purge"),
}
app = typer.Typer(
    name=PROGRAM,
    cls=make_group_class(SECTIONS),
    help="Run Python functions as Conductor workers, and the server that schedules them.",
    epilog="`conductor-worker COMMAND --help` explains a command. `conductor-worker --version` prints the version.",
    rich_markup_mode=None,  # plain help, because boxes cut off long names
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    *(serve, run, dev, init, demo),
    *(workers, exec_task, doctor, top, tail, queues),
    *(audit, backup, restore, purge, version),
)
for command in COMMANDS:
    add_command(app, command)
app.add_typer(workflow)
app.add_typer(task)
app.add_typer(schedule)
app.add_typer(secret)
app.add_typer(key)


def run_command(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and return its exit status."""
    # Show a question mark for a symbol that the terminal cannot encode. A word next to the symbol has the same meaning.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        if "doctor" not in arguments and (conflict := find_conflict()):
            sys.stderr.write(f"{PROGRAM}: warning: {conflict}\n")
        words = ["version"] if list(arguments) == ["--version"] else list(arguments)
        status = app(words or ["--help"], prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _print_error(error)
    except UsageError as error:
        path = getattr(getattr(error, "ctx", None), "command_path", PROGRAM)
        return _print_error(error.format_message(), f" (see {path} --help)")  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        return _end_output(error)
    return status if isinstance(status, int) else 0


def _end_output(error: OSError) -> int:
    """Handle a closed pipe or a full disk, and return the exit status.

    Redirect the output, so that Python does not report the error again.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return 1 if error.errno == errno.EPIPE else _print_error(f"the output cannot be written: {error.strerror}")


def _print_error(what: object, hint: str = "") -> int:
    sys.stderr.write(f"{PROGRAM}: {to_one_line(what)}{hint}\n")
    return BAD_INPUT
