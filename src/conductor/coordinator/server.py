"""The coordinator as a server: bind, serve, drain, close; in the foreground or in a thread of its own."""

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
from conductor.coordinator.http.web_ui import PAGE_ROUTES
from conductor.coordinator.store.database_file import refusal
from conductor.coordinator.store.retention import Limits
from conductor.coordinator.store.writer import Store, StoreError
from conductor.coordinator.system.addresses import Addresses
from conductor.coordinator.system.system_workers import SystemWorkers
from conductor.telemetry import tracing

logger = logging.getLogger(__name__)

#: Connections that wait to be accepted.
BACKLOG = 2048
#: What is still being answered this long after the drain began is cut.
DRAIN_S = 10
#: How long the thread may take to come up.
START_TIMEOUT_S = 30.0


class Coordinator:
    """A durable coordinator on one SQLite file (":memory:" keeps nothing).

    `auth_key` and `auth_secret` turn authentication on; without them it listens on loopback only, unless
    `allow_remote` says otherwise. `keep_finished_s` and `keep_finished_count` limit how long and how many finished
    workflows are kept; without them, all are.

    On loopback it answers only requests whose Host is a loopback name or address, or in `allowed_hosts` ("*": any), so
    that no web page reaches it under a name of its own; beyond loopback the list counts if it is given. A page of
    another origin may change nothing, unless its origin is in `allowed_origins`.

    HTTP tasks call any address but link-local ones and those where clouds keep the keys of a machine. With
    `http_task_hosts` they call only what is listed there: `api.example.com`, `*.example.com`, `10.1.0.0/16`,
    `localhost:8081`.

    As a context manager it serves in a thread of its own; `serve()` serves in the foreground until SIGTERM or SIGINT.

    >>> with Coordinator(database="shop.db", port=0) as coordinator:
    ...     print(coordinator.url)
    http://127.0.0.1:41234/api
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
        keep_finished_s: float | None = None,
        keep_finished_count: int | None = None,
        http_task_hosts: Iterable[str] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if bool(auth_key) != bool(auth_secret):
            raise ValueError("authentication needs both a key and a secret; only one of them was given")
        if not allow_remote and not auth_key and not is_loopback(host):
            raise ValueError(
                f"refusing to listen on {host}: anybody who reaches it could run and read everything; "
                "set a key and secret, or pass allow_remote=True"
            )
        self.database = os.fspath(database)
        self.host = host
        self.port = port
        self._origins = Origins(host, allowed_hosts, allowed_origins)
        self._auth = Auth(auth_key, auth_secret, clock) if auth_key and auth_secret else None
        self._addresses = Addresses(http_task_hosts)
        self._keep = Limits(keep_finished_s, keep_finished_count)
        self._clock = clock
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._on_ready: Callable[[], None] | None = None
        self._failure: BaseException | None = None
        #: The rules behind the routes, while serving.
        self.core: Core | None = None
        #: Those who do HTTP tasks, scripts and the like, while serving.
        self.workers: SystemWorkers | None = None

    @property
    def url(self) -> str:
        """What to give to `Configuration(server_api_url=...)`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/api"

    # -- in a thread ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Serve in a thread of its own; returns when requests are answered."""
        self._thread = threading.Thread(target=self._run, args=(self._bind(),), name="coordinator", daemon=True)
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S):
            raise RuntimeError(f"the coordinator did not start within {START_TIMEOUT_S:.0f} s")
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Answer parked polls, finish what is being answered, close the file. Safe to call twice."""
        if self._server is not None:
            self._server.stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    # -- in the foreground ----------------------------------------------------------------------------------------

    def serve(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until SIGTERM or SIGINT, then drain and return. `ready` is called when requests are answered."""
        self._on_ready = ready
        bound = self._bind()
        logger.info("coordinator on %s, database %s", self.url, self.database)
        self._run(bound)
        if self._failure is not None:
            raise self._failure

    # -- both -----------------------------------------------------------------------------------------------------

    def _bind(self) -> socket.socket:
        """Take the port now, so that a taken one is an error here and port 0 is a number afterwards."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # asyncio sends small answers at once only on a socket that says it is TCP.
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
        except (Exception, SystemExit) as error:  # handed to whoever started us
            self._failure = error
        finally:
            self._started.set()
            bound.close()

    async def _start_core(self, store: Store) -> Core:
        """Start everything that runs beside the requests. A file that cannot be read or written is refused."""
        try:
            self.core = core = Core(store, self._clock, self._keep)
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
        store = Store(self.database, clock=self._clock)
        try:
            core = await self._start_core(store)
            self._server = _Server(core, Connections(self._app(core)))
            await self._server.serve(bound, self._ready)
        finally:
            if self.workers is not None:
                await self.workers.stop()
            if self.core is not None:
                await self.core.stop()
            # Closing waits for the writer, whose answers go through this loop: not from the loop's own thread.
            await asyncio.to_thread(store.close)

    def _ready(self) -> None:
        self._started.set()
        if self._on_ready is not None:
            self._on_ready()

    def _app(self, core: Core) -> App:
        if self._auth is None:
            return App(core, [*ROUTES, *PAGE_ROUTES], self._origins)
        return App(core, [*ROUTES, *PAGE_ROUTES, *self._auth.routes], self._origins, self._auth.check)


class _Server:
    """Accepts connections until it is told to stop; then those that are open get the answers they wait for."""

    def __init__(self, core: Core, connections: Connections) -> None:
        self._core = core
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()

    async def serve(self, bound: socket.socket, ready: Callable[[], None]) -> None:
        """Until `stop`, or until a signal if this is the main thread."""
        with _signals_to(self._signalled):
            listening = await self._loop.create_server(self._connections.accept, sock=bound, backlog=BACKLOG)
            ready()
            await self._stop.wait()
            listening.close()
            self._core.drain()
            await self._connections.drain(self._stop_now, DRAIN_S)

    def _signalled(self) -> None:
        # The first asks for a drain, the second for an end.
        (self._stop_now if self._stop.is_set() else self._stop).set()

    def stop(self) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # already closed
            self._loop.call_soon_threadsafe(self._stop.set)


@contextlib.contextmanager
def _signals_to(tell: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT mean `tell`, on the event loop. Only the main thread hears signals; others have `stop`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def heard(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(tell)

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
