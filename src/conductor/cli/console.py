"""Prints lines, tables and JSON: with colours on a terminal, as plain lines elsewhere."""

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

#: Width of the output, in columns, if it does not go to a terminal.
PLAIN_WIDTH = 160
#: JSON with at most this many characters is printed on one line.
SHORT_VALUE = 60


def make_console() -> Console:
    """Return a console for the standard output."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=PLAIN_WIDTH, highlight=False)


def print_line(line: str) -> None:
    """Print one line and flush it, so that a reader of a pipe sees it immediately."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """Print a value as one line of JSON. The line is ASCII, so it cannot contain control sequences."""
    print_line(json.dumps(value))


def print_value(title: str, value: Any, max_lines: int = 40) -> None:
    """Print JSON below a title, on one line if it is short. Of a long value, only the first lines are printed."""
    short = json.dumps(value, ensure_ascii=False)
    if not value or len(short) <= SHORT_VALUE:
        print_line(escape(f"{title}: {short if value else 'none'}"))
        return
    print_line(f"{title}:")
    lines = json.dumps(value, indent=2, ensure_ascii=False).splitlines()
    for line in lines[:max_lines]:
        print_line(f"  {escape(truncate(line, PLAIN_WIDTH))}")
    if len(lines) > max_lines:
        print_line(f"  … {len(lines) - max_lines:,} more lines; --json prints all")


def to_sentence(text: str) -> str:
    """Return the text on one line that ends with a full stop, with control characters escaped."""
    line = escape(" ".join(text.split()))
    return line + ("" if line.endswith((".", "!", "?", "…")) else ".")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without borders. On a terminal, long cells are wrapped; elsewhere each row is one line.

    Cells are plain text: markup is not interpreted, and control characters are escaped.
    """
    cells = [[escape(cell) for cell in row] for row in rows]
    console = make_console()
    if not console.is_terminal:
        for line in align_columns([heads, *cells]):
            print_line(line)
        return
    table = Table(*(Column(head, overflow="fold") for head in heads), box=None, pad_edge=False, header_style="dim")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return each row as one line, with columns as wide as their widest cell."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def truncate(text: str, width: int) -> str:
    """Shorten the text to `width` columns of a terminal, with an ellipsis at its end."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


@contextmanager
def silence_logger(logger: str) -> Iterator[None]:
    """Silence a logger inside the block, because the command itself prints the same error."""
    log = logging.getLogger(logger)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
