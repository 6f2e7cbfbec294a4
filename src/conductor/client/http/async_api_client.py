"""Calls to the API: the access token in front, JSON on both sides, statuses as exceptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, get_origin
from urllib.parse import urlencode

import msgspec

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_rest import AsyncRESTClientObject
from conductor.client.http.errors import ApiException, AuthorizationException, MalformedAnswer
from conductor.client.http.response import Response
from conductor.client.http.token import token_keeper
from conductor.clock import SYSTEM_CLOCK, Clock
from conductor.wire import AUTH_HEADER

T = TypeVar("T")

JSON = "application/json"
TEXT = "text/plain"

QueryValue = str | int | bool | Sequence[str] | None
#: Called after every request with method, path template, status (0 = no answer) and seconds.
OnRequest = Callable[[str, str, int, float], None]

#: A token that does not come in this time is a failed renewal; calls do not wait longer for it.
TOKEN_TIMEOUT_S = 10.0


class _TokenAnswer(msgspec.Struct):
    token: str


class AsyncApiClient:
    """The API of one server, below the typed resources.

    Args:
        configuration: The server and the access key. Clients that share it share the access token.
        rest: The connections to use; made from the Configuration when absent.
        http_client: Your own `httpx.AsyncClient` in place of `rest`.
        clock: For tests.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        rest: AsyncRESTClientObject | None = None,
        http_client: Any | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.configuration = configuration
        self.rest = rest if rest is not None else AsyncRESTClientObject(configuration, http_client=http_client)
        self.on_request: OnRequest | None = None
        self._clock = clock
        self._tokens = token_keeper(configuration, clock)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, QueryValue] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        content_type: str = JSON,
        template: str | None = None,
        resend: bool = True,
    ) -> Response:
        """Make one call and return the answer, whatever its status. 401 and 403 are tried once more with a new token.

        Args:
            method: GET, POST, …
            path: Below `configuration.host`, already quoted.
            query: Query parameters; those that are None are left out.
            body: The body, already encoded.
            timeout_s: Seconds for this call, in place of the Configuration's.
            content_type: Of the body.
            template: The path without its values, for metrics.
            resend: False for a call that must not reach the server twice, not even when its connection was lost.

        Raises:
            TransportError: No answer came.
        """
        url = self.configuration.host + path + _query_string(query)
        send = _Send(self, method, url, body, content_type, timeout_s, template or path, resend)
        tokens = self._tokens
        token = await tokens.current(self.configuration, self._fetch_token)
        generation = tokens.generation
        response = await send(token)
        if response.status not in (401, 403):
            return response
        if not await tokens.after_refusal(self.configuration, generation, self._fetch_token):
            return response
        response = await send(self.configuration.AUTH_TOKEN)
        tokens.repeated(refused=response.status in (401, 403))
        return response

    async def call_for(
        self,
        type_: type[T],
        method: str,
        path: str,
        *,
        query: Mapping[str, QueryValue] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        content_type: str = JSON,
        template: str | None = None,
        resend: bool = True,
    ) -> T:
        """As `call`, and read the answer as a `type_`.

        Raises:
            ApiException: The status is not a success.
            MalformedAnswer: The body is not a `type_`.
            TransportError: No answer came.
        """
        response = await self.call(
            method,
            path,
            query=query,
            body=body,
            timeout_s=timeout_s,
            content_type=content_type,
            template=template,
            resend=resend,
        )
        return self.read(response, type_, f"{method} {path}")

    def read(self, response: Response, type_: type[T], request: str) -> T:
        """The body of a successful answer as a `type_`; an empty one is an empty list, map or text."""
        if response.status >= 300:
            raise self.error(response, request)
        try:
            return _decode(response, type_)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedAnswer(
                f"{request} answered {response.status} with what is no {_name(type_)}: {error}"
            ) from error

    def error(self, response: Response, request: str) -> ApiException:
        """The exception for an answer that is not a success."""
        error = ApiException.of(response, request)
        if isinstance(error, AuthorizationException) and self._tokens.last_error:
            error.add_note(f"There is no valid access token: {self._tokens.last_error}")
        return error

    def deserialize_model(self, data: Any, cls: type[T]) -> T:
        """Make a model (or a list of them) from JSON bytes or from decoded JSON."""
        if isinstance(data, bytes | str):
            return msgspec.json.decode(data, type=cls)
        return msgspec.convert(data, cls, strict=False)

    def sanitize_for_serialization(self, obj: Any) -> Any:
        """The same as plain dicts, lists and scalars, with the names of the wire: ready for any JSON encoder."""
        return msgspec.to_builtins(obj, str_keys=True)

    async def close(self) -> None:
        """Close the connections."""
        await self.rest.close()

    async def _fetch_token(self) -> str | None:
        settings = self.configuration.authentication_settings
        assert settings is not None  # noqa: S101 (the keeper asks only then)
        body = encode({"keyId": settings.key_id, "keySecret": settings.key_secret})
        send = _Send(self, "POST", self.configuration.host + "/token", body, JSON, TOKEN_TIMEOUT_S, "/token", True)
        response = await send(None)
        if response.status == 404:
            return None
        return self.read(response, _TokenAnswer, "POST /token").token


class _Send:
    """One request, ready to be sent and, with another token, sent again."""

    __slots__ = ("body", "client", "content_type", "method", "resend", "template", "timeout_s", "url")

    def __init__(
        self,
        client: AsyncApiClient,
        method: str,
        url: str,
        body: bytes | None,
        content_type: str,
        timeout_s: float | None,
        template: str,
        resend: bool,
    ) -> None:
        self.client = client
        self.method = method
        self.url = url
        self.body = body
        self.content_type = content_type
        self.timeout_s = timeout_s
        self.template = template
        self.resend = resend

    async def __call__(self, token: str | None) -> Response:
        request = self.client.rest.request(
            self.method,
            self.url,
            headers=_headers(token, self.content_type if self.body is not None else None),
            body=self.body,
            timeout_s=self.timeout_s,
            resend=self.resend,
        )
        on_request = self.client.on_request
        return await (request if on_request is None else self._watched(request, on_request))

    async def _watched(self, request: Any, on_request: OnRequest) -> Response:
        clock = self.client._clock
        started_s = clock.monotonic()
        status = 0
        try:
            response: Response = await request
            status = response.status
            return response
        finally:
            on_request(self.method, self.template, status, clock.monotonic() - started_s)


def encode(obj: Any) -> bytes:
    """JSON as it travels."""
    return _ENCODER.encode(obj)


_ENCODER = msgspec.json.Encoder()


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def _decode(response: Response, type_: type[T]) -> T:
    body = response.body
    if type_ is str:
        return _text(response)  # type: ignore[return-value]
    if not body and (get_origin(type_) or type_) in (list, dict):
        return type_()
    value: T = _decoder(type_).decode(body)  # type: ignore[arg-type]
    return value


def _text(response: Response) -> str:
    """Ids travel as text/plain; a server that quotes them as JSON is understood too."""
    if response.body.startswith(b'"') and response.headers.get("content-type", "").startswith(JSON):
        return msgspec.json.decode(response.body, type=str)
    return response.body.decode()


_HEADERS: dict[tuple[str | None, str | None], dict[str, str]] = {}


def _headers(token: str | None, content_type: str | None) -> dict[str, str]:
    """The same few dicts again and again: one for each token and content type in use."""
    headers = _HEADERS.get((token, content_type))
    if headers is None:
        if len(_HEADERS) > 16:  # tokens come and go
            _HEADERS.clear()
        headers = _HEADERS[token, content_type] = {}
        if token is not None:
            headers[AUTH_HEADER] = token
        if content_type is not None:
            headers["Content-Type"] = content_type
    return headers


def _query_string(query: Mapping[str, QueryValue] | None) -> str:
    if not query:
        return ""
    pairs = [(name, _query_value(value)) for name, value in query.items() if value is not None]
    return "?" + urlencode(pairs, doseq=True) if pairs else ""


def _query_value(value: QueryValue) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _name(type_: Any) -> str:
    return str(type_) if get_origin(type_) else str(getattr(type_, "__name__", type_))
