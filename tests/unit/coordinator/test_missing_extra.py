"""The coordinator without its extra: one line that says how to get it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["httptools"] = None
try:
    import conductor.coordinator
except ModuleNotFoundError as error:
    print(error)
"""


def test_a_missing_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=200)
    assert done.stdout.strip() == "the coordinator needs httptools: pip install 'conductor-worker[server]'"
