"""The access token: fetched once, renewed before its end, by one caller for all who share a Configuration."""

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

#: Asks the server for a new token; None = the server has no authentication.
Fetch = Callable[[], Awaitable[str | None]]

#: A token is renewed when this much of its life is over.
RENEW_AT = 0.9
MAX_WAIT_S = 60.0

_keepers: WeakKeyDictionary[Configuration, TokenKeeper] = WeakKeyDictionary()
_keepers_lock = threading.Lock()


def token_keeper(configuration: Configuration, clock: Clock = SYSTEM_CLOCK) -> TokenKeeper:
    """The one keeper of this Configuration: clients on several threads and loops share it."""
    with _keepers_lock:
        keeper = _keepers.get(configuration)
        if keeper is None:
            keeper = _keepers[configuration] = TokenKeeper(configuration, clock)
        return keeper


class TokenKeeper:
    """Keeps `configuration.AUTH_TOKEN` fresh. A failed renewal keeps the old token and is tried again later."""

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        # The keeper is found by its Configuration, so it must not keep it alive through the registry's value.
        self._clock = clock
        self._settings = configuration.authentication_settings
        #: Whether calls need a token that is fetched with an access key.
        self.needed = self._settings is not None
        self._life_s = configuration.auth_token_ttl_min * 60.0
        #: Counts the tokens fetched; a call remembers it to know whether somebody renewed meanwhile.
        self.generation = 0
        #: What went wrong with the last fetch, for error messages.
        self.last_error: str | None = None
        self._start_over()

    def _start_over(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._flight: Future[None] | None = None
        self._known: str | None = None
        self._renew_at_s = 0.0
        self._without_auth = False
        self._told = False
        self._fetches = _Pause(self._clock)
        self._refusals = _Pause(self._clock)

    async def refresh(self, configuration: Configuration, fetch: Fetch) -> None:
        """Before a call: fetch the first token, or renew one that is near its end while others go on with it."""
        token = configuration.AUTH_TOKEN
        if self._pid != os.getpid():  # a forked child: the fetch under way, if any, is its parent's
            self._start_over()
        if token is None:
            if not self._without_auth:
                await self._renew(configuration, fetch)
        elif self._is_due(configuration, token) and self._flight is None:
            await self._renew(configuration, fetch)

    async def after_refusal(self, configuration: Configuration, generation: int, fetch: Fetch) -> bool:
        """A call made at that generation was refused. True: there is a newer token, so repeat it once."""
        if self._settings is None:
            self._tell_once(configuration)
            return False
        if self.generation == generation and self._refusals.is_over():
            self._without_auth = False
            await self._renew(configuration, fetch)
        return self.generation != generation

    def _tell_once(self, configuration: Configuration) -> None:
        """Say which server refuses us and what to do about it: the calls that fail because of it do not."""
        if self._told:
            return
        self._told = True
        with_what = "the access token it was given" if configuration.AUTH_TOKEN else "calls without an access key"
        advice = "set CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET, or Configuration(authentication_settings=…)"
        logger.warning("%s refuses %s: %s", configuration.shown_host, with_what, advice)

    def repeated(self, *, refused: bool) -> None:
        """How the repeated call ended. New tokens that do not help (no permission) are not fetched for every call."""
        if refused:
            self._refusals.failed()
        else:
            self._refusals.succeeded()

    def _is_due(self, configuration: Configuration, token: str) -> bool:
        if token != self._known:  # a token from a parent process or from the user: its age is the wall clock's
            age_s = max(0.0, (self._clock.wall_ms() - configuration.token_update_time) / 1000)
            self._know(token, age_s)
        return self._clock.monotonic() >= self._renew_at_s and self._fetches.is_over()

    def _know(self, token: str, age_s: float) -> None:
        self._known = token
        self._renew_at_s = self._clock.monotonic() + self._life_s * RENEW_AT - age_s

    async def _renew(self, configuration: Configuration, fetch: Fetch) -> None:
        """Fetch a token, or wait for the fetch another caller has under way."""
        generation = self.generation
        while self.generation == generation and self._fetches.is_over() and not self._without_auth:
            with self._lock:
                flight, mine = self._flight, None
                if flight is None:
                    flight = self._flight = mine = Future[None]()
                    mine.set_running_or_notify_cancel()  # a waiter that is cancelled must not cancel it for the others
            if mine is None:
                await asyncio.wrap_future(flight)
                continue
            try:
                await self._fetch(configuration, fetch)
            finally:
                self._flight = None
                mine.set_result(None)

    async def _fetch(self, configuration: Configuration, fetch: Fetch) -> None:
        try:
            token = await fetch()
        except ConductorError as error:
            self.last_error = str(error)
            wait_s = self._fetches.failed()
            kept = "; the old one stays in use" if configuration.AUTH_TOKEN else ""
            whose = f"key '{self._settings.key_id}'" if self._settings else "no key"
            logger.warning(
                "No new access token of %s for %s: %s%s. Next try in %.1f s",
                configuration.shown_host,
                whose,
                error,
                kept,
                wait_s,
            )
            return
        self.last_error = None
        self._fetches.succeeded()
        if token is None:
            self._without_auth = True
            logger.info("%s has no token endpoint: going on without authentication", configuration.shown_host)
            return
        configuration.update_token(token)
        self._know(token, age_s=0.0)
        self.generation += 1


class _Pause:
    """No further attempt before the time that a Backoff asks for: 2, 4, … 60 s while attempts keep failing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._backoff = Backoff(2.0, MAX_WAIT_S, jitter=0.2)
        self._not_before_s = 0.0

    def is_over(self) -> bool:
        return self._clock.monotonic() >= self._not_before_s

    def failed(self) -> float:
        wait_s = self._backoff.next()
        self._not_before_s = self._clock.monotonic() + wait_s
        return wait_s

    def succeeded(self) -> None:
        self._backoff.reset()
        self._not_before_s = 0.0
