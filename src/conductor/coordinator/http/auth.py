"""Authentication: exchanges a key and a secret for a token, and checks that token on every other request."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections import deque
from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from conductor.common.clock import Clock
from conductor.coordinator.http.answer import Answer, as_json
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.request_errors import ApiError
from conductor.protocol.wire import AUTH_HEADER

logger = logging.getLogger(__name__)

#: How long a token is valid. Clients renew their token before it expires.
TOKEN_LIFETIME_S = 3600
#: After `FREE_FAILURES` wrong secrets within `FAILURES_WITHIN_S`, every token request is delayed by `DELAY_S`, also
#: those with the right secret, so that the delay reveals nothing. At most `MAX_DELAYED` requests are delayed at a time,
#: so that wrong secrets cannot lock out a client.
FREE_FAILURES = 5
FAILURES_WITHIN_S = 60.0
DELAY_S = 1.0
MAX_DELAYED = 50

_HEADER = AUTH_HEADER.lower().encode()


class Credentials(msgspec.Struct, rename="camel"):
    """The body of a token request."""

    key_id: str
    key_secret: str


class Auth:
    """Tokens for one key and secret. Each process signs them with its own random key, so a restart invalidates them."""

    def __init__(self, key: str, secret: str, clock: Clock) -> None:
        self._key = key.encode()
        self._secret = secret.encode()
        self._clock = clock
        self._signing_key = secrets.token_bytes(32)
        self._failures = _Failures(clock)

    @property
    def routes(self) -> list[Route]:
        """The route that issues tokens."""
        return [Route("POST", "/api/token", self.issue_token, public=True)]

    async def issue_token(self, request: ApiRequest) -> Answer:
        """POST /token: return a token for a key and its secret."""
        credentials = request.json(Credentials)
        await self._failures.delay_request()
        is_known_key = hmac.compare_digest(credentials.key_id.encode(), self._key)
        # Key and secret are always both compared, so that the duration does not reveal which one was wrong.
        if not hmac.compare_digest(credentials.key_secret.encode(), self._secret) or not is_known_key:
            self._failures.add()
            raise ApiError(401, "unknown key or wrong secret", code="INVALID_CREDENTIALS")
        expires_s = self._clock.wall_ms() // 1000 + TOKEN_LIFETIME_S
        return as_json({"token": f"{expires_s}.{self._sign(expires_s)}"})

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise a 401 unless the headers carry a valid token."""
        token = headers.get(_HEADER, b"").decode("latin-1")
        expires, _, signature = token.partition(".")
        is_time = len(expires) <= 12 and expires.isdecimal()
        if not is_time or not hmac.compare_digest(signature.encode(), self._sign(int(expires)).encode()):
            raise ApiError(401, f"this coordinator requires a token in header {AUTH_HEADER}", code="INVALID_TOKEN")
        if int(expires) * 1000 <= self._clock.wall_ms():
            raise ApiError(401, "the token has expired", code="EXPIRED_TOKEN")

    def _sign(self, expires_s: int) -> str:
        return blake2b(b"%d" % expires_s, digest_size=24, key=self._signing_key).hexdigest()


class _Failures:
    """Counts wrong secrets, to delay later token requests and to log at most once per `FAILURES_WITHIN_S`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: deque[float] = deque(maxlen=FREE_FAILURES)
        self._delayed = 0
        self._unlogged = 0
        self._logged_at: float | None = None

    async def delay_request(self) -> None:
        """Sleep for `DELAY_S` if the last `FREE_FAILURES` wrong secrets are younger than `FAILURES_WITHIN_S`."""
        if len(self._times) < FREE_FAILURES or self._delayed >= MAX_DELAYED:
            return
        if self._clock.monotonic() - self._times[0] > FAILURES_WITHIN_S:
            return
        self._delayed += 1
        try:
            await self._clock.sleep(DELAY_S)
        finally:
            self._delayed -= 1

    def add(self) -> None:
        """Record a wrong secret."""
        now = self._clock.monotonic()
        self._times.append(now)
        self._unlogged += 1
        if self._logged_at is None or now - self._logged_at >= FAILURES_WITHIN_S:
            logger.warning("Token request rejected, unknown key or wrong secret: since_last_log=%d", self._unlogged)
            self._unlogged, self._logged_at = 0, now
