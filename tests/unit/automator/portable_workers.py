"""Workers that travel to other processes. What holds their tasks is a gate of the stub, asked for over HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import psutil


def ask_server(url: str) -> dict[str, int]:
    """Ask for this address and wait for the answer, in the thread."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return {"status": answer.status}
    except urllib.error.HTTPError as error:
        return {"status": error.code}


async def ask_server_async(url: str) -> dict[str, int]:
    """The coroutine version of the function above."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return {"status": int(answer.split()[1])}


def about_process(**_: object) -> dict[str, object]:
    """Return facts about the worker's process."""
    return {
        "pid": os.getpid(),
        "sigint_ignored": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
        "variable": os.environ.get("MY_VARIABLE"),
        "log_level": logging.getLogger().level,
        "children": len(multiprocessing.active_children()),
    }


async def about_process_async(**_: object) -> dict[str, object]:
    """The coroutine version of the function above."""
    return about_process()


def die() -> None:
    """End the process, as a crash does."""
    os._exit(3)


def shared_modules(**_: object) -> dict[str, object]:
    """Which modules this process had before it loaded any itself: they were frozen in the fork server."""
    return {"frozen": gc.get_freeze_count(), "wanted": "colorsys" in sys.modules}


class Heavy:
    """A listener that cannot travel."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def on_poll_started(self, event: object) -> None:
        """Listens to something, so that it counts."""


def own_memory(number: int) -> dict[str, int]:
    """The memory of this process; every tenth task fails."""
    if number % 10 == 0:
        raise ValueError(f"task {number} fails")
    return {"bytes": psutil.Process().memory_info().rss}


async def own_memory_async(number: int) -> dict[str, int]:
    """The coroutine version of the function above."""
    return own_memory(number)
