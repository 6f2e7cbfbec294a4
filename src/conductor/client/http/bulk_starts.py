"""Start many workflows: in bulk requests on a coordinator, one by one on a Conductor server.

`GET /version` finds out which of the two a server is: a coordinator answers with the header `Conductor-Features`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.errors import ApiException, AuthorizationException, BulkStartError, ConductorError
from conductor.client.http.models.model import encode
from conductor.client.http.models.start_workflow_request import IdempotencyStrategy, StartWorkflowRequest
from conductor.client.http.response import Response
from conductor.protocol.json_types import JsonObject
from conductor.protocol.wire import FEATURE_BULK_STARTS, FEATURES_HEADER, MAX_BULK_STARTS

#: The largest bulk request. A coordinator accepts 10 MB; a smaller request is answered sooner.
MAX_REQUEST_BYTES = 4 * 1024 * 1024
#: The largest number of single starts in flight on a server without bulk starts.
SINGLE_STARTS_AT_ONCE = 8

_PATH = "/workflow/start/bulk"
_FEATURES = FEATURES_HEADER.lower()

#: The id of a started workflow, or the error of its start.
Result = str | ConductorError


class BulkStarts:
    """Starts many workflows on one server. Remembers whether the server has bulk starts."""

    def __init__(self, api_client: AsyncApiClient) -> None:
        self._api = api_client
        self._has_bulk: bool | None = None

    async def start(self, requests: Sequence[StartWorkflowRequest]) -> list[str]:
        """Start these workflows and return their ids in the same order; see `start_workflows`."""
        results: list[Result] = []
        if requests and await self._server_has_bulk():
            await self._start_in_bulk(requests, results)
        if len(results) < len(requests):
            await self._start_singly(requests[len(results) :], results)
        ids = [result for result in results if isinstance(result, str)]
        if len(ids) < len(requests):
            raise BulkStartError(results)
        return ids

    async def _server_has_bulk(self) -> bool:
        if self._has_bulk is None:
            response = await self._api.call("GET", "/version")
            if response.status in (401, 403):
                raise self._api.error(response, "GET /version")
            features = response.headers.get(_FEATURES, "").split(",")
            self._has_bulk = FEATURE_BULK_STARTS in (name.strip() for name in features)
        return self._has_bulk

    async def _start_in_bulk(self, requests: Sequence[StartWorkflowRequest], results: list[Result]) -> None:
        """Append the results of bulk requests. After a 404 or 405, stop: the caller starts the rest singly."""
        for bodies in _split(encode(request) for request in requests):
            sent = requests[len(results) : len(results) + len(bodies)]
            try:
                results += await self._send(bodies, resend=all(map(_is_repeatable, sent)))
            except ApiException as error:
                if error.status in (404, 405):  # the URL now leads to a server without bulk starts
                    self._has_bulk = False
                    return
                _fill(results, len(requests), error)
                return
            except ConductorError as error:
                _fill(results, len(requests), error)
                return

    async def _send(self, bodies: Sequence[bytes], *, resend: bool) -> list[Result]:
        answers = await self._api.call_for(
            list[str | JsonObject], "POST", _PATH, body=b"[" + b",".join(bodies) + b"]", resend=resend
        )
        return [answer if isinstance(answer, str) else _error(answer) for answer in answers]

    async def _start_singly(self, requests: Sequence[StartWorkflowRequest], results: list[Result]) -> None:
        """Append the results of single starts, up to `SINGLE_STARTS_AT_ONCE` at a time.

        Send no more requests after a start that gets no answer or is rejected with 401 or 403.
        """
        found: dict[int, Result] = {}
        positions = iter(range(len(requests)))
        fatal: list[ConductorError] = []

        async def start_some() -> None:
            for position in positions:
                body = encode(requests[position])
                try:
                    found[position] = await self._api.call_for(str, "POST", "/workflow", body=body, resend=False)
                except ConductorError as error:
                    found[position] = error
                    if not isinstance(error, ApiException) or isinstance(error, AuthorizationException):
                        fatal.append(error)
                if fatal:
                    return

        await asyncio.gather(*(start_some() for _ in range(min(SINGLE_STARTS_AT_ONCE, len(requests)))))
        if fatal and not results and not any(isinstance(result, str) for result in found.values()):
            raise fatal[0]
        results += [found[at] if at in found else fatal[0] for at in range(len(requests))]


def _split(bodies: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Group encoded start requests, up to `MAX_BULK_STARTS` and `MAX_REQUEST_BYTES` per bulk request."""
    part: list[bytes] = []
    size = 0
    for body in bodies:
        if part and (len(part) == MAX_BULK_STARTS or size + len(body) > MAX_REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(body)
        size += len(body) + 1
    if part:
        yield part


def _fill(results: list[Result], count: int, error: ConductorError) -> None:
    """Make an error the result of all requests without a result. Raise it if no request has a result yet."""
    if not results:
        raise error
    results += [error] * (count - len(results))


def _is_repeatable(request: StartWorkflowRequest) -> bool:
    """Return whether the same request sent twice starts only one workflow."""
    strategy = request.idempotency_strategy or IdempotencyStrategy.RETURN_EXISTING
    return bool(request.idempotency_key) and strategy == IdempotencyStrategy.RETURN_EXISTING


def _error(body: JsonObject) -> ApiException:
    """Return the exception for one failed start in the answer to a bulk request."""
    return ApiException.of(Response(int(body.get("status") or 500), {}, msgspec.json.encode(body)), f"POST {_PATH}")
