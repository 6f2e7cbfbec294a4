"""What every worker's process needs, imported once in the fork server: its children have it at once, and share it."""

from __future__ import annotations

import gc
import os
import signal
from importlib import import_module

from conductor.client.http.async_rest import load_library

for name in ("conductor.client.automator.task_handler", "conductor.client.telemetry.process_telemetry", "uvloop"):
    try:
        import_module(name)
    except ImportError:
        continue  # not installed, not needed
load_library()

# The collector would write into every object, and so give each child a copy of its own.
gc.collect()
gc.freeze()

# A service manager signals the whole group. A fork server that ended then would make its living children look dead.
if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _server = os.getpid()

    def _obey_again() -> None:
        if os.getppid() == _server:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=_obey_again)
