"""`conductor-worker doctor`: what a worker here would meet."""

from __future__ import annotations

import asyncio
import os
import platform
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from conductor.cli.complaint import Complaint
from conductor.cli.console import quiet, standard_output
from conductor.cli.neighbours import clash
from conductor.cli.server_choice import Url, configuration_of
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import AuthorizationException, ConductorError, NotFoundException
from conductor.client.worker.option import ConfigurationError
from conductor.client.worker.worker_config import ResolvedConfig, resolve_worker_config, unknown_variables
from conductor.version import __version__
from conductor.wire import FEATURE_LEASES

if TYPE_CHECKING:
    from conductor.client.http.async_api_client import AsyncApiClient

#: A task type that nobody works on: polling for it is what a worker does first, and takes nothing.
PROBE = "conductor_worker_doctor"
#: A package of each extra.
EXTRAS = {"metrics": "prometheus_client", "server": "uvicorn", "cli": "typer"}


class Finding(NamedTuple):
    """One line of the examination."""

    mark: str
    line: str


def well(line: str) -> Finding:
    """As it should be."""
    return Finding("ok", line)


def worth_a_look(line: str) -> Finding:
    """Workers run, but not as somebody thought."""
    return Finding("warning", line)


def broken(line: str) -> Finding:
    """Workers cannot do their work."""
    return Finding("BROKEN", line)


def doctor(url: Url = None) -> int:
    """Say whether workers can run here: installation, settings, server, credentials. Status 1 if they cannot."""
    configuration = configuration_of(url)
    try:
        options = resolve_worker_config("")
    except ConfigurationError as error:
        raise Complaint(error) from None
    with quiet("conductor.client.http.token"):
        findings = [*_installation(), *_settings(options), *asyncio.run(_server(configuration))]
    out = standard_output()
    styles = {"ok": "green", "warning": "yellow", "BROKEN": "bold red"}
    for mark, line in findings:
        out.print(f"[{styles[mark]}]{mark:>7}[/]  ", end="")
        out.print(line, markup=False, soft_wrap=True)
    return int(any(finding.mark == "BROKEN" for finding in findings))


def _installation() -> Iterator[Finding]:
    extras = ", ".join(name for name, package in EXTRAS.items() if find_spec(package)) or "none"
    yield well(f"conductor-worker {__version__} on Python {platform.python_version()}, extras: {extras}")
    warning = clash()
    if warning:
        yield worth_a_look(warning)


def _settings(options: ResolvedConfig) -> Iterator[Finding]:
    for line in unknown_variables(os.environ, []):
        # Without the workers' modules, a variable of a single worker cannot be told from a mistake.
        yield worth_a_look(f"{line} (right if it is a worker's own: `conductor-worker workers MODULE` knows)")
    from conductor.client.automator.journal import default_directory

    if not options.journal_enabled:
        yield worth_a_look("the result journal is off: a result that cannot be delivered is lost with its process")
        return
    directory = Path(options.journal_dir) if options.journal_dir else default_directory()
    nearest = next(path for path in [directory, *directory.parents] if path.exists())
    if os.access(nearest, os.W_OK):
        yield well(f"the result journal can be written to {directory}")
    else:
        yield worth_a_look(f"the result journal cannot be written: {nearest} is not writable")


async def _server(configuration: Configuration) -> list[Finding]:
    from conductor.client.http.api.async_task_resource_api import AsyncTaskResourceApi
    from conductor.client.http.async_api_client import AsyncApiClient

    settings, host = configuration.authentication_settings, configuration.shown_host
    async with AsyncTaskResourceApi(AsyncApiClient(configuration)) as api:
        try:
            polled = await api.poll_batch(PROBE, worker_id=PROBE, domain=None, count=1, timeout_ms=0)
        except AuthorizationException as error:
            asked = f"refuses the key '{settings.key_id}'" if settings else "asks for a key, and none is set"
            return [broken(f"{host} {asked}: {_why(error)}. Set CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET")]
        except NotFoundException as error:
            return [broken(f"{host} answers, but not as Conductor does: {_why(error)}. Is the path of the URL right?")]
        except ConductorError as error:
            advice = "Start a server with `conductor-worker serve`, or name one with CONDUCTOR_SERVER_URL"
            return [broken(f"{host} cannot be used: {_why(error)}. {advice}")]
        version = await _version(api.api_client)
    kind = "a coordinator" if FEATURE_LEASES in polled.features else "a plain Conductor server"
    accepted = f"accepts the key '{settings.key_id}'" if settings and configuration.AUTH_TOKEN else "asks for no key"
    return [well(f"{host} answers polls and {accepted}: {kind}, version {version}")]


async def _version(client: AsyncApiClient) -> str:
    try:
        return await client.call_for(str, "GET", "/version")
    except ConductorError:
        return "unknown"


def _why(error: BaseException) -> str:
    """Without the request: what was asked says nothing to somebody who did not ask."""
    said = re.sub(r"^GET \S+(:| answered) ", "", str(error)).rstrip(".") or type(error).__name__
    return "; ".join([said, *getattr(error, "__notes__", [])])
