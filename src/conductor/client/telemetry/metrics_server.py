"""`/metrics`, `/health` and `/ready` over HTTP, in threads of its own."""

from __future__ import annotations

import json
import logging
import selectors
import socket
import socketserver
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from conductor.client.telemetry.health import HealthReport

logger = logging.getLogger(__name__)


class MetricsServer:
    """Serves `scrape` (of the Accept header) and `health`. `start()` raises OSError when the port cannot be had."""

    def __init__(
        self,
        host: str,
        port: int,
        scrape: Callable[[str], tuple[bytes, str]],
        health: Callable[[], HealthReport],
    ) -> None:
        self._address = (host, port)
        self._pages = {"/metrics": self._metrics, "/health": self._health, "/ready": self._ready}
        self._scrape = scrape
        self._report = health
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port it listens on; the real one when it was asked for port 0."""
        return int(self._server.server_address[1]) if self._server else self._address[1]

    def start(self) -> None:
        """Listen, and answer from now on."""
        self._server = _Server(self._address, self._pages)
        self._thread = threading.Thread(target=self._server.serve, name="conductor-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; answers under way are finished."""
        if self._server is not None:
            self._server.wake.close()
        if self._thread is not None:
            self._thread.join()

    def _metrics(self, accept: str) -> _Page:
        text, content_type = self._scrape(accept)
        return HTTPStatus.OK, content_type, text

    def _health(self, _accept: str) -> _Page:
        report = self._report()
        return _json(report.healthy, report.to_dict())

    def _ready(self, _accept: str) -> _Page:
        report = self._report()
        return _json(report.ready, report.to_dict())


#: Status, content type, body.
_Page = tuple[HTTPStatus, str, bytes]


def _json(well: bool, content: dict[str, Any]) -> _Page:
    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
    return status, "application/json", json.dumps(content, indent=1).encode() + b"\n"


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    #: `handle_request` is called when there is one.
    timeout = 0.0

    def __init__(self, address: tuple[str, int], pages: dict[str, Callable[[str], _Page]]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.pages = pages
        super().__init__(address, _Handler)
        self.wake, self._woken = socket.socketpair()

    def serve(self) -> None:
        """Answer until `wake` is closed. (The library's own loop wakes up twice a second to see whether to end.)"""
        with self, self._woken, selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while self._woken not in [key.fileobj for key, _ in selector.select()]:
                self.handle_request()


class _Handler(BaseHTTPRequestHandler):
    #: A client that says nothing is dropped, so that it holds no thread.
    timeout = 10.0
    server: _Server

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.split("?", 1)[0])
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"There are /metrics, /health and /ready.\n")
            return
        try:
            self._answer(*page(self.headers.get("Accept", "")))
        except Exception:
            logger.exception("%s could not be answered", self.path)
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"See the log of the worker.\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Scrapes are not news."""
        logger.debug(format, *args)
