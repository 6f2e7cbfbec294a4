"""Imports the modules that every worker process needs. The fork server runs this, so that all processes share them."""

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
        continue  # an optional package that is not installed
load_library()

# Exclude all objects from garbage collection. A collection in a child writes into every object, so that the child would
# get its own copy of the memory pages that all processes share.
gc.collect()
gc.freeze()

# A service manager signals the whole process group. If the signal ended the fork server, its living children would be
# reported as dead.
if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _server = os.getpid()

    def _restore_sigterm() -> None:
        if os.getppid() == _server:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=_restore_sigterm)
