"""A key and a secret for a token, and the check of that token on every other request."""

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
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routing import Route
from conductor.coordinator.request_errors import ApiError
from conductor.protocol.wire import AUTH_HEADER

#: How long a token is good; clients renew it before.
TOKEN_LIFETIME_S = 3600
_HEADER = AUTH_HEADER.lower().encode()
#: After so many wrong secrets within a minute, whoever asks for a token waits, the right ones too: otherwise the wait
#: itself would tell. No one waits longer than this, and beyond so many nobody does: no one can be locked out.
FREE_FAILURES = 5
FAILURES_WITHIN_S = 60.0
DELAY_S = 1.0
MAX_WAITING = 50

log = logging.getLogger(__name__)


class Credentials(msgspec.Struct, rename="camel"):
    """What a client shows to get a token."""

    key_id: str
    key_secret: str


class Auth:
    """One key/secret pair. Tokens are sealed with a secret of this process: a restart asks for new ones."""

    def __init__(self, key: str, secret: str, clock: Clock) -> None:
        self._key = key.encode()
        self._secret = secret.encode()
        self._clock = clock
        self._seal_key = secrets.token_bytes(32)
        self._failures = _Failures(clock)

    @property
    def routes(self) -> list[Route]:
        """Where tokens are given out."""
        return [Route("POST", "/api/token", self.token, public=True)]

    async def token(self, request: Request) -> Answer:
        """POST /token."""
        shown = request.json(Credentials)
        await self._failures.slow_down()
        known = hmac.compare_digest(shown.key_id.encode(), self._key)
        # Both are compared, so that the time taken does not tell which one was wrong.
        if not hmac.compare_digest(shown.key_secret.encode(), self._secret) or not known:
            self._failures.add()
            raise ApiError(401, "unknown key or wrong secret", code="INVALID_CREDENTIALS")
        expires_s = self._clock.wall_ms() // 1000 + TOKEN_LIFETIME_S
        return as_json({"token": f"{expires_s}.{self._seal(expires_s)}"})

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise a 401 unless the headers carry a valid token."""
        token = headers.get(_HEADER, b"").decode("latin-1")
        expires, _, seal = token.partition(".")
        is_time = len(expires) <= 12 and expires.isdecimal()
        if not is_time or not hmac.compare_digest(seal.encode(), self._seal(int(expires)).encode()):
            raise ApiError(401, f"this server asks for a token in header {AUTH_HEADER}", code="INVALID_TOKEN")
        if int(expires) * 1000 <= self._clock.wall_ms():
            raise ApiError(401, "the token has expired", code="EXPIRED_TOKEN")

    def _seal(self, expires_s: int) -> str:
        return blake2b(b"%d" % expires_s, digest_size=24, key=self._seal_key).hexdigest()


class _Failures:
    """Wrong secrets: they slow down those that follow, and are logged, one line a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: deque[float] = deque(maxlen=FREE_FAILURES)
        self._waiting = 0
        self._not_logged = 0
        self._logged_at: float | None = None

    async def slow_down(self) -> None:
        """Wait, if there were too many lately."""
        many = len(self._latest) == FREE_FAILURES
        if not many or self._clock.monotonic() - self._latest[0] > FAILURES_WITHIN_S or self._waiting >= MAX_WAITING:
            return
        self._waiting += 1
        try:
            await self._clock.sleep(DELAY_S)
        finally:
            self._waiting -= 1

    def add(self) -> None:
        """One more."""
        now = self._clock.monotonic()
        self._latest.append(now)
        self._not_logged += 1
        if self._logged_at is None or now - self._logged_at >= FAILURES_WITHIN_S:
            log.warning("token refused: unknown key or wrong secret (%d since the last such line)", self._not_logged)
            self._not_logged, self._logged_at = 0, now
