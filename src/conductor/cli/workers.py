"""`conductor-worker workers`: what would run, with every option and where its value came from."""

from __future__ import annotations

from rich.table import Table

from conductor.cli.complaint import Complaint
from conductor.cli.console import standard_output
from conductor.cli.discovery import Modules, find_workers, warn_of_unknown_variables
from conductor.client.worker.option import ConfigurationError
from conductor.client.worker.worker import Worker, calls_coroutine, given_options
from conductor.client.worker.worker_config import ResolvedConfig, resolve_worker_config


def workers(modules: Modules) -> None:
    """List the workers of modules or packages, with every option's value and where it came from."""
    found = find_workers(modules)
    try:
        configs = [resolve_worker_config(one.get_task_definition_name(), given_options(one)) for one in found]
    except ConfigurationError as error:
        raise Complaint(error) from None
    out = standard_output()
    for worker, config in zip(found, configs, strict=True):
        out.print(_title(worker, config), style="bold", highlight=False, markup=False)
        out.print(_options(config), "")
    warn_of_unknown_variables(found)


def _title(worker: Worker, config: ResolvedConfig) -> str:
    function = worker.execute_function
    place = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
    kind = "async def" if calls_coroutine(worker) else "def"
    domain = f" in domain {config.domain}" if config.domain else ""
    return f"{worker.get_task_definition_name()}{domain}: {kind} {place}"


def _options(config: ResolvedConfig) -> Table:
    table = Table("option", "value", "from", box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    for name, value in config.items():
        source = config.source(name)
        style = "dim" if source == "default" else ""
        table.add_row(name, "none" if value is None else str(value), source, style=style)
    return table
