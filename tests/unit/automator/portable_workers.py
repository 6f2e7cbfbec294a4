"""Workers that travel to other processes. What holds their tasks is a gate of the stub, asked for over HTTP."""

from __future__ import annotations

import asyncio
import urllib.request
from urllib.parse import urlsplit


def ask_server(url: str) -> dict[str, int]:
    """Ask for this address and wait for the answer, in the thread."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return {"status": answer.status}
    except urllib.error.HTTPError as error:
        return {"status": error.code}


async def ask_server_async(url: str) -> dict[str, int]:
    """The same on the event loop."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return {"status": int(answer.split()[1])}
