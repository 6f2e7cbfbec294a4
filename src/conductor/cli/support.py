"""What several commands need: the error that is one line for the user, the server option, packages that may be missing.

Nothing of ours is imported before it is used: `conflict` must still answer when half of our files are gone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.configuration.settings.metrics_settings import MetricsSettings
    from conductor.client.http.async_api_client import AsyncApiClient
    from conductor.coordinator import Coordinator

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

#: The other distribution that is imported as `conductor`.
OTHER_PACKAGE = "conductor-python"

#: The option of every command that talks to a server.
Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="The server, with or without /api, in place of CONDUCTOR_SERVER_URL.", show_default=False
    ),
]
#: The option of every command that a program may read.
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs, and nothing else on the standard output.")]


#: How much of the log is shown, and how its lines look: the same for workers and for the coordinator.
LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        help="DEBUG, INFO, WARNING, ERROR or CRITICAL, in place of CONDUCTOR_LOG_LEVEL.",
        show_default=False,
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="text, or json: one object a line, with the ids of tasks and workflows as fields; "
        "in place of CONDUCTOR_LOG_FORMAT.",
        show_default=False,
    ),
]


class UserError(Exception):
    """Something the user can put right: what happened, which value, what to do. One line, and exit status 2."""


def one_line(text: object) -> str:
    """The same on one line, however many the library behind it wrote, and nothing in it that drives a terminal."""
    from conductor.common.text import escape

    return escape(" ".join(str(text).split()))


def examples(*lines: str) -> Callable[[Command], Command]:
    """Examples for the end of a command's help, each without the name of the program."""

    def keep(command: Command) -> Command:
        command.__dict__["examples"] = lines
        return command

    return keep


def add_command(group: typer.Typer, command: Callable[..., Any]) -> None:
    """Make a function a command of this group, with its examples."""
    # \b: click leaves the lines as they are.
    lines = "\n".join(f"  conductor-worker {line}" for line in getattr(command, "examples", ()))
    name = command.__name__.rstrip("_").replace("_", "-")
    group.command(name, epilog=f"\b\nExamples:\n{lines}" if lines else None)(command)


def json_object(text: str, option: str) -> dict[str, Any]:
    """The JSON object that somebody gave to an option: as it is, or as `@file`, or as `@-` for the standard input."""
    try:
        if text == "@-":
            text = typer.get_text_stream("stdin").read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        value = json.loads(text)
    except OSError as error:
        raise UserError(f"{option} {text}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{option} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{option} is a JSON object, not {_cut(text)}")
    return value


def _cut(text: str, length: int = 100) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def ask(url: str | None, question: Callable[[AsyncApiClient], Awaitable[T]]) -> T:
    """Ask a server something. What it refuses, or that it is not there, is a line for the user."""
    from conductor.cli.console import quiet
    from conductor.cli.server_kind import why
    from conductor.client.http.async_api_client import AsyncApiClient
    from conductor.client.http.errors import ApiException, AuthorizationException, ConductorError, TransportError

    configuration = configuration_of(url)

    async def asked() -> T:
        api = AsyncApiClient(configuration)
        try:
            return await question(api)
        finally:
            await api.close()

    try:
        with quiet("conductor.client.http.access_token"):
            return asyncio.run(asked())
    except AuthorizationException as error:
        raise UserError(
            f"{configuration.shown_host} refuses: {error.reason or error}. "
            "Set CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET, or use a key that may do this"
        ) from None
    except ApiException as error:
        strange = f"{configuration.shown_host} answers, but not as Conductor does: {why(error)}. Is the URL right?"
        raise UserError(error.reason or strange) from None
    except TransportError as error:
        raise UserError(
            f"{configuration.shown_host} cannot be reached: {why(error)}. "
            "Start a server with `conductor-worker serve`, or name one with CONDUCTOR_SERVER_URL or --url"
        ) from None
    except ConductorError as error:
        raise UserError(error) from None


def configuration_of(url: str | None, **more: Any) -> Configuration:
    """The server at this URL, or the environment's; a UserError when something about it is not allowed."""
    from conductor.client.configuration.configuration import Configuration

    try:
        return Configuration(url, **more)
    except ValueError as error:
        said = str(error)
        for name, option in (("server_api_url", "--url"), ("log_level", "--log-level"), ("log_format", "--log-format")):
            said = said.replace(f"Configuration({name}=…)", option)
        raise UserError(said) from None


def coordinator_class() -> type[Coordinator]:
    """The coordinator, which needs the extra `server`."""
    try:
        from conductor.coordinator import Coordinator
    except ImportError as error:
        raise UserError(f"the coordinator needs {error.name}: pip install 'conductor-worker[all]'") from None
    return Coordinator


def metrics_on(host: str, port: int, *, optional: bool = False) -> MetricsSettings:
    """Metrics over HTTP, which need the extra `metrics`."""
    from conductor.client.configuration.settings.metrics_settings import MetricsSettings
    from conductor.telemetry.exposition import MetricsUnavailable, require_prometheus

    try:
        require_prometheus()
    except MetricsUnavailable as error:
        raise UserError(error) from None
    return MetricsSettings(host=host, http_port=port, optional=optional)


def conflict() -> str | None:
    """A line about conductor-python when it is installed beside us, for both write into the same directory."""
    try:
        found = metadata.version(OTHER_PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    return (
        f"{OTHER_PACKAGE} {found} is installed too, and both are imported as 'conductor': "
        f"pip uninstall {OTHER_PACKAGE}, then pip install --force-reinstall conductor-worker"
    )
