"""The classes that conductor-python generates from a server's API description, one row per endpoint.

The classes keep conductor-python's names and order of parameters. New programs use `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, get_origin

from conductor.client.background_event_loop import BackgroundEventLoop
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.endpoint import Endpoint
from conductor.client.http.operation import AsyncClient, SyncClient

#: The servers that have these endpoints, for the error message when another server does not have one.
ONLY_ON = "Orkes Conductor"


class GeneratedApi(SyncClient[AsyncClient]):
    """Base of the generated classes. Each method is one blocking call.

    Args:
        api_client: The connections to use, or the server; read from the environment by default.
    """

    async_class = AsyncClient

    def __init__(self, api_client: AsyncApiClient | Configuration | None = None) -> None:
        super().__init__(api_client)
        self.api_client = self.asynchronous.api_client


def generated(
    method: str,
    template: str,
    parameters: str = "",
    *,
    body: str = "body",
    as_text: bool = False,
    returns: Any = Any,
) -> Callable[..., Any]:
    """Return a method that makes one blocking call.

    Args:
        method: GET, POST, PUT or DELETE.
        template: The path, with placeholders for its values.
        parameters: The parameters as in a Python signature. Parameters after `*` are optional keywords.
        body: The parameter that is the body.
        as_text: The body is a text and not JSON.
        returns: The type of the answer. Without one, the answer is the decoded JSON or the text that the server sends.
    """
    required, _, optional = parameters.partition("*")
    signature = Signature(
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *_split_names(required))]
        + [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in _split_names(optional)]
    )
    target = Endpoint(method, template, body=body, as_text=as_text, resend=method != "POST", only_on=ONLY_ON)
    if returns not in (Any, str) and get_origin(returns) not in (list, dict):
        returns = returns | None  # a server may answer with an empty body

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        api: GeneratedApi = arguments.pop("self")
        return BackgroundEventLoop().run_coroutine(target.send(api.api_client, arguments, returns))

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = f"`{method} {template}`"
    return call


def _split_names(parameters: str) -> list[str]:
    return [name.strip() for name in parameters.split(",") if name.strip()]
