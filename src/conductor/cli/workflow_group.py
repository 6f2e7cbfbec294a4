"""`conductor-worker workflow`: the group of all commands about workflows."""

from __future__ import annotations

from conductor.cli import definitions, workflow_commands, workflow_control
from conductor.cli.support import add_command, make_group

workflow = make_group(
    "workflow",
    "List, start and control workflows; register definitions.",
    {
        "Look": ("list", "show", "wait"),
        "Start": ("start",),
        "Control": ("pause", "resume", "retry", "rerun", "restart", "terminate", "send", "delete"),
        "Definitions": ("definitions", "export", "register", "diff"),
    },
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
    workflow_control.send,
    workflow_control.delete,
    definitions.definitions,
    definitions.export,
    definitions.register,
    definitions.diff,
):
    add_command(workflow, command)
