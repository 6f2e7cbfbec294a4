"""A coordinator in a process of its own, on a file that outlives it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from conductor.testing.ports import free_port

#: How long a start may take on a busy machine.
PATIENCE_S = 60.0
#: How often memory is looked at.
LOOK_EVERY_S = 0.02

PROGRAM = """
import sys
from conductor.coordinator import Coordinator
Coordinator(sys.argv[1], port=int(sys.argv[2])).serve(lambda: print("ready", flush=True))
"""


class Server:
    """A coordinator process. At the end of the block it is killed with SIGKILL."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.peak_rss_mb = 0.0
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        log = self._database.with_suffix(".log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, str(self._database), str(port)],
            stdout=subprocess.PIPE,
            stderr=log,
        )
        log.close()
        self._wait_until_ready()
        self._watch = threading.Thread(target=self._look_at_memory, daemon=True)
        self._watch.start()
        return self

    def _wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        too_late = threading.Timer(PATIENCE_S, self._process.kill)
        too_late.start()
        try:
            assert self._process.stdout.readline() == b"ready\n", f"no start on {self._database}: {self.log[-2000:]}"
        finally:
            too_late.cancel()

    def _look_at_memory(self) -> None:
        process = psutil.Process(self._process.pid)
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                self.peak_rss_mb = max(self.peak_rss_mb, process.memory_info().rss / 1e6)
            except psutil.Error:
                return

    @property
    def log(self) -> str:
        """Return the log of this process and of those before it."""
        return self._database.with_suffix(".log").read_text("utf-8", "replace")

    @property
    def lives(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._process.kill()
        self._process.wait(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        if error is not None:
            error.add_note(f"The coordinator said:\n{self.log[-4000:]}")
