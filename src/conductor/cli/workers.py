"""`conductor-worker workers`: list workers with their options and the sources of the values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from conductor.cli.console import make_console, print_json, print_table
from conductor.cli.discovery import Modules, Traceback, find_workers, warn_about_unknown_variables
from conductor.cli.support import AsJson, UserError, examples
from conductor.client.configuration.option import ConfigurationError
from conductor.client.worker.worker import Worker, get_code_options, runs_coroutine
from conductor.client.worker.worker_config import ResolvedConfig, resolve_worker_config


@examples("workers greetings", "workers shop.workers --all", "workers greetings.py --json")
def workers(
    modules: Modules,
    every_option: Annotated[
        bool, typer.Option("--all", help="Show every option, including defaults.", show_default=False)
    ] = False,
    show_traceback: Traceback = False,
    as_json: AsJson = False,
) -> None:
    """List the workers of modules and their options.

    Options with the default value are left out unless you add --all.
    """
    found = find_workers(modules, show_traceback=show_traceback)
    try:
        configs = [resolve_worker_config(one.get_task_definition_name(), get_code_options(one)) for one in found]
    except ConfigurationError as error:
        raise UserError(error) from None
    pairs = list(zip(found, configs, strict=True))
    if as_json:
        print_json([_wire(*pair) for pair in pairs])
    elif every_option:
        _print_all(pairs)
    else:
        heads = ["worker", "function", "option", "value", "from"]
        print_table(heads, (row for pair in pairs for row in _rows(*pair)))
    warn_about_unknown_variables(found)


def _print_all(pairs: list[tuple[Worker, ResolvedConfig]]) -> None:
    out = make_console()
    for worker, config in pairs:
        out.print(_title(worker, config), style="bold", highlight=False, markup=False)
        out.print(_options(config), "")


def _wire(worker: Worker, config: ResolvedConfig) -> dict[str, Any]:
    return {
        "taskType": worker.get_task_definition_name(),
        "domain": config.domain or None,
        "function": _function_name(worker),
        "async": runs_coroutine(worker),
        "options": {name: {"value": value, "from": config.source(name)} for name, value in config.items()},
    }


def _rows(worker: Worker, config: ResolvedConfig) -> Iterator[list[str]]:
    """Yield a row for each option that is set, or a single row if the worker has only defaults."""
    first = [worker.get_task_definition_name(), f"{_kind(worker)} {_function_name(worker)}"]
    for name, value in config.items():
        if config.source(name) != "default":
            yield [*first, name, _format_value(value), config.source(name)]
            first = ["", ""]
    if first[0]:
        yield [*first, "", "", "all defaults"]


def _format_value(value: object) -> str:
    return "none" if value is None else str(value)


def _kind(worker: Worker) -> str:
    return "async def" if runs_coroutine(worker) else "def"


def _function_name(worker: Worker) -> str:
    function = worker.execute_function
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"


def _title(worker: Worker, config: ResolvedConfig) -> str:
    domain = f" in domain {config.domain}" if config.domain else ""
    return f"{worker.get_task_definition_name()}{domain}: {_kind(worker)} {_function_name(worker)}"


def _options(config: ResolvedConfig) -> Table:
    made = Table("option", "value", "from", box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    for name, value in config.items():
        source = config.source(name)
        style = "dim" if source == "default" else ""
        made.add_row(name, Text(_format_value(value)), source, style=style)
    return made
