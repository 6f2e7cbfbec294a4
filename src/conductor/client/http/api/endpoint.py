"""Endpoints as rows: the classes that conductor-python generates from a server's description, one line a call."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from re import findall
from typing import Any, get_origin

import msgspec

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.async_resource_api import api_client_of
from conductor.client.http.api.async_workflow_resource_api import WAIT_GRACE_S
from conductor.client.http.api.optional_resource_api import OptionalResourceApi
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.errors import UNREADABLE, MalformedAnswer
from conductor.client.http.sync_face import SyncClient, blocking
from conductor.common.text import escape

_KINDS = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY


class GeneratedApi(SyncClient[OptionalResourceApi]):
    """A class of endpoints. Where a server does not have one, the error says so."""

    def __init__(self, api_client: AsyncApiClient | Configuration | None = None) -> None:
        super().__init__(OptionalResourceApi(api_client_of(api_client)))
        self.api_client = self.asynchronous.api_client

    _call = blocking(OptionalResourceApi._call)


def endpoint(
    method: str,
    template: str,
    *parameters: str,
    query: str = "",
    body: str = "body",
    text: bool = False,
    returns: Any = None,
) -> Callable[..., Any]:
    """One blocking call.

    Args:
        method: GET, POST, PUT or DELETE.
        template: The path; a parameter fills the braces that have its name.
        parameters: What a caller must give, in this order.
        query: What a caller may give by name, with spaces between; it travels in the query.
        body: The parameter that is the body.
        text: The body travels as it is, and not as JSON.
        returns: The type of the answer; Any: whatever it is. None: there is none.
    """
    braces = {_snake(name): name for name in findall(r"{(\w+)}", template)}
    required = [Parameter(name, _KINDS[0]) for name in ("self", *parameters)]
    signature = Signature([*required, *(Parameter(name, _KINDS[1], default=None) for name in query.split())])

    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        api: GeneratedApi = given.pop("self")
        sent = given.pop(body, None)
        values = [given.pop(name) for name in braces]
        wait_s = given.get("wait_for_seconds")
        answer = api._call(
            str,
            method,
            template,
            *values,
            query={_camel(name): value for name, value in given.items()},
            body=None if text else sent,
            text=sent if text else None,
            timeout_s=None if wait_s is None else wait_s + WAIT_GRACE_S,
            resend=method != "POST",
        )
        return None if returns is None else _read(answer, returns, f"{method} {template}")

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = f"`{method} {template}`"
    return call


def _read(answer: str, type_: Any, request: str) -> Any:
    """The answer as that type; Any is JSON where it is, and text otherwise. Nothing is an empty list, map or None."""
    if type_ is str:
        return answer
    if not answer:
        empty = get_origin(type_) or type_
        return empty() if empty in (list, dict) else None
    try:
        return msgspec.json.decode(answer, type=type_)
    except UNREADABLE as error:
        if type_ is Any:
            return answer
        raise MalformedAnswer(f"{request} answered with what is no {type_}: {escape(str(error))}") from error


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
