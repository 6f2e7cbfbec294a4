"""Small servers on real sockets that do exactly what a test says, byte by byte."""

import asyncio
import itertools
import json
import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """A request as the server saw it; `connection` and `nth` count from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    nth: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(status: int = 200, body: bytes | str | dict[str, Any] | list[Any] = b"", **headers: str) -> bytes:
    """A whole HTTP/1.1 answer."""
    if isinstance(body, dict | list):
        body, content_type = json.dumps(body).encode(), "application/json"
    else:
        body, content_type = body.encode() if isinstance(body, str) else body, "text/plain"
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


#: Instead of an answer: end the connection politely, end it with a reset, or never answer.
CLOSE, RESET, SILENCE = object(), object(), object()

Script = Callable[[Seen], Any]


@dataclass
class RawServer:
    script: Script | None = None
    ssl_context: ssl.SSLContext | None = None
    requests: list[Seen] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    most_open: int = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.ssl_context)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def stop(self) -> None:
        self._server.close()
        for task, writer in self._tasks.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{'https' if self.ssl_context else 'http'}://127.0.0.1:{self.port}"

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks[asyncio.ensure_future(self._connection(reader, writer))] = writer

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        self.most_open = max(self.most_open, self.open_connections)
        try:
            await self.talk(reader, writer, self.connections)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.open_connections -= 1
            # Close once: Python 3.11.2 cannot abort a TLS transport that was closed twice, and `stop` aborts all.
            if not writer.is_closing():
                writer.close()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        """Serve one connection until it ends."""
        for nth in itertools.count(1):
            seen = await read_request(reader, connection, nth)
            self.requests.append(seen)
            assert self.script is not None
            result = self.script(seen)
            if isinstance(result, Awaitable):
                result = await result
            if result is RESET:
                writer.transport.abort()
            if result is RESET or result is CLOSE:
                return
            if result is SILENCE:
                await asyncio.Event().wait()
            writer.write(result)
            await writer.drain()
            if b"\r\nConnection: close" in result:
                return


async def read_request(reader: asyncio.StreamReader, connection: int = 1, nth: int = 1) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, value in (re.split(r":\s*", line, maxsplit=1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Seen(method, target, headers, body, connection, nth)
