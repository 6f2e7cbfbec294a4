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
from conductor.cli.backup import backup
from conductor.cli.demo import demo
from conductor.cli.dev import dev
from conductor.cli.doctor import doctor
from conductor.cli.exec import exec_task
from conductor.cli.init import init
from conductor.cli.purge import purge
from conductor.cli.queues import queues
from conductor.cli.run import run
from conductor.cli.schedule_commands import schedule
from conductor.cli.serve import serve
from conductor.cli.support import UserError, add_command, to_one_line
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


app = typer.Typer(
    name=PROGRAM,
    help="Run Python functions as Conductor workers, and a server to run them on.",
    rich_markup_mode=None,  # plain help, because boxes cut off long names
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (serve, run, dev, init, workers, demo, doctor, top, tail, queues, backup, purge, version):
    add_command(app, command)
app.command(name="exec")(exec_task)
app.add_typer(workflow)
app.add_typer(task)
app.add_typer(schedule)


def run_command(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and return its exit status."""
    # A terminal that cannot encode a symbol shows a question mark; every symbol has a word next to it.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        words = ["version"] if list(arguments) == ["--version"] else list(arguments)
        status = app(words or ["--help"], prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _print_error(error)
    except UsageError as error:
        return _print_error(error.format_message(), f" (see {PROGRAM} --help)")  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        return _end_output(error)
    return status if isinstance(status, int) else 0


def _end_output(error: OSError) -> int:
    """Redirect the output after a closed pipe or a full disk, so that Python does not report the error again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return 1 if error.errno == errno.EPIPE else _print_error(f"the output cannot be written: {error.strerror}")


def _print_error(what: object, hint: str = "") -> int:
    sys.stderr.write(f"{PROGRAM}: {to_one_line(what)}{hint}\n")
    return BAD_INPUT
