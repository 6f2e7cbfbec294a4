"""A key and a secret for a token, and the check of that token on every other request."""

from __future__ import annotations

import hmac
import secrets
from hashlib import blake2b

import msgspec

from conductor.clock import Clock
from conductor.coordinator.app import Answer, Request, Route, as_json
from conductor.coordinator.errors import ApiError
from conductor.wire import AUTH_HEADER

#: How long a token is good; clients renew it before.
TOKEN_LIFETIME_S = 3600
_HEADER = AUTH_HEADER.lower().encode()


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

    @property
    def routes(self) -> list[Route]:
        """Where tokens are given out."""
        return [Route("POST", "/api/token", self.token, public=True)]

    async def token(self, request: Request) -> Answer:
        """POST /token."""
        shown = request.json(Credentials)
        known = hmac.compare_digest(shown.key_id.encode(), self._key)
        # Both are compared, so that the time taken does not tell which one was wrong.
        if not hmac.compare_digest(shown.key_secret.encode(), self._secret) or not known:
            raise ApiError(401, "unknown key or wrong secret", code="INVALID_CREDENTIALS")
        expires_s = self._clock.wall_ms() // 1000 + TOKEN_LIFETIME_S
        return as_json({"token": f"{expires_s}.{self._seal(expires_s)}"})

    def check(self, request: Request) -> None:
        """401 unless the request carries a token that is still good."""
        token = next((value for name, value in request.headers if name == _HEADER), b"").decode("latin-1")
        expires, _, seal = token.partition(".")
        if not expires.isdecimal() or not hmac.compare_digest(seal.encode(), self._seal(int(expires)).encode()):
            raise ApiError(401, f"this server asks for a token in header {AUTH_HEADER}", code="INVALID_TOKEN")
        if int(expires) * 1000 <= self._clock.wall_ms():
            raise ApiError(401, "the token has expired", code="EXPIRED_TOKEN")

    def _seal(self, expires_s: int) -> str:
        return blake2b(b"%d" % expires_s, digest_size=24, key=self._seal_key).hexdigest()
