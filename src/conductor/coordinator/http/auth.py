"""Authentication: exchanges a key and a secret for a token, and finds the identity of every other request."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping

import msgspec

from conductor.common.clock import Clock
from conductor.coordinator.http.answer import Answer, as_json
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.key_store import Keys
from conductor.coordinator.keys.roles import OPEN, Access, Identity
from conductor.coordinator.keys.tokens import Tokens, read_token
from conductor.coordinator.request_errors import ApiError, not_found
from conductor.coordinator.server_metrics import REFUSED_TOTAL, Tally

logger = logging.getLogger(__name__)

#: After `FREE_FAILURES` wrong secrets from one address within `FAILURES_WITHIN_S`, every token request of this address
#: is delayed by `DELAY_S`. Requests with the right secret are delayed, too, so that the delay reveals nothing. If
#: `MAX_DELAYED` requests of the address are delayed, a further one gets a 429: this limits the guesses per second.
#: Clients at other addresses are not affected.
FREE_FAILURES = 5
FAILURES_WITHIN_S = 60.0
DELAY_S = 1.0
MAX_DELAYED = 10
#: Failures are remembered for at most this many addresses. The address that has failed the longest ago is forgotten
#: first.
MAX_ADDRESSES = 1000


class Credentials(msgspec.Struct, rename="camel"):
    """The body of a token request."""

    key_id: str
    key_secret: str


class Auth:
    """Issues tokens, and finds the identity of a request. Without keys, every request is admitted."""

    def __init__(self, keys: Keys, tokens: Tokens, counts: Tally, clock: Clock) -> None:
        self._keys = keys
        self._tokens = tokens
        self._counts = counts
        self._failures = _Failures(clock)

    @property
    def routes(self) -> list[Route]:
        """The route that issues tokens."""
        return [Route("POST", "/api/token", self.issue_token, Access.PUBLIC)]

    async def issue_token(self, request: ApiRequest) -> Answer:
        """POST /token: return a token for a key and its secret; 404 if the coordinator has no keys."""
        if not self._keys.are_required:
            raise not_found("No static resource api/token.")
        credentials = request.json(Credentials)
        await self._failures.delay_request(request.address)
        identity = self._keys.exchange(credentials.key_id, credentials.key_secret)
        if identity is None:
            self._failures.add(request.address)
            self._counts.add((REFUSED_TOTAL.name, "secret"))
            raise ApiError(401, "unknown key or wrong secret", code="INVALID_CREDENTIALS")
        return as_json({"token": self._tokens.issue(identity)})

    def identify(self, headers: Mapping[bytes, bytes]) -> Identity:
        """Return the identity of a request, or raise a 401 if its token is not valid."""
        if not self._keys.are_required:
            return OPEN
        try:
            return self._tokens.verify(read_token(headers))
        except ApiError:
            self._counts.add((REFUSED_TOTAL.name, "token"))
            raise


class _Address:
    """The wrong secrets from one address, and its requests that are delayed now."""

    def __init__(self) -> None:
        self.failed_at: deque[float] = deque(maxlen=FREE_FAILURES)
        self.delayed = 0


class _Failures:
    """Counts wrong secrets, to delay later token requests and to log at most once per `FAILURES_WITHIN_S`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._unlogged = 0
        self._logged_at: float | None = None

    async def delay_request(self, address: str) -> None:
        """Sleep for `DELAY_S` if the last `FREE_FAILURES` failures of an address are younger than `FAILURES_WITHIN_S`.

        Raises:
            ApiError: `MAX_DELAYED` requests of the address are delayed already.
        """
        failures = self._addresses.get(address)
        if failures is None or len(failures.failed_at) < FREE_FAILURES:
            return
        if self._clock.monotonic() - failures.failed_at[0] > FAILURES_WITHIN_S:
            return
        if failures.delayed >= MAX_DELAYED:
            raise ApiError(429, "too many wrong secrets were sent from this address; try again later", retryable=True)
        failures.delayed += 1
        try:
            await self._clock.sleep(DELAY_S)
        finally:
            failures.delayed -= 1

    def add(self, address: str) -> None:
        """Record a wrong secret from an address."""
        now = self._clock.monotonic()
        failures = self._addresses.setdefault(address, _Address())
        failures.failed_at.append(now)
        self._addresses.move_to_end(address)
        if len(self._addresses) > MAX_ADDRESSES:
            self._addresses.popitem(last=False)
        self._unlogged += 1
        if self._logged_at is None or now - self._logged_at >= FAILURES_WITHIN_S:
            logger.warning(
                "Token request rejected, unknown key or wrong secret: rejected_since_last_log=%d", self._unlogged
            )
            self._unlogged, self._logged_at = 0, now
