"""The coordinator as a server: bind, serve, drain, close; in the foreground or in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

import uvicorn

from conductor.clock import SYSTEM_CLOCK, Clock
from conductor.coordinator.app import App
from conductor.coordinator.auth import Auth
from conductor.coordinator.core import Core
from conductor.coordinator.protocol import Protocol
from conductor.coordinator.retention import Limits
from conductor.coordinator.routes import ROUTES
from conductor.coordinator.store import Store

logger = logging.getLogger(__name__)

#: An idle kept-alive connection is closed after this.
KEEP_ALIVE_S = 75
#: What is still being answered this long after the drain began is cut.
DRAIN_S = 10
#: How long the thread may take to come up.
START_TIMEOUT_S = 30.0


class Coordinator:
    """A durable coordinator on one SQLite file (":memory:" keeps nothing).

    `auth_key` and `auth_secret` turn authentication on; without them it listens on loopback only, unless
    `allow_remote` says otherwise. `keep_finished_s` and `keep_finished_count` limit how long and how many finished
    workflows are kept; without them, all are.

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
        auth_key: str | None = None,
        auth_secret: str | None = None,
        keep_finished_s: float | None = None,
        keep_finished_count: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if bool(auth_key) != bool(auth_secret):
            raise ValueError("authentication needs both a key and a secret; only one of them was given")
        if not allow_remote and not auth_key and not _is_loopback(host):
            raise ValueError(
                f"refusing to listen on {host}: anybody who reaches it could run and read everything; "
                "set a key and secret, or pass allow_remote=True"
            )
        self.database = os.fspath(database)
        self.host = host
        self.port = port
        self._auth = Auth(auth_key, auth_secret, clock) if auth_key and auth_secret else None
        self._keep = Limits(keep_finished_s, keep_finished_count)
        self._clock = clock
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._on_ready: Callable[[], None] | None = None
        self._failure: BaseException | None = None
        #: The rules behind the routes, while serving.
        self.core: Core | None = None

    @property
    def url(self) -> str:
        """What to give to `Configuration(server_api_url=...)`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/api"

    # -- in a thread ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Serve in a thread of its own; returns when requests are answered."""
        self._bind()
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)
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
        self._bind()
        logger.info("coordinator on %s, database %s", self.url, self.database)
        self._run()
        if self._failure is not None:
            raise self._failure

    # -- both -----------------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Take the port now, so that a taken one is an error here and port 0 is a number afterwards."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.host, self.port))
            bound.listen(2048)
        except OSError as error:
            bound.close()
            raise OSError(error.errno, f"cannot listen on {self.host}:{self.port}: {error.strerror}") from error
        self._socket = bound
        self.port = bound.getsockname()[1]

    def _run(self) -> None:
        try:
            _run_loop(self._serve())
        except (Exception, SystemExit) as error:  # handed to whoever started us
            self._failure = error
        finally:
            self._started.set()
            if self._socket is not None:
                self._socket.close()

    async def _serve(self) -> None:
        store = Store(self.database, clock=self._clock)
        try:
            self.core = Core(store, self._clock, self._keep)
            await self.core.start()
            self._server = _Server(_config(self._app(self.core)), self.core, self._ready)
            await self._server.serve(sockets=[self._socket] if self._socket else None)
        finally:
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
            return App(core, ROUTES)
        return App(core, [*ROUTES, *self._auth.routes], self._auth.check)


class _Server(uvicorn.Server):
    """uvicorn without its ten wake-ups a second, and with a drain that begins at the signal."""

    def __init__(self, config: uvicorn.Config, core: Core, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._core = core
        self._ready = ready
        self._exit = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def main_loop(self) -> None:
        self._ready()
        await self._exit.wait()
        self.should_exit = True
        self._core.drain()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        # The first asks for a drain, the second for an end. It is not raised again: stopping was what it asked for.
        self.force_exit = self.should_exit
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._exit.set)

    def stop(self) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # already closed
            self._loop.call_soon_threadsafe(self._exit.set)


def _config(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        backlog=2048,
    )


def _run_loop(main: Any) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
