"""A load balancer: TCP connections go to the nodes in turn, and skip nodes that are down."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Sequence

#: A node that does not accept a connection in this time is passed over.
CONNECT_TIMEOUT_S = 2.0


class RoundRobin:
    """Serves in a thread of its own; `port` is where. A node's end is its connections' end, as through a real one."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._turns = itertools.cycle(ports)
        self._count = len(ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="round-robin", daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        #: How many connections each port got.
        self.taken = dict.fromkeys(ports, 0)
        self.port = 0

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)

    def stop(self) -> None:
        """Stop listening and cut what is open."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._carry(client, to_client)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            to_client.close()

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        node, to_node = await self._connect()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(client, to_node))
                both.create_task(_pump(node, to_client))
        except* OSError:
            pass
        finally:
            to_node.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for port in itertools.islice(self._turns, self._count):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    connected = await asyncio.open_connection("127.0.0.1", port)
                self.taken[port] += 1
                return connected
        raise ConnectionRefusedError("every node is down")


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, which ends both directions."""
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    raise ConnectionResetError("closed")
