import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.unit.http.raw_server import RawServer, Script


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[RawServer]]]:
    """Start a `RawServer` that follows a script: request to answer."""
    servers: list[RawServer] = []

    async def start(script: Script, ssl_context: ssl.SSLContext | None = None) -> RawServer:
        server = RawServer(script, ssl_context)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CONDUCTOR_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
