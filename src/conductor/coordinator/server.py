"""The coordinator as a server: binds, serves, drains and closes, in the foreground or in its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Self

from conductor.common.clock import SYSTEM_CLOCK, Clock
from conductor.common.machine import is_loopback, run_event_loop
from conductor.coordinator.core import Core
from conductor.coordinator.http.app import App
from conductor.coordinator.http.auth import Auth
from conductor.coordinator.http.connection import Connections
from conductor.coordinator.http.origins import Origins
from conductor.coordinator.http.routes import ROUTES
from conductor.coordinator.http.tls import CLOSE_TIMEOUT_S, HANDSHAKE_TIMEOUT_S, ServerCertificate
from conductor.coordinator.http.web_ui import WEB_UI_ROUTES
from conductor.coordinator.keys.tokens import Tokens
from conductor.coordinator.replication.replica_url import ReplicaUrl
from conductor.coordinator.replication.replicator import Replicator
from conductor.coordinator.store.database_file import has_keys, refusal
from conductor.coordinator.store.retention import Limits
from conductor.coordinator.store.writer import Store, StoreError
from conductor.coordinator.system.addresses import Addresses
from conductor.coordinator.system.system_workers import SystemWorkers
from conductor.telemetry import tracing

logger = logging.getLogger(__name__)

#: The maximum number of connections that wait to be accepted.
BACKLOG = 2048
#: Connections that are still open this long after the drain began are aborted.
DRAIN_TIMEOUT_S = 10
#: How long `start` waits until the new thread answers requests.
START_TIMEOUT_S = 30.0
#: How long entries of the audit trail are kept by default: 90 days.
KEEP_AUDIT_S = 90 * 86_400.0


class Coordinator:
    """A durable Conductor-compatible server on one SQLite file.

    As a context manager it serves in its own thread; `serve()` serves in the foreground until SIGTERM or SIGINT.

    >>> with Coordinator(database="shop.db", port=0) as coordinator:
    ...     print(coordinator.url)
    http://127.0.0.1:41234/api

    Args:
        database: The SQLite file. ":memory:" stores nothing on disk.
        host: The address to listen on. Without authentication it must be a loopback address.
        port: The port to listen on. 0 takes a free port, which `url` and `port` then name.
        allow_remote: Allows any `host` without authentication.
        allowed_hosts: Values of the Host header that are accepted besides loopback names; "*" accepts any. On loopback
            all others are rejected, so that a web page cannot reach the coordinator through a host name of its own (DNS
            rebinding). On other addresses every Host is accepted unless this list is given.
        allowed_origins: Origins of web pages on other sites whose requests may change something.
        auth_key: A key with role admin that is not stored in the database. Together with `auth_secret` it turns
            authentication on, as any key in the database does.
        auth_secret: The secret of `auth_key`.
        tls_cert: A PEM file with the certificate of the coordinator, and those of intermediate authorities. The
            coordinator then speaks only HTTPS. Renewed files are loaded within a minute.
        tls_key: A PEM file with the private key of `tls_cert`.
        keep_finished_s: How long finished workflows are kept. By default there is no limit.
        keep_finished_count: How many finished workflows are kept. By default there is no limit.
        keep_audit_s: How long entries of the audit trail are kept; None for no limit.
        http_task_hosts: The only hosts that HTTP tasks may call, such as `api.example.com`, `*.example.com`,
            `10.1.0.0/16` or `localhost:8081`. By default they may call any address except link-local addresses and the
            metadata services of clouds.
        replicate: Where Litestream stores a replica of the database: a directory, or a URL such as `s3://bucket/path`.
            By default there is no replica.
        replicate_interval_s: How often changes are copied to the replica. By default every 0.25 s to a directory, and
            every second to other storage.
        disk_reserve_bytes: Starts of workflows are refused while less is free on the disk of the database. By default
            2 % of the disk, at most 256 MB.
        clock: The source of time, for tests.

    Raises:
        ValueError: The combination of arguments is invalid or unsafe.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] = ":memory:",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allow_remote: bool = False,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        auth_key: str | None = None,
        auth_secret: str | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        keep_finished_s: float | None = None,
        keep_finished_count: int | None = None,
        keep_audit_s: float | None = KEEP_AUDIT_S,
        http_task_hosts: Iterable[str] = (),
        replicate: str | None = None,
        replicate_interval_s: float | None = None,
        disk_reserve_bytes: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if bool(auth_key) != bool(auth_secret):
            raise ValueError("authentication needs both a key and a secret; only one of them was given")
        if not allow_remote and not auth_key and not is_loopback(host) and not has_keys(os.fspath(database)):
            raise ValueError(
                f"refusing to listen on {host} without authentication: every program that can connect could start "
                "workflows and read all data; create an admin key with `conductor-worker key create`, set a key and a "
                "secret, or pass allow_remote=True"
            )
        self.database = os.fspath(database)
        self.host = host
        self.port = port
        self._origins = Origins(host, allowed_hosts, allowed_origins)
        self._auth_pair = (auth_key, auth_secret) if auth_key and auth_secret else None
        if (tls_cert is None) != (tls_key is None):
            given, missing = ("tls_cert", "tls_key") if tls_key is None else ("tls_key", "tls_cert")
            raise ValueError(f"TLS needs a certificate and its key, but only {given} was given, not {missing}")
        self._certificate = None if tls_cert is None or tls_key is None else ServerCertificate(tls_cert, tls_key)
        self._addresses = Addresses(http_task_hosts)
        if replicate_interval_s is not None and replicate_interval_s <= 0:
            raise ValueError(f"replicate_interval_s is {replicate_interval_s:g}; it must be greater than 0")
        self._replica_url = None if replicate is None else ReplicaUrl.parse(replicate)
        self._replicate_interval_s = replicate_interval_s
        self._disk_reserve_bytes = disk_reserve_bytes
        self._keep = Limits(keep_finished_s, keep_finished_count, keep_audit_s)
        self._clock = clock
        self._server: _HttpServer | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._on_ready: Callable[[], None] | None = None
        self._failure: BaseException | None = None
        #: The coordinator without HTTP. None before it serves.
        self.core: Core | None = None
        #: The workers of HTTP tasks, scripts and other system tasks. None before the coordinator serves.
        self.workers: SystemWorkers | None = None

    @property
    def url(self) -> str:
        """The URL of the API, for `Configuration(server_api_url=...)`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self._certificate is None else 'https'}://{host}:{self.port}/api"

    def start(self) -> Self:
        """Serve in a new thread. Return as soon as requests are answered.

        Raises:
            OSError: The port is taken.
            StoreError: The database cannot be used.
            RuntimeError: The thread did not start in time.
        """
        self._thread = threading.Thread(target=self._run, args=(self._bind(),), name="coordinator", daemon=True)
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S):
            raise RuntimeError(f"the coordinator did not start within {START_TIMEOUT_S:.0f} s")
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Answer parked polls, finish pending requests and close the database. A second call does nothing."""
        if self._server is not None:
            self._server.stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        """Call `start`."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Call `stop`."""
        self.stop()

    def serve(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until SIGTERM or SIGINT, then drain and return. Call `ready` as soon as requests are answered."""
        self._on_ready = ready
        bound = self._bind()
        logger.info("Coordinator started: url=%s database=%s", self.url, self.database)
        self._run(bound)
        if self._failure is not None:
            raise self._failure

    def _bind(self) -> socket.socket:
        """Return a socket that listens on the port. Replace port 0 by the chosen port.

        Called in the caller's thread, so that errors reach the caller.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # asyncio sets TCP_NODELAY only on sockets with this protocol number.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.host, self.port))
            bound.listen(BACKLOG)
        except OSError as error:
            bound.close()
            raise OSError(error.errno, f"cannot listen on {self.host}:{self.port}: {error.strerror}") from error
        self.port = bound.getsockname()[1]
        return bound

    def _run(self, bound: socket.socket) -> None:
        try:
            run_event_loop(self._serve(bound))
        except (Exception, SystemExit) as error:  # `start` or `serve` raises it again in the caller's thread
            self._failure = error
        finally:
            self._started.set()
            bound.close()

    async def _start_core(self, store: Store, replicator: Replicator | None) -> Core:
        """Start the replicator, the core and the system workers. Return the core.

        Raises:
            StoreError: The database cannot be used.
        """
        try:
            if replicator is not None:
                await asyncio.to_thread(replicator.start, store)
            self.core = core = Core(store, self._clock, self._keep, replicator)
            await core.start()
            self.workers = SystemWorkers(core, self._addresses)
            await self.workers.start()
        except StoreError as error:
            if isinstance(error.__cause__, sqlite3.Error):
                raise refusal(store.database, error.__cause__) from error
            raise
        return core

    async def _serve(self, bound: socket.socket) -> None:
        tracing.use_program_provider()
        url = self._replica_url
        replicator = None if url is None else Replicator(self.database, url, self._replicate_interval_s)
        store = Store(self.database, clock=self._clock, disk_reserve_bytes=self._disk_reserve_bytes)
        try:
            core = await self._start_core(store, replicator)
            self._server = _HttpServer(core, self._make_connections(core), self._certificate)
            await self._server.serve(bound, self._report_ready)
        finally:
            if self.workers is not None:
                await self.workers.stop()
            if self.core is not None:
                await self.core.stop()
            # Close in another thread, because `close` blocks until the writer thread has ended, and until then this
            # loop must still pass the results of the writer to the callers.
            await asyncio.to_thread(store.close)
            if replicator is not None:
                await asyncio.to_thread(replicator.stop)

    def _report_ready(self) -> None:
        self._started.set()
        if self._on_ready is not None:
            self._on_ready()

    def _make_connections(self, core: Core) -> Connections:
        keys = core.keys
        tokens = Tokens(core.store.salt, keys, self._clock)
        if self._auth_pair is not None:
            keys.configure(*self._auth_pair)
            tokens.bind_configured_secret(self._auth_pair[1])
        auth = Auth(keys, tokens, core.counts, self._clock)
        app = App(core, [*ROUTES, *WEB_UI_ROUTES, *auth.routes], self._origins, auth.identify)
        connections = Connections(app)

        def after_change() -> None:
            tokens.forget_verified()
            connections.disconnect_revoked(keys.is_current)

        keys.on_change = after_change
        return connections


class _HttpServer:
    """Accepts connections until it is stopped, then drains the open ones."""

    def __init__(self, core: Core, connections: Connections, certificate: ServerCertificate | None) -> None:
        self._core = core
        self._connections = connections
        self._certificate = certificate
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()

    async def serve(self, bound: socket.socket, ready: Callable[[], None]) -> None:
        """Serve until `stop` is called or, in the main thread, until a signal."""
        with _handle_signals(self._handle_signal):
            listening = await self._listen(bound)
            renewal = None
            if self._certificate is not None:
                renewal = self._loop.create_task(self._certificate.reload_when_renewed(self._core.clock))
            ready()
            await self._stop.wait()
            listening.close()
            if renewal is not None:
                renewal.cancel()
            self._core.drain()
            await self._connections.drain(self._stop_now, DRAIN_TIMEOUT_S)

    async def _listen(self, bound: socket.socket) -> asyncio.Server:
        accept = self._connections.accept
        if self._certificate is None:
            return await self._loop.create_server(accept, sock=bound, backlog=BACKLOG)
        return await self._loop.create_server(
            accept,
            sock=bound,
            backlog=BACKLOG,
            ssl=self._certificate.context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=CLOSE_TIMEOUT_S,
        )

    def _handle_signal(self) -> None:
        # The first signal starts the drain, the second signal aborts it.
        (self._stop_now if self._stop.is_set() else self._stop).set()

    def stop(self) -> None:
        """Start the drain; callable from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is already closed
            self._loop.call_soon_threadsafe(self._stop.set)


@contextlib.contextmanager
def _handle_signals(callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback` on the event loop for SIGTERM and SIGINT.

    Outside the main thread, do nothing, because only the main thread can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def forward(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(callback)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
