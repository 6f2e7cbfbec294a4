"""Where commands write: with colour and bars on a terminal, as plain lines everywhere else."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def quiet(logger: str) -> Iterator[None]:
    """Nothing from this logger inside the block, where the command's own words say what it would say."""
    log = logging.getLogger(logger)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
