"""Another client of the same coordinator: asks for /health and starts small workflows every 50 ms.

It runs in a process of its own, so that what it measures is the coordinator and not the case beside it. It measures
from request to answer, and says at the end how long the longest of each took.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

EVERY_S = 0.05
#: Seconds without an answer that count as a hang, even on a busy machine.
HANGS_AFTER_S = 30.0
SMALL = {
    "name": "small",
    "tasks": [
        {
            "name": "note",
            "taskReferenceName": "note",
            "type": "SET_VARIABLE",
            "inputParameters": {"seen": "${workflow.input.n}"},
        }
    ],
}


class Neighbour:
    """A block beside which hostile things happen; `longest_s` is known at its end."""

    def __init__(self, url: str, at_least: int = 3) -> None:
        self._command = [sys.executable, str(Path(__file__)), url, str(at_least)]
        self.longest_s: dict[str, float] = {}
        self.answered = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "begun\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said, _ = self._process.communicate("stop\n", timeout=4 * HANGS_AFTER_S)
        found: dict[str, Any] = json.loads(said)
        self.longest_s, self.answered = found["longest_s"], found["answered"]
        if error is None:
            assert not found["unserved"], f"the neighbour was not served: {found['unserved'][:5]}"


# -- the program ---------------------------------------------------------------------------------------------------


class _Asker(threading.Thread):
    def __init__(self, url: str, method: str, path: str, body: bytes | None, stop: threading.Event, least: int) -> None:
        super().__init__()
        self._where, self._ask = urlsplit(url), (method, path, body)
        self._stop_asking, self._least = stop, least
        self.longest_s, self.answered = 0.0, 0
        self.unserved: list[str] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._where.hostname or "", self._where.port, timeout=HANGS_AFTER_S)
        while not self.unserved and (self.answered < self._least or not self._stop_asking.is_set()):
            method, path, body = self._ask
            began_s = time.monotonic()
            try:
                connection.request(method, path, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.unserved.append(f"{method} {path}: {error!r} after {time.monotonic() - began_s:.1f} s")
                break
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            self.answered += 1
            if answer.status != 200:
                self.unserved.append(f"{method} {path}: {answer.status} {said[:300]!r}")
            self._stop_asking.wait(EVERY_S)


def main(url: str, least: int) -> None:
    """Ask until there is a line on standard input, and at least so often; then say what was seen."""
    stop = threading.Event()
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=HANGS_AFTER_S)
    connection.request(
        "PUT", "/api/metadata/workflow", json.dumps([SMALL]).encode(), {"Content-Type": "application/json"}
    )
    assert connection.getresponse().status == 200
    askers = {
        "health": _Asker(url, "GET", "/health", None, stop, least),
        "start": _Asker(url, "POST", "/api/workflow/small", b'{"n": 1}', stop, least),
    }
    for asker in askers.values():
        asker.start()
    print("begun", flush=True)
    sys.stdin.readline()
    stop.set()
    for asker in askers.values():
        asker.join()
    print(
        json.dumps(
            {
                "longest_s": {name: asker.longest_s for name, asker in askers.items()},
                "answered": sum(asker.answered for asker in askers.values()),
                "unserved": [line for asker in askers.values() for line in asker.unserved],
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
