"""The access token of a server: fetched once, and renewed before it expires.

Clients that share a `Configuration` share one `TokenManager`. One caller fetches a token while the others wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from weakref import WeakKeyDictionary

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.errors import ConductorError
from conductor.common.backoff import Backoff
from conductor.common.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

#: Fetches a new token from the server. Returns None if the server has no authentication.
Fetch = Callable[[], Awaitable[str | None]]

#: A token is renewed after this fraction of its lifetime.
RENEW_AT = 0.9
FIRST_PAUSE_S = 2.0
MAX_PAUSE_S = 60.0

_managers: WeakKeyDictionary[Configuration, TokenManager] = WeakKeyDictionary()
_managers_lock = threading.Lock()


def get_token_manager(configuration: Configuration, clock: Clock = SYSTEM_CLOCK) -> TokenManager:
    """Return the token manager of a Configuration. Clients on several threads and event loops share it."""
    with _managers_lock:
        manager = _managers.get(configuration)
        if manager is None:
            manager = _managers[configuration] = TokenManager(configuration, clock)
        return manager


class TokenManager:
    """Keeps `configuration.AUTH_TOKEN` valid. After a failed renewal the old token stays in use.

    `_managers` keeps a manager only while its Configuration is alive. So the manager holds no reference to its
    Configuration, which would keep both alive forever.

    Attributes:
        is_needed: Whether calls need a token that is fetched with an access key.
        generation: The number of tokens fetched. A call compares it to find out whether the token was renewed.
        last_error: Why the last fetch failed, for error messages.
    """

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        self._clock = clock
        self._settings = configuration.authentication_settings
        self._lifetime_s = configuration.auth_token_ttl_min * 60.0
        self.is_needed = self._settings is not None
        self.generation = 0
        self.last_error: str | None = None
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._fetch_in_flight: Future[None] | None = None
        self._last_token: str | None = None
        self._renew_at_s = 0.0
        self._server_has_no_auth = False
        self._has_warned = False
        self._fetch_pause = _Pause(self._clock)
        self._rejection_pause = _Pause(self._clock)

    async def refresh(self, configuration: Configuration, fetch: Fetch) -> None:
        """Fetch the first token, or renew one that expires soon. Called before each call.

        While one caller renews a token, the others continue with the old one.
        """
        token = configuration.AUTH_TOKEN
        if self._pid != os.getpid():  # a fetch that the parent process started never ends in a forked child
            self._reset()
        if token is None:
            if not self._server_has_no_auth:
                await self._renew(configuration, fetch)
        elif self._is_due(configuration, token) and self._fetch_in_flight is None:
            await self._renew(configuration, fetch)

    async def renew_after_rejection(self, configuration: Configuration, generation: int, fetch: Fetch) -> bool:
        """Renew the token after a call with the token of this generation was rejected.

        Returns:
            Whether there is a newer token, so that the call should be repeated once.
        """
        if self._settings is None:
            self._warn_once(configuration)
            return False
        if self.generation == generation and self._rejection_pause.is_over():
            self._server_has_no_auth = False
            await self._renew(configuration, fetch)
        return self.generation != generation

    def record_repeat(self, *, rejected: bool) -> None:
        """Record whether a call that was repeated with a new token was rejected again.

        If it was, another new token would not help either, so rejected calls fetch none until a pause is over.
        """
        if rejected:
            self._rejection_pause.start()
        else:
            self._rejection_pause.end()

    def _warn_once(self, configuration: Configuration) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        calls = "calls with the given access token" if configuration.AUTH_TOKEN else "calls without an access key"
        advice = "set CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET, or Configuration(authentication_settings=…)"
        logger.warning("Server %s rejects %s: %s", configuration.shown_host, calls, advice)

    def _is_due(self, configuration: Configuration, token: str) -> bool:
        if token != self._last_token:
            # The parent process or the user has set this token, so its age is only known by the wall clock.
            age_s = max(0.0, (self._clock.wall_ms() - configuration.token_update_time) / 1000)
            self._set_renewal(token, age_s)
        return self._clock.monotonic() >= self._renew_at_s and self._fetch_pause.is_over()

    def _set_renewal(self, token: str, age_s: float) -> None:
        self._last_token = token
        self._renew_at_s = self._clock.monotonic() + self._lifetime_s * RENEW_AT - age_s

    async def _renew(self, configuration: Configuration, fetch: Fetch) -> None:
        """Fetch a token, or wait for the fetch of another caller."""
        generation = self.generation
        while self.generation == generation and self._fetch_pause.is_over() and not self._server_has_no_auth:
            with self._lock:
                others, own = self._fetch_in_flight, None
                if others is None:
                    self._fetch_in_flight = own = Future[None]()
                    # A running future cannot be cancelled, so a cancelled waiter does not end it for the other waiters.
                    own.set_running_or_notify_cancel()
            if others is not None:
                await asyncio.wrap_future(others)
            if own is not None:
                try:
                    await self._fetch(configuration, fetch)
                finally:
                    self._fetch_in_flight = None
                    own.set_result(None)

    async def _fetch(self, configuration: Configuration, fetch: Fetch) -> None:
        host = configuration.shown_host
        try:
            token = await fetch()
        except ConductorError as error:
            self.last_error = str(error)
            pause_s = self._fetch_pause.start()
            logger.warning(
                "Access token not renewed: server=%s key='%s' error=\"%s\" next_try_in=%.1fs%s",
                host,
                self._settings.key_id if self._settings else "",
                error,
                pause_s,
                ", the old token stays in use" if configuration.AUTH_TOKEN else "",
            )
            return
        self.last_error = None
        self._fetch_pause.end()
        if token is None:
            self._server_has_no_auth = True
            logger.info("Server %s has no token endpoint: calls are made without authentication", host)
            return
        configuration.update_token(token)
        self._set_renewal(token, age_s=0.0)
        self.generation += 1


class _Pause:
    """A pause between attempts: 2 s after the first failure, doubled with each further failure, up to 60 s."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, jitter=0.2)
        self._ends_at_s = 0.0

    def is_over(self) -> bool:
        return self._clock.monotonic() >= self._ends_at_s

    def start(self) -> float:
        pause_s = self._backoff.next()
        self._ends_at_s = self._clock.monotonic() + pause_s
        return pause_s

    def end(self) -> None:
        self._backoff.reset()
        self._ends_at_s = 0.0
