"""The command line: `conductor-worker`, or `python -m conductor.cli`. In reading order:

- `__main__`: the entry point of `python -m`.
- `command_line`: all commands, and the conversion of a user's mistake to one line and an exit status.
- `serve`, `run`, `dev`, `init`, `exec`, `workers`, `demo`, `doctor`, `top`, `tail`, `queues`, `audit`, `backup`,
  `restore`, `purge`: one command each.
- `workflow_group`, `task_commands`, `schedule_commands`, `secret_commands`, `key_commands`: one group of commands each.
  The first has its commands in `workflow_commands` (list, show, start, wait), `start_many` (one workflow per line of a
  file), `workflow_control` (pause, retry, terminate, …) and `definitions` (definitions, export, register, diff).
- `workflow_details`: reads one workflow from a coordinator or a Conductor server.
- `stored_warnings`: prints the warnings of a coordinator about stored definitions and schedules.
- `newest_workflows`: lists the newest workflows of a server.
- `graph`: draws a workflow as lines of text.
- `times`: parses and formats times.
- `finding`, `checks_machine`, `checks_server`, `checks_workers`: the checks of the doctor, one function per fault.
- `live_state`: reads the state of a server for the top command.
- `reloading`: reloads the workers of the dev command after a file is saved, in the command's process.
- `finished_workflows`: prints the end of each workflow, for the dev command.
- `dev_workers`, `breakpoints`: the process that runs the workers of the dev command, and its debugger.
- `discovery`: finds the workers of the modules that a command names.
- `server_kind`: identifies the kind of server at a URL.
- `queue_state`: reads the queues of a server and their last polls.
- `worker_readiness`: announces that every worker has polled.
- `worker_options`: derives command-line options from the table of worker options.
- `support`: shared by commands: the error for users, the server option, extras that may be missing.
- `help_format`: the help of commands.
- `console`: prints lines, tables and JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

#: Exit status after a mistake that the user can correct.
BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. A user's mistake is printed, not raised."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.stderr.write(f"The command line needs {error.name}: pip install 'conductor-worker[all]'\n")
        return BAD_INPUT
    try:
        from conductor.cli.command_line import run_command
    except ImportError as error:
        if error.name == "fcntl":  # Windows has no fcntl; the message of the error says so
            sys.stderr.write(f"{error}\n")
            return BAD_INPUT
        # A file of this package is missing, probably because another package has overwritten or removed it.
        from conductor.cli.support import find_conflict

        what = find_conflict() or "some of its files are missing: install it again with pip install --force-reinstall"
        sys.stderr.write(f"conductor-worker cannot start ({error}). {what}\n")
        return BAD_INPUT
    return run_command(sys.argv[1:] if arguments is None else arguments)
