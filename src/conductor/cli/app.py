"""All commands in one place, and the one place where mistakes become a line and an exit status."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import typer

from conductor.cli import BAD_INPUT
from conductor.cli.complaint import Complaint, one_line
from conductor.cli.demo import demo
from conductor.cli.doctor import doctor
from conductor.cli.run import run
from conductor.cli.serve import serve
from conductor.cli.version import version
from conductor.cli.workers import workers

PROGRAM = "conductor-worker"

#: click's UsageError, wherever this release of typer keeps it.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name=PROGRAM,
    help="Run Python functions as Conductor workers, and a server to run them on.",
    add_completion=False,
    rich_markup_mode=None,  # plain help: boxes cut off long names
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (serve, run, workers, demo, doctor, version):
    app.command()(command)


def run_command(arguments: Sequence[str]) -> int:
    """Run the command these arguments name."""
    try:
        words = ["version"] if list(arguments) == ["--version"] else list(arguments)
        status = app(words or ["--help"], prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except Complaint as complaint:
        return _refuse(complaint)
    except UsageError as error:
        return _refuse(error.format_message(), f" (see {PROGRAM} --help)")  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        return _unwritable(error)
    return status if isinstance(status, int) else 0


def _unwritable(error: OSError) -> int:
    """Nobody reads the output any more, or there is no room for it. Python would say so again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return 1 if error.errno == errno.EPIPE else _refuse(f"the output cannot be written: {error.strerror}")


def _refuse(what: object, hint: str = "") -> int:
    sys.stderr.write(f"{PROGRAM}: {one_line(what)}{hint}\n")
    return BAD_INPUT
