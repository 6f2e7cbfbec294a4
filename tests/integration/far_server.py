"""A server that HTTP tasks call: it records requests and answers when the test lets it."""

from __future__ import annotations

import gzip
import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

#: How long a test waits for a call.
PATIENCE_S = 60.0


class FarServer:
    """Answers on a port of its own. What it was asked is in `calls`; `/held` is answered after `release`."""

    def __init__(self) -> None:
        self.calls: queue.Queue[dict[str, Any]] = queue.Queue()
        self.released = threading.Event()
        self.answers: list[int] = []
        far = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                call = {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": body.decode()}
                far.calls.put(call)
                if self.path == "/held":
                    far.released.wait(PATIENCE_S)
                if self.path == "/drip":
                    self.drip()
                    return
                if self.path.startswith("/garbage/"):
                    self.wfile.write(f"{self.path} is no status line\r\n\r\n".encode())
                    self.close_connection = True
                    return
                try:
                    self.send(*far.answer_to(self.path, call))
                except OSError:
                    self.close_connection = True  # the client has gone

            def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status not in (204, 304):
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def drip(self) -> None:
                """A little of an answer again and again, which never becomes a whole one."""
                self.close_connection = True
                try:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                    while not far.released.wait(0.05):
                        self.wfile.write(b"x")
                except OSError:
                    far.released.set()

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - as http.server wants it

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def answer_to(self, path: str, call: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        kind, _, rest = path[1:].partition("/")
        if kind == "status":
            return int(rest), {}, b""
        if kind == "next":
            return self.answers.pop(0), {}, b"said"
        if kind == "to":
            return 302, {"Location": rest}, b""
        if kind == "kept":
            return 307, {"Location": rest}, b""
        if kind == "bytes":
            return 200, {"Content-Type": "text/plain"}, b"x" * int(rest)
        if kind == "packed":
            return 200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(b"x" * int(rest))
        if kind == "complain":
            return 400, {"Content-Type": "application/json"}, json.dumps(call).encode()
        if kind == "mirror":
            headers = {"X-Path": path, "X-Key": call["headers"].get("X-Key", "")}
            return 200, {"Content-Type": "text/plain", **headers}, json.dumps(call).encode()
        if kind == "charset":
            charset, _, encoding = rest.partition("/")
            return 200, {"Content-Type": f"text/plain; charset={charset}"}, "a-\u00e9".encode(encoding)
        if kind == "headers":
            return 200, {f"X-{number}": "x" * 50_000 for number in range(int(rest))}, b"x"
        if kind == "text":
            return 200, {"Content-Type": "text/plain"}, b"hello"
        return 200, {"Content-Type": "application/json"}, json.dumps(call).encode()

    def call(self) -> dict[str, Any]:
        """The next call; waits for it."""
        return self.calls.get(timeout=PATIENCE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
