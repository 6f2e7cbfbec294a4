"""The application: checks a request, finds its route, reads its body, calls the handler and answers errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from conductor.coordinator.core import Core
from conductor.coordinator.http.answer import DONE, JSON, Answer, error_answer
from conductor.coordinator.http.body import IncomingRequest, read_body
from conductor.coordinator.http.memory_budget import (
    ANSWER_BUDGET_BYTES,
    BODY_BUDGET_BYTES,
    UNCOUNTED_BYTES,
    MemoryBudget,
    Reservation,
)
from conductor.coordinator.http.origins import Origins, check_content_type
from conductor.coordinator.http.request import ApiRequest, RequestHead
from conductor.coordinator.http.routing import Route, RouteTable
from conductor.coordinator.http.web_ui import find_page_for_unknown_path
from conductor.coordinator.keys.roles import OPEN, Access, Identity
from conductor.coordinator.limits import MAX_BODY_BYTES
from conductor.coordinator.request_errors import ApiError, bad_request
from conductor.coordinator.server_metrics import REFUSED_TOTAL
from conductor.coordinator.store.writer import StoreClosed, StoreError
from conductor.protocol.wire import EPOCH_HEADER
from conductor.telemetry import tracing

logger = logging.getLogger(__name__)

_EPOCH = EPOCH_HEADER.lower().encode()
#: Largest total size of the request line and the headers.
MAX_HEADER_BYTES = 64 * 1024
#: Largest body on routes without a token.
MAX_PUBLIC_BODY_BYTES = 64 * 1024


class App:
    """Answers the requests of all connections.

    Args:
        core: The coordinator without HTTP.
        routes: All routes.
        origins: The hosts and web pages that may send requests.
        identify: Returns the identity of a client from the headers of its request, or raises a 401.
    """

    def __init__(
        self,
        core: Core,
        routes: Iterable[Route],
        origins: Origins,
        identify: Callable[[Mapping[bytes, bytes]], Identity] = lambda _headers: OPEN,
    ) -> None:
        self._core = core
        self._routes = RouteTable(routes)
        self._origins = origins
        self._identify = identify
        self.body_budget = MemoryBudget(BODY_BUDGET_BYTES, "large requests")
        self.answer_budget = MemoryBudget(ANSWER_BUDGET_BYTES, "large answers")

    async def answer(self, incoming: IncomingRequest) -> Answer | None:
        """Answer a request. Return None if its client has disconnected."""
        began = time.perf_counter()
        head = incoming.head
        route: Route | None = None
        answer: Answer | None
        reservation = Reservation(self.body_budget)
        try:
            self._check_head(head)
            route, params = self._routes.find(head.method, head.path)
            self._check_origin(route, head)
            is_public = route.access is Access.PUBLIC
            if is_public:
                identity = OPEN
            else:
                identity = incoming.identity = self._identify(head.headers)
                if route.access not in identity.levels:
                    self._core.counts.add((REFUSED_TOTAL.name, "role"))
                    raise _forbidden(route, identity)
            self._check_epoch(route, head)
            if route.starts_workflows:
                self._core.store.disk.check_start()
            body = b""
            if head.method not in ("GET", "HEAD"):
                limit = MAX_PUBLIC_BODY_BYTES if is_public else MAX_BODY_BYTES
                body = await read_body(incoming, limit, reservation)
            request = ApiRequest(head, params, body, self._core, incoming.on_disconnect, identity)
            answer = await self._handle(route, request)
        except ConnectionResetError:
            return None
        except Exception as error:
            is_unknown = route is None and isinstance(error, ApiError) and error.status == 404
            answer = find_page_for_unknown_path(head) if is_unknown else None
            answer = answer or _answer_error(incoming, error)
        finally:
            reservation.end()
        took_s = time.perf_counter() - began
        # Requests without a route share one metric series, because clients can send any number of different paths.
        method, path = (head.method, route.path) if route is not None else ("", "")
        self._core.request_times.observe(method, path, answer.status, took_s)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s %s: %d in %.1f ms", head.method, _printable_path(head), answer.status, took_s * 1000)
        return answer

    def _check_head(self, head: RequestHead) -> None:
        headers = head.headers
        if sum(map(len, headers)) + sum(map(len, headers.values())) + len(head.path) > MAX_HEADER_BYTES:
            raise ApiError(431, f"the request's headers are larger than {MAX_HEADER_BYTES} bytes", closes=True)
        if head.host_count > 1:
            raise bad_request("a request has one Host header, not several")
        self._origins.check_host(head.http_version, headers)

    def _check_epoch(self, route: Route, head: RequestHead) -> None:
        """Check the client's epoch token. If a newer coordinator has taken over, reject changes with a 503."""
        fence = self._core.store.fence
        token = head.headers.get(_EPOCH)
        if token is not None and token != fence.token:
            fence.check_token(token)
        if fence.reason is not None and route.changes_something(head.method) and route.access is not Access.PUBLIC:
            raise ApiError(503, fence.reason, retryable=True)

    def _check_origin(self, route: Route, head: RequestHead) -> None:
        headers = head.headers
        if not route.changes_something(head.method):
            return
        if b"origin" in headers or b"sec-fetch-site" in headers:
            self._origins.check_page(headers)
        if not route.text_body and headers.get(b"content-type") != JSON:
            check_content_type(headers)

    async def _handle(self, route: Route, request: ApiRequest) -> Answer:
        """Call the route's handler. Reserve memory for a large answer; the connection frees the memory after sending.

        If the memory is not free, there are three cases. A request that only reads drops its answer, waits for the
        memory, and calls the handler again. A request whose answer has a `fallback` is undone. Every other request has
        already had its effect, so its answer is sent although it exceeds the budget.
        """
        answer = await _call_handler(route, request)
        size = len(answer.body)
        if size <= UNCOUNTED_BYTES:
            return answer
        reservation = Reservation(self.answer_budget)
        try:
            while not reservation.try_grow(size):
                if answer.fallback is not None:
                    return await answer.fallback()
                if route.changes_something(request.head.method):
                    reservation.grow_anyway(size)
                    break
                answer = DONE  # frees the body during the wait
                await reservation.grow(size)
                answer = await _call_handler(route, request)
                size = len(answer.body)
        except BaseException:
            reservation.end()
            raise
        return answer._replace(reservation=reservation)


async def _call_handler(route: Route, request: ApiRequest) -> Answer:
    """Call the route's handler. With tracing, every request except a GET gets a span of its own."""
    tracer, method = tracing.tracer, request.head.method
    if tracer is None or method == "GET" or route.has_side_effects:
        return await route.handler(request)
    parent = tracer.read_parent(request.header(b"traceparent"))
    attributes = {"http.request.method": method, "http.route": route.path}
    attributes |= {f"conductor.{name}": value for name, value in request.params.items()}
    with tracer.start_request_span(f"{method} {route.path}", parent, attributes, kind="SERVER"):
        return await route.handler(request)


def _forbidden(route: Route, identity: Identity) -> ApiError:
    has = ", ".join(sorted(identity.roles))
    needs = route.access.describe()
    return ApiError(403, f"key {identity.key} has role {has}, but {route.method} {route.path} needs role {needs}")


def _answer_error(incoming: IncomingRequest, error: Exception) -> Answer:
    if isinstance(error, ApiError):
        # A client that awaits `100 Continue` does not send its body after an error. Its next request would be parsed as
        # the missing body, so the connection is closed.
        error.closes = error.closes or (incoming.body.awaits_continue and not incoming.body.is_complete)
        return error_answer(error)
    if isinstance(error, StoreClosed):
        return error_answer(ApiError(503, "the coordinator is shutting down", retryable=True))
    if isinstance(error, StoreError):
        return error_answer(ApiError(500, str(error), retryable=True))
    if isinstance(error, RecursionError):
        return error_answer(bad_request("the request is nested too deeply"))
    # An internal error: the client must not see a traceback.
    logger.error("Request failed: %s %s", incoming.head.method, _printable_path(incoming.head), exc_info=error)
    return error_answer(ApiError(500, "internal error; the server's log has the details"))


def _printable_path(head: RequestHead) -> str:
    return head.path[:200].decode("latin-1")
