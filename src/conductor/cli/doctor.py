"""`conductor-worker doctor`: check whether workers can run here; each fault has a remedy."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from conductor.cli.checks_machine import check_here
from conductor.cli.checks_server import check_server
from conductor.cli.checks_workers import check_workers
from conductor.cli.console import make_console, print_line, silence_logger
from conductor.cli.finding import Finding
from conductor.cli.support import Url, UserError, make_configuration
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.option import ConfigurationError
from conductor.client.worker.worker_config import resolve_worker_config

STYLES = {"ok": "green", "warning": "yellow", "BROKEN": "bold red"}


def doctor(
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODULE", help="Modules whose workers to compare with the server.", show_default=False),
    ] = None,
    url: Url = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> int:
    """Check whether workers can run here, and print remedies.

    The checks cover the installation, settings, journal, server, queues, and the
    workers of the given modules.

    The exit status is 1 if workers cannot run. A warning does not change it.
    """
    configuration = make_configuration(url)
    try:
        options = resolve_worker_config("")
    except ConfigurationError as error:
        raise UserError(error) from None
    with silence_logger("conductor.client.http.access_token"):
        findings = [*check_here(options), *asyncio.run(_check_over_network(configuration, modules or []))]
    if as_json:
        print_line(json.dumps([finding.to_dict() for finding in findings]))
    else:
        _show(findings)
    return int(any(finding.mark == "BROKEN" for finding in findings))


async def _check_over_network(configuration: Configuration, modules: list[str]) -> list[Finding]:
    found = await check_server(configuration)
    return [*found, *(await check_workers(modules, configuration) if modules else [])]


def _show(findings: list[Finding]) -> None:
    out = make_console()
    for mark, line, _, remedy in findings:
        out.print(f"[{STYLES[mark]}]{mark:>7}[/]  ", end="")
        out.print(line, markup=False, soft_wrap=True)
        if remedy:
            out.print(f"         {remedy}", markup=False, soft_wrap=True, style="dim")
