"""Access tokens of the stub."""

from __future__ import annotations

from uuid import uuid4

from conductor.common.clock import Clock
from conductor.protocol.wire import AUTH_HEADER
from conductor.testing.http11 import StubAnswer
from conductor.testing.request import Request
from conductor.testing.router import StubError, StubRoute, body_object, json_answer


class StubTokens:
    """Issues tokens for the configured key and secret and requires one on every other route.

    Without a key and secret, no route needs a token.
    """

    def __init__(self, auth: tuple[str, str] | None, ttl_s: float, clock: Clock) -> None:
        self._auth = auth
        self._ttl_s = ttl_s
        self._clock = clock
        #: Every issued token, oldest first.
        self.issued: list[str] = []
        self._expires_s: dict[str, float] = {}

    def routes(self) -> list[StubRoute]:
        """Return the token endpoint. An open-source Conductor server has none and answers 404."""
        return [] if self._auth is None else [StubRoute("POST", "/token", self.issue)]

    def issue(self, request: Request) -> StubAnswer:
        credentials = body_object(request)
        if (credentials.get("keyId"), credentials.get("keySecret")) != self._auth:
            raise StubError(401, "Invalid key or secret", error="INVALID_CREDENTIALS")
        token = f"token-{len(self.issued) + 1}-{uuid4()}"
        self.issued.append(token)
        self._expires_s[token] = self._clock.monotonic() + self._ttl_s
        return json_answer({"token": token})

    def expire_all(self) -> None:
        self._expires_s.clear()

    def check(self, request: Request) -> None:
        """Reject a request that needs a token and has no valid one."""
        if self._auth is None or request.route == "token":
            return
        token = request.headers.get(AUTH_HEADER.lower(), "")
        if token not in self.issued:
            raise StubError(401, "No valid token", error="INVALID_TOKEN")
        if self._expires_s.get(token, 0.0) <= self._clock.monotonic():
            raise StubError(401, "Token cannot be null or empty or expired", error="EXPIRED_TOKEN")
