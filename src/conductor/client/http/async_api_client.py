"""Calls to the API of a server: access tokens, JSON, and exceptions for error statuses."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypedDict, TypeVar, Unpack, get_args, get_origin
from urllib.parse import urlencode

import msgspec

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.access_token import get_token_manager
from conductor.client.http.async_rest import AsyncRESTClientObject
from conductor.client.http.call import Call
from conductor.client.http.errors import (
    UNREADABLE,
    ApiException,
    AuthorizationException,
    MalformedAnswer,
    TransportError,
    describe_web_page,
)
from conductor.client.http.models.model import encode, plain_text
from conductor.client.http.response import Response
from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.common.text import escape
from conductor.protocol.wire import AUTH_HEADER, EPOCH_HEADER, WARNING_HEADER
from conductor.telemetry.tracing import TRACEPARENT, current_traceparent

T = TypeVar("T")

logger = logging.getLogger(__name__)
#: The logger for the warnings of a coordinator about definitions. Commands that print the warnings silence it.
DEFINITION_LOGGER = __name__
#: The paths at which definitions and schedules are registered.
_DEFINITIONS = ("/metadata", "/scheduler")

JSON = "application/json"
TEXT = "text/plain"

QueryValue = str | int | bool | Sequence[str] | None
#: Called after every request with its method, path template, status (0 without an answer) and duration in seconds.
OnRequest = Callable[[str, str, int, float], None]

#: The time limit of a token request. Calls that wait for the token do not wait longer.
TOKEN_TIMEOUT_S = 10.0


class CallOptions(TypedDict, total=False):
    """The keyword arguments of `AsyncApiClient.call`."""

    query: Mapping[str, QueryValue] | None
    body: bytes | None
    timeout_s: float | None
    content_type: str
    template: str | None
    resend: bool
    wanted: Callable[[], bool] | None


class _TokenAnswer(msgspec.Struct):
    token: str


class AsyncApiClient:
    """The API of one server, which all typed clients use.

    Args:
        configuration: The server and the access key. Clients that share it share the access token.
        rest: The connections to use. Without them, the Configuration describes new ones.
        http_client: Your own `httpx.AsyncClient`, in place of `rest`.
        clock: The clock to use, for tests.
        metrics_collector: A `MetricsCollector` that counts the requests.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        rest: AsyncRESTClientObject | None = None,
        http_client: Any | None = None,
        clock: Clock = SYSTEM_CLOCK,
        metrics_collector: Any | None = None,
    ) -> None:
        self.configuration = configuration
        self.rest = rest if rest is not None else AsyncRESTClientObject(configuration, http_client=http_client)
        self.on_request: OnRequest | None = getattr(metrics_collector, "on_request", None)
        self._clock = clock
        self._tokens = get_token_manager(configuration, clock)

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
        wanted: Callable[[], bool] | None = None,
    ) -> Response:
        """Make one call and return the answer, whatever its status.

        A call that is answered 401 or 403 is repeated once with a new access token.

        Args:
            method: GET, POST, …
            path: The path below `configuration.host`, already quoted.
            query: The query parameters. Parameters that are None are left out.
            body: The encoded body.
            timeout_s: Seconds for this call, in place of the Configuration's.
            content_type: The content type of the body.
            template: The path with placeholders for its values, for metrics.
            resend: False for a request that must not reach the server twice, even if its connection is lost.
            wanted: Called before the request is sent a second time, which happens only if it returns True.

        Raises:
            TransportError: No answer came.
            AnswerTooLarge: The answer is larger than the Configuration allows.
        """
        configuration, tokens = self.configuration, self._tokens
        if tokens.is_needed:
            await tokens.refresh(configuration, self._fetch_token)
        generation = tokens.generation
        url = configuration.host + path + (_query_string(query) if query else "")
        body_type = None if body is None else content_type
        # A program that has not imported OpenTelemetry has no span.
        traceparent = current_traceparent() if "opentelemetry.trace" in sys.modules else None
        headers = _headers(configuration.AUTH_TOKEN, body_type, traceparent, configuration.seen_epoch)
        call = Call(method, url, headers, body, timeout_s, resend, template or path, wanted)
        response = await self._send(call)
        if response.status not in (401, 403):
            return response
        if not await tokens.renew_after_rejection(configuration, generation, self._fetch_token) or not call.is_wanted():
            return response
        response = await self._send(
            call._replace(headers=_headers(configuration.AUTH_TOKEN, body_type, traceparent, configuration.seen_epoch))
        )
        tokens.record_repeat(rejected=response.status in (401, 403))
        return response

    async def call_for(self, type_: type[T], method: str, path: str, **options: Unpack[CallOptions]) -> T:
        """Make one call and return the body of the answer as a `type_`. The options are those of `call`.

        Raises:
            ApiException: The status is not a success.
            MalformedAnswer: The body is not a `type_`.
            TransportError: No answer came.
        """
        response = await self.call(method, path, **options)
        if method != "GET" and path.startswith(_DEFINITIONS):
            _log_warnings(response)
        return self.read(response, type_, f"{method} {path}")

    def read(self, response: Response, type_: type[T], request: str) -> T:
        """Return the body of an answer as a `type_`. An empty body is an empty list, dict or text.

        Raises:
            ApiException: The status is not a success.
            MalformedAnswer: The body is not a `type_`.
        """
        if response.status >= 300:
            raise self.error(response, request)
        try:
            value: T = _decode(response, type_)
            return value
        except UNREADABLE as error:
            content = describe_web_page(response) or f"a body that is not a {_name(type_)}: {escape(str(error))}"
            raise MalformedAnswer(f"{request} answered {response.status} with {content}") from error

    def error(self, response: Response, request: str) -> ApiException:
        """Return the exception for an answer that is not a success."""
        error = ApiException.of(response, request)
        if isinstance(error, AuthorizationException) and self._tokens.last_error:
            error.add_note(f"There is no valid access token: {self._tokens.last_error}")
        return error

    def deserialize_model(self, data: Any, cls: type[T]) -> T:
        """Return a model, or a list of models, from JSON bytes or from decoded JSON."""
        if isinstance(data, bytes | str):
            return msgspec.json.decode(data, type=cls)
        return msgspec.convert(data, cls, strict=False)

    def sanitize_for_serialization(self, obj: Any) -> Any:
        """Return an object as plain dicts, lists and scalars in camelCase, for any JSON encoder."""
        return msgspec.to_builtins(obj, str_keys=True, enc_hook=plain_text)

    async def close(self) -> None:
        """Close the connections."""
        await self.rest.close()

    async def _fetch_token(self) -> str | None:
        settings = self.configuration.authentication_settings
        assert settings is not None  # noqa: S101 (a token is fetched only with an access key)
        body = encode({"keyId": settings.key_id, "keySecret": settings.key_secret})
        url = self.configuration.host + "/token"
        response = await self._send(Call("POST", url, _headers(None, JSON), body, TOKEN_TIMEOUT_S, template="/token"))
        if response.status == 404:
            return None
        token = self.read(response, _TokenAnswer, "POST /token").token
        if not _is_sendable(token):
            raise MalformedAnswer("POST /token answered with a token that is not printable ASCII")
        return token

    async def _send(self, call: Call) -> Response:
        if self.on_request is None:
            return await self.rest.send(call)
        started_s = self._clock.monotonic()
        status = 0
        try:
            response = await self.rest.send(call)
            status = response.status
            return response
        finally:
            self.on_request(call.method, call.template, status, self._clock.monotonic() - started_s)


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def _decode(response: Response, type_: Any) -> Any:
    if type_ is str:
        return _text(response)
    if not response.body:
        empty = get_origin(type_) or type_
        if empty in (list, dict):
            return empty()
        if type_ is Any or type(None) in get_args(type_):
            return None
    try:
        return _decoder(type_).decode(response.body)
    except UNREADABLE:
        if type_ is Any:
            return _text(response)
        raise


def _text(response: Response) -> str:
    """Return the text of an answer. Some servers send ids as JSON strings, others as plain text."""
    if response.body.startswith(b'"') and response.headers.get("content-type", "").startswith(JSON):
        return msgspec.json.decode(response.body, type=str)
    return response.body.decode()


_HEADERS: dict[tuple[str | None, str | None, str | None], dict[str, str]] = {}


def _log_warnings(response: Response) -> None:
    """Log the warnings of a coordinator about a definition or schedule that it has accepted."""
    for warning in response.read_all(WARNING_HEADER):
        logger.warning("Definition accepted with a warning: %s", warning)


def _headers(
    token: str | None, content_type: str | None, traceparent: str | None = None, epoch: str | None = None
) -> dict[str, str]:
    """Return the headers of a request. There is one cached dict for each token, content type and epoch in use."""
    headers = _HEADERS.get((token, content_type, epoch))
    if headers is None:
        if len(_HEADERS) > 16:  # most entries have old tokens
            _HEADERS.clear()
        headers = {}
        if token is not None:
            if not _is_sendable(token):
                raise TransportError("the access token cannot be sent: it is not printable ASCII")
            headers[AUTH_HEADER] = token
        if content_type is not None:
            headers["Content-Type"] = content_type
        if epoch is not None:
            headers[EPOCH_HEADER] = epoch
        _HEADERS[token, content_type, epoch] = headers
    return headers if traceparent is None else {**headers, TRACEPARENT: traceparent}


def _is_sendable(token: str) -> bool:
    return token.isascii() and token.isprintable()


def _query_string(query: Mapping[str, QueryValue]) -> str:
    pairs = [(name, _query_value(value)) for name, value in query.items() if value is not None]
    return "?" + urlencode(pairs, doseq=True) if pairs else ""


def _query_value(value: QueryValue) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _name(type_: Any) -> str:
    return str(type_) if get_origin(type_) else str(getattr(type_, "__name__", type_))
