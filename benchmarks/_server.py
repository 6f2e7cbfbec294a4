"""Run a coordinator in a separate process, like `conductor-worker serve`, and send requests to it with little CPU.

A client that needs as much CPU as the server would distort the figures. So requests are encoded by hand, and sent on
connections that stay open.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks._processes import Family, environment, until

TASK = "noop"
INPUT = {"n": "${workflow.input.n}"}
#: The number of connections that start workflows.
CONNECTIONS = 8


class Connection:
    """A kept-alive connection: one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._host = f"{address[0]}:{address[1]}"
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection(self._address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def close(self) -> None:
        self.socket.close()

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        """Return the bytes of a request. A body that is not bytes is encoded as JSON."""
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        head = f"{method} /api{path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content

    def send(self, request: bytes) -> None:
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """Read the available bytes. Return the body of the answer, or None while the answer is incomplete."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise ConnectionError("the coordinator has closed the connection")
        self._received += part
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return None
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if len(body) < length:
            return None
        self._received = b""
        if int(head[9:12]) >= 400:
            raise RuntimeError(f"the coordinator answered {head[9:12].decode()}: {body.decode(errors='replace')}")
        return body

    def ask(self, request: bytes) -> bytes:
        """Send a request and return the answer. If the server closed the idle connection, open a new one first."""
        try:
            return self._ask(request)
        except ConnectionError:
            self.close()
            self._open()
            return self._ask(request)

    def _ask(self, request: bytes) -> bytes:
        self.send(request)
        while (body := self.receive()) is None:
            pass
        return body

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to a request: decoded JSON, or text such as an id."""
        answer = self.ask(self.request(method, path, body))
        return msgspec.json.decode(answer) if answer.startswith((b"{", b"[")) else answer.decode()


class Client:
    """Registers and starts workflows on a coordinator."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._address = (str(parts.hostname), int(parts.port or 80))
        self.connection = self.connect()

    def connect(self) -> Connection:
        return Connection(self._address)

    def define(self, name: str, *tasks: dict[str, Any]) -> None:
        """Register a workflow."""
        definition = {"name": name, "version": 1, "schemaVersion": 2, "ownerEmail": "bench@example.com"}
        self.connection.call("POST", "/metadata/workflow?overwrite=true", {**definition, "tasks": list(tasks)})

    def start(self, workflow: str, count: int, *, connections: int = CONNECTIONS) -> float:
        """Start `count` workflows from several connections at once. Return the seconds that took."""
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            pool = [stack.enter_context(contextlib.closing(self.connect())) for _ in range(connections)]
            requests = (pool[0].request("POST", f"/workflow/{workflow}", {"n": n}) for n in range(count))
            began = time.perf_counter()
            for connection in pool:
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            waiting = sum(_send_next(connection, requests) for connection in pool)
            while waiting:
                for key, _ in selector.select():
                    if key.data.receive() is not None:
                        waiting -= not _send_next(key.data, requests)
            return time.perf_counter() - began

    def running(self) -> int:
        """Return the number of workflows that have not ended."""
        found = self.connection.call("GET", "/workflow/search?size=0&query=status%3DRUNNING")
        return int(found["totalHits"])

    def until_all_ended(self) -> None:
        until(lambda: self.running() == 0, "the end of all workflows", every_s=0.1)

    def until_polled(self, task: str = TASK) -> None:
        """Wait until a worker has polled for the task type."""
        until(lambda: bool(self.connection.call("GET", f"/tasks/queue/polldata?taskType={task}")), "a first poll")


class Server(Client):
    """A client of a coordinator, and the process in which the coordinator runs."""

    def __init__(self, url: str, family: Family) -> None:
        super().__init__(url)
        self.family = family


def _send_next(connection: Connection, requests: Iterable[bytes]) -> bool:
    for request in requests:
        connection.send(request)
        return True
    return False


def simple(ref: str = "one", task: str = TASK) -> dict[str, Any]:
    """Return a SIMPLE step, by default of the task type whose worker does nothing."""
    return {"name": task, "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": INPUT}


@contextmanager
def server(
    database: Path | None = None, env: dict[str, str] | None = None, program: str = "conductor.cli"
) -> Iterator[Server]:
    """Run a coordinator inside the block, on a temporary file unless `database` names one."""
    with tempfile.TemporaryDirectory() as directory:
        file = database or Path(directory) / "bench.db"
        command = [sys.executable, "-m", program, "serve", "--port", "0", "--database", str(file)]
        process = subprocess.Popen(
            command, env=environment(env), stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=directory
        )
        try:
            found = Server(_url_of(process), Family(process.pid))
            yield found
            found.connection.close()
        finally:
            # SIGTERM lets the coordinator close its file. It is killed only if it does not end.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _url_of(process: subprocess.Popen[str]) -> str:
    said = ""
    for line in process.stdout or ():
        said += line
        for word in said.split():
            if word.startswith("http://") and word.endswith("/api"):
                return word
    raise RuntimeError(f"the coordinator did not start: {said}")


@contextmanager
def coordinator() -> Iterator[str]:
    """Run a coordinator inside the block. Yield its URL."""
    with server() as found:
        yield found.url


def fill(url: str, task: str, count: int) -> None:
    """Put `count` tasks of a type on a coordinator, each in its own workflow."""
    client = Client(url)
    client.define(task, simple(task=task))
    client.start(task, count)
    client.connection.close()
