"""`conductor-worker workflow`: the group of all commands about workflows."""

from __future__ import annotations

import typer

from conductor.cli import definitions, workflow_commands, workflow_control
from conductor.cli.support import add_command

workflow = typer.Typer(
    name="workflow",
    help="List, start and control workflows; register definitions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for command in (
    workflow_commands.list_,
    workflow_commands.show,
    workflow_commands.start,
    workflow_commands.wait,
    workflow_control.pause,
    workflow_control.resume,
    workflow_control.retry,
    workflow_control.rerun,
    workflow_control.restart,
    workflow_control.terminate,
    definitions.export,
    definitions.register,
    definitions.diff,
):
    add_command(workflow, command)
