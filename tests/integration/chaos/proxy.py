"""A bad network: it delays, cuts, halves, resets, duplicates and swallows requests, answers some with an error page of
its own, and writes down what it saw."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .http_stream import Message, Stream

#: Put by the worker on every request: process id and monotonic nanoseconds at which it was sent.
SENT_HEADER = "x-chaos-sent"
_ERROR_PAGE = b"HTTP/1.1 %s\r\ncontent-type: text/html\r\ncontent-length: 11\r\nconnection: close\r\n\r\n<h1>no</h1>"
_ABOUT_TASK = re.compile(r"^/api/tasks/(?!poll|queue|reports|update-v2)([^/?]+)")


@dataclass(frozen=True)
class Faults:
    """How likely each mishap is, a request."""

    delay: float = 0.05
    cut_request: float = 0.01
    cut_answer: float = 0.02
    halve_request: float = 0.01
    halve_answer: float = 0.01
    duplicate: float = 0.04
    blackhole: float = 0.003
    #: The connection is reset before the request has gone on, or when its answer is there.
    reset_request: float = 0.01
    reset_answer: float = 0.01
    #: 503 instead of passing the request on, or 502 instead of the answer to one that was passed on.
    unavailable: float = 0.01
    bad_gateway: float = 0.01

    def draw(self, rng: random.Random, request: Message) -> str:  # a test may go by the request instead
        """The fate of one request."""
        left = rng.random()
        for name, share in vars(self).items():
            left -= share
            if left < 0:
                return str(name)
        return "none"


class Fate(Protocol):
    """Decides the fate of a request."""

    def draw(self, rng: random.Random, request: Message) -> str: ...


CALM = Faults(**dict.fromkeys(vars(Faults()), 0.0))
#: The longest delay, and the longest time until a late duplicate.
MAX_DELAY_S = 0.6
MAX_DUPLICATE_S = 1.5


class Seen(NamedTuple):
    """A report or heartbeat about one task, as the worker sent it."""

    task: str
    lease: str | None
    report: str | None
    status: str | None
    beat: bool
    pid: int
    sent_ns: int
    fate: str
    body: dict[str, Any]


class Proxy:
    """Listens in a thread of its own. `upstream_port` may change while it runs: the server comes back elsewhere."""

    def __init__(self, faults: Fate, rng: random.Random | None = None) -> None:
        self.faults = faults
        self.upstream_port = 0
        self.port = 0
        self.fates: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.seen: list[Seen] = []
        self._rng = rng or random.Random(0)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._side: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client, upstream = Stream(reader, writer), None
        try:
            upstream = await self._dial()
            while (request := await client.message()) is not None:
                if not await self._carry(request, client, upstream):
                    break
        except (OSError, asyncio.CancelledError):
            pass  # the server is away, a side hung up, or the run is over: what networks do
        finally:
            client.close()
            if upstream is not None:
                upstream.close()

    async def _dial(self) -> Stream:
        return Stream(*await asyncio.open_connection("127.0.0.1", self.upstream_port))

    async def _carry(self, request: Message, client: Stream, upstream: Stream) -> bool:
        """Pass one request through a random fate. Return False if the connection is over."""
        fate = self.faults.draw(self._rng, request)
        self._note(request, fate)
        if fate == "cut_request":
            return False
        if fate == "reset_request":
            client.reset()
            return False
        if fate == "unavailable":
            await client.send(_ERROR_PAGE % b"503 Service Unavailable")
            return False
        if fate == "blackhole":
            await client.ended()
            return False
        if fate == "halve_request":
            await upstream.send(request.raw[: self._rng.randrange(1, len(request.raw))])
            upstream.writer.write_eof()
            await self._answer(client, upstream)
            return False
        if fate == "delay":
            await asyncio.sleep(self._rng.uniform(0, MAX_DELAY_S))
        if fate == "duplicate":
            self._aside(self._duplicate(request, self._rng.choice((0.0, self._rng.uniform(0, MAX_DUPLICATE_S)))))
        await upstream.send(request.raw)
        return await self._return(fate, client, upstream)

    async def _return(self, fate: str, client: Stream, upstream: Stream) -> bool:
        answer = await self._answer(client, upstream)
        if answer is None or fate == "cut_answer":
            return False
        if fate == "reset_answer":
            client.reset()
            return False
        if fate == "bad_gateway":
            await client.send(_ERROR_PAGE % b"502 Bad Gateway")
            return False
        if fate == "halve_answer":
            await client.send(answer.raw[: self._rng.randrange(1, len(answer.raw))])
            client.writer.write_eof()
            return False
        await client.send(answer.raw)
        return (answer.header("connection") or "").lower() != "close"

    async def _answer(self, client: Stream, upstream: Stream) -> Message | None:
        """Return the server's answer, or None if the server or the client hangs up."""
        reading = asyncio.ensure_future(upstream.message(answer=True))
        leaving = asyncio.ensure_future(client.ended())
        try:
            await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            reading.cancel()
            leaving.cancel()
            await asyncio.gather(reading, leaving, return_exceptions=True)  # a socket has one reader at a time

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)

    async def _duplicate(self, request: Message, after_s: float) -> None:
        """Send the same bytes once more on another connection and ignore the answer."""
        await asyncio.sleep(after_s)
        try:
            upstream = await self._dial()
        except OSError:
            return
        try:
            await upstream.send(request.raw)
            await upstream.message(answer=True)
        except OSError:
            pass
        finally:
            upstream.close()

    def _note(self, request: Message, fate: str) -> None:
        method, target, _ = request.first_line.split(" ", 2)
        path = target.split("?")[0]
        kind = "poll" if path.startswith("/api/tasks/poll") else f"{method} {path}"
        pid, _, sent_ns = (request.header(SENT_HEADER) or "").partition("-")
        when = (int(pid or 0), int(sent_ns or time.monotonic_ns()))
        if method == "POST" and path in ("/api/tasks", "/api/tasks/reports", "/api/tasks/update-v2"):
            said = json.loads(request.body)
            kind = "beat" if path == "/api/tasks" and said.get("extendLease") else kind
            self.seen += [_seen(one, *when, fate) for one in (said if isinstance(said, list) else [said])]
        elif (named := _ABOUT_TASK.match(path)) is not None:
            kind = f"{method} /api/tasks/…"
            self.seen.append(Seen(named[1], None, None, None, False, *when, fate, {}))
        self.fates[fate] += 1
        self.requests[kind] += 1


def _seen(said: dict[str, Any], pid: int, sent_ns: int, fate: str) -> Seen:
    beat = bool(said.get("extendLease"))
    return Seen(
        str(said.get("taskId")),
        said.get("leaseId"),
        said.get("reportId"),
        said.get("status"),
        beat,
        pid,
        sent_ns,
        fate,
        {} if beat else said,
    )
