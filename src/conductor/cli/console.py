"""Where commands write: with colour and bars on a terminal, as plain lines everywhere else."""

from __future__ import annotations

import sys

from rich.console import Console

#: Away from a terminal nobody's window limits a line.
PLAIN_WIDTH = 160


def standard_output() -> Console:
    """What a command was asked for."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=PLAIN_WIDTH, highlight=False)


def say(line: str) -> None:
    """One line, at once: whoever waits for it in a pipe sees it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
