"""Access tokens of the stub: who gets one, and how long it is good for."""

from __future__ import annotations

from uuid import uuid4

from conductor.common.clock import Clock
from conductor.protocol.wire import AUTH_HEADER
from conductor.testing.http11 import StubAnswer
from conductor.testing.request import Request
from conductor.testing.router import StubRoute, body_object, json_answer
from conductor.testing.stub_errors import StubError


class Tokens:
    """Gives tokens for the right key and secret, and asks for one everywhere else; without such a pair, for none."""

    def __init__(self, auth: tuple[str, str] | None, ttl_s: float, clock: Clock) -> None:
        self._auth = auth
        self._ttl_s = ttl_s
        self._clock = clock
        #: Every token given, oldest first.
        self.issued: list[str] = []
        self._ends_s: dict[str, float] = {}

    def routes(self) -> list[StubRoute]:
        """The endpoint, if tokens are asked for. (A plain Conductor has none and answers 404.)"""
        return [] if self._auth is None else [StubRoute("POST", "/token", self.issue)]

    def issue(self, request: Request) -> StubAnswer:
        asked = body_object(request)
        if (asked.get("keyId"), asked.get("keySecret")) != self._auth:
            raise StubError(401, "Invalid key or secret", error="INVALID_CREDENTIALS")
        token = f"token-{len(self.issued) + 1}-{uuid4()}"
        self.issued.append(token)
        self._ends_s[token] = self._clock.monotonic() + self._ttl_s
        return json_answer({"token": token})

    def expire(self) -> None:
        """End every token now."""
        self._ends_s.clear()

    def check(self, request: Request) -> None:
        """Refuse a request that needs a token and shows none that is good."""
        if self._auth is None or request.route == "token":
            return
        token = request.headers.get(AUTH_HEADER.lower(), "")
        if token not in self.issued:
            raise StubError(401, "No valid token", error="INVALID_TOKEN")
        if self._ends_s.get(token, 0.0) <= self._clock.monotonic():
            raise StubError(401, "Token cannot be null or empty or expired", error="EXPIRED_TOKEN")
