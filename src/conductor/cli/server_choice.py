"""Which server a command talks to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from conductor.cli.complaint import Complaint
from conductor.client.configuration.configuration import Configuration

#: The option of every command that talks to a server.
Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="The server, with or without /api, in place of CONDUCTOR_SERVER_URL.", show_default=False
    ),
]


def configuration_of(url: str | None, **more: Any) -> Configuration:
    """The server at this URL, or the environment's; a Complaint when something about it is not allowed."""
    try:
        return Configuration(url, **more)
    except ValueError as error:
        raise Complaint(str(error).replace("Configuration(server_api_url=…)", "--url")) from None
