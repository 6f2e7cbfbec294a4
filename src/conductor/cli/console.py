"""Where commands write: with colour and bars on a terminal, as plain lines everywhere else."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from conductor.common.text import escape

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


def say_json(value: Any) -> None:
    """One line of JSON, for programs. It is ASCII, so nothing in it can drive a terminal."""
    say(json.dumps(value))


def sentence(text: str) -> str:
    """What somebody said, as a sentence: a full stop at its end, and nothing in it that drives a terminal."""
    said = escape(" ".join(text.split()))
    return said + ("" if said.endswith((".", "!", "?", "…")) else ".")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns without lines around them, folded to the width of a terminal; elsewhere each row is one line.

    What is in them is text: no markup, and no control characters.
    """
    cells = [[escape(cell) for cell in row] for row in rows]
    console = standard_output()
    if not console.is_terminal:
        for line in in_columns([heads, *cells]):
            say(line)
        return
    table = Table(*(Column(head, overflow="fold") for head in heads), box=None, pad_edge=False, header_style="dim")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Each row as one line, in columns as wide as their widest cell."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def cut(text: str, width: int) -> str:
    """The same in that many columns of a terminal: what does not fit is dots."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


@contextmanager
def quiet(logger: str) -> Iterator[None]:
    """Silence a logger inside the block, where the command itself says what the log would say."""
    log = logging.getLogger(logger)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
