"""The command line: `conductor-worker`, or `python -m conductor.cli`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

#: What a user can do something about ends with this status.
BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Never raises for a mistake of the user."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.stderr.write(f"The command line needs {error.name}: pip install 'conductor-worker[all]'\n")
        return BAD_INPUT
    try:
        from conductor.cli.app import run_command
    except ImportError as error:  # another package has written over our files, or has taken them along
        from conductor.cli.neighbours import clash

        what = clash() or "a part of it is missing: pip install --force-reinstall conductor-worker"
        sys.stderr.write(f"conductor-worker cannot start ({error}). {what}\n")
        return BAD_INPUT
    return run_command(sys.argv[1:] if arguments is None else arguments)
