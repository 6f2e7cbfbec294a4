"""`conductor-worker workflow`: the group of all commands about workflows."""

from __future__ import annotations

import typer

from conductor.cli import actions, definitions, executions
from conductor.cli.support import add_command

workflow = typer.Typer(
    name="workflow",
    help="Workflows: look at them, start them, change their course; and definitions in Python, to a server.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for command in (
    executions.list_,
    executions.show,
    executions.start,
    executions.wait,
    actions.pause,
    actions.resume,
    actions.retry,
    actions.rerun,
    actions.restart,
    actions.terminate,
    definitions.export,
    definitions.register,
    definitions.diff,
):
    add_command(workflow, command)
