"""The stub's listening socket, with a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from weakref import WeakSet

from conductor.testing.http11 import RawRequest, StubConnection
from conductor.testing.ports import free_port

#: A start or stop raises `TimeoutError` after this many seconds of real time.
_START_STOP_TIMEOUT_S = 10.0
#: asyncio creates the protocol object of an accepted socket within this many iterations of the event loop.
_LOOP_ITERATIONS_TO_ACCEPT = 5

_listeners: WeakSet[Listener] = WeakSet()


def _close_inherited_sockets() -> None:
    """Close a forked child's copies of the sockets, which would keep the port in use after the stub has stopped."""
    for listener in _listeners:
        listener.close_inherited_socket()


os.register_at_fork(after_in_child=_close_inherited_sockets)


class Listener:
    """Accepts connections on the loopback interface, in its own thread. A restart uses the same port."""

    def __init__(
        self,
        serve: Callable[[StubConnection, RawRequest], Awaitable[None]],
        port: int,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self._serve = serve
        self._port = port
        self._ssl_context = ssl_context
        self._numbers = count(1)
        self._connections: set[StubConnection] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._socket: socket.socket | None = None
        _listeners.add(self)

    @property
    def scheme(self) -> str:
        return "http" if self._ssl_context is None else "https"

    @property
    def port(self) -> int:
        if not self._port:
            raise RuntimeError("the stub has no port yet: start it, or use it in a with block")
        return self._port

    def close_inherited_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def start(self) -> None:
        """Bind the port and return when connections are accepted."""
        if self._thread is not None:
            raise RuntimeError("the stub is already running")
        ready = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(ready, failure), name="conductor-stub", daemon=True)
        self._thread.start()
        if not ready.wait(_START_STOP_TIMEOUT_S) or failure:
            self._thread = None
            raise failure[0] if failure else TimeoutError(f"the stub did not start within {_START_STOP_TIMEOUT_S} s")

    def stop(self) -> None:
        """Reset all connections, release the port and end the thread. No-op when it is not running."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._stopped is None:
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        thread.join(_START_STOP_TIMEOUT_S)
        if thread.is_alive():
            raise TimeoutError(f"the stub did not stop within {_START_STOP_TIMEOUT_S} s")

    def _run(self, ready: threading.Event, failure: list[BaseException]) -> None:
        try:
            asyncio.run(self._listen(ready))
        except OSError as error:
            failure.append(error)
            ready.set()

    async def _listen(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._port = self._port or free_port()
        self._socket = socket.create_server(("127.0.0.1", self._port))
        server = await self._loop.create_server(self._make_connection, sock=self._socket, ssl=self._ssl_context)
        ready.set()
        await self._stopped.wait()
        await self._reset_connections(server)
        server.close()
        await server.wait_closed()

    async def _reset_connections(self, server: asyncio.Server) -> None:
        """Reset every connection. Include those that are being accepted, which closing the server would leak."""
        assert self._loop is not None  # noqa: S101
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(_LOOP_ITERATIONS_TO_ACCEPT):
            while self._connections:  # connections leave the set during the wait below
                connection = next(iter(self._connections))
                connection.reset()
                await connection.lost.wait()
            await asyncio.sleep(0)

    def _make_connection(self) -> StubConnection:
        return StubConnection(next(self._numbers), self._serve, self._connections)
