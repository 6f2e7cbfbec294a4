"""Code that commands share: the error for users, the server option, and extras that may be missing.

Most imports of this package are inside functions, because `find_conflict` must work when some of its files are missing.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from conductor.cli.help_format import PlainCommand, make_group_class

if TYPE_CHECKING:
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.configuration.settings.metrics_settings import MetricsSettings
    from conductor.client.http.async_api_client import AsyncApiClient
    from conductor.client.http.errors import AuthorizationException, TransportError
    from conductor.coordinator import Coordinator

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

#: The server of commands without --url, as `serve` and `dev` print it.
DEFAULT_SERVER = "http://127.0.0.1:8080/api"
#: A JSON object, quoted for a shell.
JSON_EXAMPLE = """'{"name": "Ada", "count": 2}'"""
#: The advice in errors about a server that does not answer.
START_A_SERVER = "Start a server with `conductor-worker serve`, or name one with CONDUCTOR_SERVER_URL or --url"
#: The other distribution that is imported as `conductor`.
OTHER_PACKAGE = "conductor-python"

#: The option of every command that talks to a server.
Url = Annotated[
    str | None,
    typer.Option("--url", help="URL of the server, with or without /api (CONDUCTOR_SERVER_URL).", show_default=False),
]
#: The option of every command with machine-readable output.
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON on the standard output.")]

LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        help="DEBUG, INFO, WARNING, ERROR or CRITICAL (CONDUCTOR_LOG_LEVEL).",
        show_default=False,
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="text, or json: one object per line, with task and workflow ids as fields (CONDUCTOR_LOG_FORMAT).",
        show_default=False,
    ),
]


class UserError(Exception):
    """A mistake that the user can correct. The command prints it as one line and exits with status 2."""


def to_one_line(text: object) -> str:
    """Return the text on one line, with control characters escaped."""
    from conductor.common.text import escape

    return escape(" ".join(str(text).split()))


def examples(*lines: str) -> Callable[[Command], Command]:
    """Return a decorator that adds examples to the end of a command's help. Each line omits the name of the program."""

    def add(command: Command) -> Command:
        command.__dict__["examples"] = lines
        return command

    return add


def make_group(name: str, help_text: str, sections: Mapping[str, Sequence[str]]) -> typer.Typer:
    """Return a group of commands. `sections` maps the headings in its help to commands."""
    return typer.Typer(
        name=name,
        cls=make_group_class(sections),
        help=help_text,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help, because boxes cut off long names
    )


def add_command(group: typer.Typer, command: Callable[..., Any]) -> None:
    """Add a function as a command to a group, with its examples."""
    # After \b, click does not rewrap the lines.
    lines = "\n".join(f"  conductor-worker {line}" for line in getattr(command, "examples", ()))
    name = command.__name__.rstrip("_").replace("_", "-").removesuffix("-task")
    group.command(name, cls=PlainCommand, epilog=f"\b\nExamples:\n{lines}" if lines else None)(command)


def parse_json_object(text: str, option: str) -> dict[str, Any]:
    """Parse the JSON object of an option, which may also be `@file` or `@-` for the standard input."""
    try:
        if text == "@-":
            text = typer.get_text_stream("stdin").read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        value = json.loads(text)
    except OSError as error:
        raise UserError(f"{option} {text}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{option} is not JSON: {error}; write for example {JSON_EXAMPLE}") from None
    if not isinstance(value, dict):
        raise UserError(f"{option} must be a JSON object, not {text if len(text) <= 100 else text[:99] + '…'}")
    return value


def call_server(url: str | None, call: Callable[[AsyncApiClient], Awaitable[T]]) -> T:
    """Call a server and return the result. Raise UserError if it rejects the call or cannot be reached."""
    from conductor.cli.console import silence_logger
    from conductor.cli.server_kind import describe_error, is_unknown_route
    from conductor.client.http.async_api_client import AsyncApiClient
    from conductor.client.http.errors import ApiException, AuthorizationException, ConductorError, TransportError

    configuration = make_configuration(url)

    async def run() -> T:
        api = AsyncApiClient(configuration)
        try:
            return await call(api)
        finally:
            await api.close()

    try:
        with silence_logger("conductor.client.http.access_token"):
            return asyncio.run(run())
    except AuthorizationException as error:
        raise _make_rejection_error(configuration, error) from None
    except ApiException as error:
        strange = (
            f"{configuration.shown_host} answers, but not as Conductor does: {describe_error(error)}. Is the URL right?"
        )
        hint = ". `conductor-worker workflow list` prints the ids" if "found by id" in (error.reason or "") else ""
        raise UserError(strange if is_unknown_route(error) else f"{error.reason or strange}{hint}") from None
    except TransportError as error:
        raise unreachable_error(configuration, error) from None
    except ConductorError as error:
        raise UserError(error) from None


def _make_rejection_error(configuration: Configuration, error: AuthorizationException) -> UserError:
    """Return the error for a request without a key, with a wrong key or with a key without the permission."""
    host, settings = configuration.shown_host, configuration.authentication_settings
    if settings is not None and (notes := getattr(error, "__notes__", ())):
        reason = notes[-1].rpartition(" answered 401: ")[2]
        return UserError(
            f"{host} rejects the key {settings.key_id!r}: {reason}. Correct CONDUCTOR_AUTH_KEY and "
            "CONDUCTOR_AUTH_SECRET"
        )
    advice = (
        "Set CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET" if settings is None else "Use a key with this permission"
    )
    return UserError(f"{host} rejected the request: {error.reason or error}. {advice}")


async def find_web_ui(api: AsyncApiClient, path: str = "/") -> str | None:
    """Return the address of a page of the server's web UI; None for a Conductor server."""
    from conductor.protocol.wire import FEATURES_HEADER

    features = (await api.call("GET", "/version")).headers.get(FEATURES_HEADER.lower())
    return None if features is None else web_ui_address(api.configuration.shown_host, path)


def web_ui_address(api_url: str, path: str = "/") -> str:
    """Return the address of a page of a coordinator's web UI."""
    return api_url.rstrip("/").removesuffix("/api") + path


def print_web_ui(address: str | None) -> None:
    """Print the address of the web UI on the standard error, because the standard output may be parsed."""
    if address is not None:
        typer.echo(f"Web UI: {address}", err=True)


def show_web_ui(url: str | None, path: str = "/") -> None:
    """Print the address of a page of the server's web UI, if it has one."""
    print_web_ui(call_server(url, lambda api: find_web_ui(api, path)))


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar name, or the known names."""
    names = sorted(known)
    if close := get_close_matches(name, names, n=1):
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(names[:10])}{' and more' if len(names) > 10 else ''}" if names else ""


def unreachable_error(configuration: Configuration, error: TransportError) -> UserError:
    """Return the error for a server that did not answer, with the remedy."""
    from conductor.cli.server_kind import describe_error

    return UserError(f"{configuration.shown_host} cannot be reached: {describe_error(error)}. {START_A_SERVER}")


def make_configuration(url: str | None, **more: Any) -> Configuration:
    """Return the configuration for a URL; without a URL, the configuration from the environment variables.

    Raises:
        UserError: A value is invalid.
    """
    from conductor.client.configuration.configuration import Configuration

    if not url and not os.environ.get("CONDUCTOR_SERVER_URL"):
        url = DEFAULT_SERVER
    try:
        return Configuration(url, **more)
    except ValueError as error:
        message = str(error)
        for name, option in (("server_api_url", "--url"), ("log_level", "--log-level"), ("log_format", "--log-format")):
            message = message.replace(f"Configuration({name}=…)", option)
        raise UserError(message) from None


def import_coordinator() -> type[Coordinator]:
    """Import the coordinator, which needs the `server` extra."""
    try:
        from conductor.coordinator import Coordinator
    except ImportError as error:
        raise UserError(f"the coordinator needs {error.name}: pip install 'conductor-worker[all]'") from None
    return Coordinator


def make_metrics_settings(host: str, port: int, *, optional: bool = False) -> MetricsSettings:
    """Return settings for metrics over HTTP, which need the `metrics` extra."""
    from conductor.client.configuration.settings.metrics_settings import MetricsSettings
    from conductor.telemetry.exposition import MetricsUnavailable, require_prometheus

    try:
        require_prometheus()
    except MetricsUnavailable as error:
        raise UserError(error) from None
    return MetricsSettings(host=host, http_port=port, optional=optional)


def find_conflict() -> str | None:
    """Return a warning if conductor-python is installed, because both packages write into the same directory."""
    try:
        found = metadata.version(OTHER_PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    return (
        f"{OTHER_PACKAGE} {found} is also installed, and both are imported as 'conductor': "
        f"pip uninstall {OTHER_PACKAGE}, then install conductor-worker again with pip install --force-reinstall"
    )
