"""The command line: `conductor-worker`, or `python -m conductor.cli`. In reading order:

- `__main__`: what `python -m` runs.
- `main`: all commands, and where a mistake becomes a line and an exit status.
- `serve`, `run`, `dev`, `init`, `exec`, `workers`, `demo`, `doctor`, `top`, `tail`, `queues`, `backup`, `purge`: one
  command each.
- `workflow_group`, `task_commands`, `schedule_commands`: one group of commands each. The first is in
  `workflow_commands` (look, start, wait), `start_many` (one workflow per line of a file), `workflow_control` (change
  their course) and `definitions` (from code to a server).
- `workflow_details`: one workflow as a server tells of it, whichever server that is.
- `newest_workflows`: the newest workflows of a server.
- `graph`: a workflow as lines of text.
- `times`: times as people write and read them.
- `finding`, `checks_machine`, `checks_server`, `checks_workers`: what the examination looks for, a small
  function for each fault.
- `live_state`: one look at a server, for those who watch it.
- `reloading`: workers that are loaded again whenever a file is saved, from the side of the command.
- `dev_workers`, `breakpoints`: the process in which those workers run, and the debugger in it.
- `discovery`: the workers of the modules that a command names.
- `server_kind`: what kind of server a URL leads to.
- `queue_state`: what waits in the server's queues, and who polls them.
- `worker_readiness`: the line that says that all workers are at work.
- `worker_options`: the options of workers on the command line, from the one table of options.
- `support`: what several commands need: the user's error, the server option, extras that may be missing.
- `console`: where commands write.
"""

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
        from conductor.cli.main import run_command
    except ImportError as error:
        if error.name == "fcntl":  # Windows: the error says it all
            sys.stderr.write(f"{error}\n")
            return BAD_INPUT
        # Another package has written over our files, or has taken them along.
        from conductor.cli.support import conflict

        what = conflict() or "a part of it is missing: pip install --force-reinstall conductor-worker"
        sys.stderr.write(f"conductor-worker cannot start ({error}). {what}\n")
        return BAD_INPUT
    return run_command(sys.argv[1:] if arguments is None else arguments)
