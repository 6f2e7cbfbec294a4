"""Derives command-line options from the table of worker options."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from conductor.cli.support import UserError
from conductor.client.configuration.option import ConfigurationError, Option
from conductor.client.worker.worker_config import OPTIONS

_PANEL = "Options of all workers (a worker's own environment variable wins)"


def flag_of(option: Option) -> str:
    """Return `--thread-count` for `thread_count`."""
    return "--" + option.name.replace("_", "-")


def with_worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command whose signature has one parameter per worker option in place of `**options`."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    rows = [_parameter(row) for row in OPTIONS.values()]
    command.__signature__ = signature.replace(parameters=[*own, *rows])  # type: ignore[attr-defined]
    return command


def _parameter(row: Option) -> inspect.Parameter:
    on = flag_of(row)
    flags = f"{on}/--no-{on[2:]}" if row.kind is bool else on
    info = typer.Option(
        flags,
        help=f"{row.help} (default: {_default(row)})",
        rich_help_panel=_PANEL,
        show_default=False,
    )
    # Typer passes values on as text: `OPTIONS` parses and validates them.
    kind = bool if row.kind is bool else str
    return inspect.Parameter(
        row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )


def _default(row: Option) -> str:
    return row.default_text or ("none" if row.default is None else str(row.default).lower())


def set_worker_variables(options: Mapping[str, str | bool | None]) -> None:
    """Set environment variables that apply these options to all workers. Worker processes inherit the variables."""
    for name, value in options.items():
        if value is None:
            continue
        row, text = OPTIONS[name], str(value)
        try:
            row.parse(text, flag_of(row))
        except ConfigurationError as error:
            raise UserError(error) from None
        os.environ[f"conductor.worker.all.{name}"] = text
