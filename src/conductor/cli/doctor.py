"""`conductor-worker doctor`: check whether workers can run here; each fault has a remedy."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer

from conductor.cli.checks_machine import check_here
from conductor.cli.checks_server import check_server, silent_server
from conductor.cli.checks_workers import check_workers
from conductor.cli.console import make_console, print_line, silence_logger
from conductor.cli.finding import Finding
from conductor.cli.support import Url, UserError, make_configuration
from conductor.cli.worker_options import set_worker_variables, with_worker_options
from conductor.client.configuration.configuration import Configuration
from conductor.client.configuration.option import ConfigurationError
from conductor.client.worker.worker_config import resolve_worker_config

#: The checks of the server end after this time, also if the server has not answered.
SERVER_WITHIN_S = 3.0
STYLES = {"ok": "green", "warning": "yellow", "BROKEN": "bold red"}


@with_worker_options
def doctor(
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODULE", help="Modules whose workers to compare with the server.", show_default=False),
    ] = None,
    url: Url = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
    **worker_options: Any,
) -> int:
    """Check whether workers can run on this machine, and print remedies.

    The checks cover the installation, settings, journal, server, queues, and the
    workers of the given modules.

    The exit status is 1 if workers cannot run. Warnings do not change the exit status.
    """
    set_worker_variables(worker_options)
    configuration = make_configuration(url)
    try:
        options = resolve_worker_config("")
    except ConfigurationError as error:
        raise UserError(error) from None
    with silence_logger("conductor.client.http.access_token"):
        found_here = check_here(options, checks_workers=bool(modules))
        findings = [*found_here, *asyncio.run(_check_over_network(configuration, modules or []))]
    if as_json:
        print_line(json.dumps([finding.to_dict() for finding in findings]))
    else:
        _show(findings)
    return int(any(finding.mark == "BROKEN" for finding in findings))


async def _check_over_network(configuration: Configuration, modules: list[str]) -> list[Finding]:
    found: list[Finding] = []
    try:
        async with asyncio.timeout(SERVER_WITHIN_S):
            await check_server(configuration, found)
            found += await check_workers(modules, configuration) if modules else []
    except TimeoutError:
        found.append(silent_server(configuration, SERVER_WITHIN_S, is_known=bool(found)))
    return found


def _show(findings: list[Finding]) -> None:
    out = make_console()
    for mark, line, _, remedy in findings:
        out.print(f"[{STYLES[mark]}]{mark:>7}[/]  ", end="")
        out.print(line, markup=False, soft_wrap=True)
        if remedy:
            out.print(f"         {remedy}", markup=False, soft_wrap=True, style="dim")
