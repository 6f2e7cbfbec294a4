"""A socket, a thread and an event loop that belong together."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from weakref import WeakSet

from conductor.testing.http11 import Connection, RawRequest
from conductor.testing.ports import free_port

#: How long a start or stop may take before something is wrong, in real seconds.
_PATIENCE_S = 10.0
#: Turns of the event loop from the accepted socket to the connection; some more do no harm.
_TURNS_TO_ACCEPT = 5

_listeners: WeakSet[Listener] = WeakSet()


def _leave_to_parent() -> None:
    for listener in _listeners:
        listener.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


class Listener:
    """Accepts connections on the loopback interface, in its own thread. Started again it takes the same port."""

    def __init__(
        self,
        serve: Callable[[Connection, RawRequest], Awaitable[None]],
        port: int,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self._serve = serve
        self._port = port
        self._ssl_context = ssl_context
        self._numbers = count(1)
        self._connections: set[Connection] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._socket: socket.socket | None = None
        _listeners.add(self)

    @property
    def scheme(self) -> str:
        """`https` with TLS, else `http`."""
        return "http" if self._ssl_context is None else "https"

    @property
    def port(self) -> int:
        """The port it listens on."""
        if not self._port:
            raise RuntimeError("the stub has no port yet: start it, or use it in a with block")
        return self._port

    def leave_to_parent(self) -> None:
        """In a forked child: a copy of the socket would keep the port taken after the stub has stopped."""
        if self._socket is not None:
            self._socket.close()

    def start(self) -> None:
        """Bind and serve; returns when connections are accepted."""
        if self._thread is not None:
            raise RuntimeError("the stub is running already")
        ready = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(ready, failure), name="conductor-stub", daemon=True)
        self._thread.start()
        if not ready.wait(_PATIENCE_S) or failure:
            self._thread = None
            raise failure[0] if failure else TimeoutError(f"the stub did not start within {_PATIENCE_S} s")

    def stop(self) -> None:
        """Cut all connections, free the port and end the thread. Does nothing when it is not running."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._stopped is None:
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        thread.join(_PATIENCE_S)
        if thread.is_alive():
            raise TimeoutError(f"the stub did not stop within {_PATIENCE_S} s")

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
        server = await self._loop.create_server(self._connection, sock=self._socket, ssl=self._ssl_context)
        ready.set()
        await self._stopped.wait()
        await self._end_connections(server)
        server.close()
        await server.wait_closed()

    async def _end_connections(self, server: asyncio.Server) -> None:
        """Connections that are being accepted right now too: closing the server would leave those half made."""
        assert self._loop is not None  # noqa: S101
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(_TURNS_TO_ACCEPT):
            while self._connections:  # while one ends, another may end by itself
                connection = next(iter(self._connections))
                connection.reset()
                await connection.lost.wait()
            await asyncio.sleep(0)

    def _connection(self) -> Connection:
        return Connection(next(self._numbers), self._serve, self._connections)
