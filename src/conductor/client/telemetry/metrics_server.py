"""The HTTP server for `/metrics`, `/health` and `/ready`. It runs in its own threads."""

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

from conductor.client.telemetry.health import HealthReport

logger = logging.getLogger(__name__)


class MetricsServer:
    """Serves metrics and health.

    Args:
        host: The address to listen on.
        port: The port; 0 for any free one.
        scrape: Returns the metrics and their content type for an Accept header.
        health: Returns the health of all workers.
    """

    def __init__(
        self,
        host: str,
        port: int,
        scrape: Callable[[str], tuple[bytes, str]],
        health: Callable[[], HealthReport],
    ) -> None:
        self._address = (host, port)
        self._endpoints = {"/metrics": self._metrics, "/health": self._health, "/ready": self._ready}
        self._scrape = scrape
        self._report = health
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._server.server_address[1]) if self._server else self._address[1]

    def start(self) -> None:
        """Start the server.

        Raises:
            OSError: The port is not available.
        """
        self._server = _Server(self._address, self._endpoints)
        self._thread = threading.Thread(target=self._server.serve, name="conductor-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening. Responses in flight are completed."""
        if self._server is not None:
            self._server.wake.close()
        if self._thread is not None:
            self._thread.join()

    def _metrics(self, accept: str) -> _Response:
        text, content_type = self._scrape(accept)
        return HTTPStatus.OK, content_type, text

    def _health(self, _accept: str) -> _Response:
        report = self._report()
        return _make_response(report.healthy, report.to_dict())

    def _ready(self, _accept: str) -> _Response:
        report = self._report()
        return _make_response(report.ready, report.to_dict())


#: An answer: its status, its content type and its body.
_Response = tuple[HTTPStatus, str, bytes]


def _make_response(ok: bool, content: dict[str, object]) -> _Response:
    status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
    return status, "application/json", json.dumps(content, indent=1).encode() + b"\n"


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    #: `handle_request` need not wait for a connection, because it is only called when there is one.
    timeout = 0.0

    def __init__(self, address: tuple[str, int], endpoints: dict[str, Callable[[str], _Response]]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.endpoints = endpoints
        super().__init__(address, _Handler)
        self.wake, self._woken = socket.socketpair()

    def serve(self) -> None:
        """Serve until `wake` is closed. Unlike `serve_forever`, this loop does not wake up twice a second."""
        with self, self._woken, selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while self._woken not in [key.fileobj for key, _ in selector.select()]:
                self.handle_request()


class _Handler(BaseHTTPRequestHandler):
    #: Seconds after which a silent client is disconnected, so that it does not occupy a thread.
    timeout = 10.0
    server: _Server

    def do_GET(self) -> None:
        endpoint = self.server.endpoints.get(self.path.split("?", 1)[0])
        if endpoint is None:
            self._respond(HTTPStatus.NOT_FOUND, "text/plain", b"Try /metrics, /health or /ready.\n")
            return
        try:
            self._respond(*endpoint(self.headers.get("Accept", "")))
        except Exception:
            logger.exception("Request failed: path=%s", self.path)
            self._respond(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"See the log of the worker.\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _respond(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log requests at the debug level."""
        logger.debug(format, *args)
