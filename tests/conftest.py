"""Fixtures of every test: an environment without CONDUCTOR variables, and hypothesis without deadlines."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG, create_ssl_context
from httpx._transports import default as httpx_transports
from hypothesis import settings

from conductor.client.worker import registry

# Examples are the same in every run, so that a test does not fail by chance. To look for new ones:
# make test ARGS=--hypothesis-profile=random (and make test-slow). Tests with many more examples are marked slow.
settings.register_profile("same", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("random", deadline=None, max_examples=25)
settings.load_profile("same")
# A shell that runs the suite in the background has it ignore Ctrl-C, and with it every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The requests of a test wait as long as a busy machine needs; httpx alone would give up after five seconds.
for part in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, part, 60.0)
# The certificates of the world are read once, not by each client of a server on this machine.
setattr(httpx_transports, "create_ssl_context", cache(create_ssl_context))
# The directories of tests are in memory where there is room: they hold hundreds of databases, and a disk takes its time
# over each commit. PYTEST_DEBUG_TEMPROOT puts them elsewhere.
MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 << 30
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= ROOM_BYTES and not found.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
# Collecting makes a million objects that stay: looking through them again and again is a third of its time, four times.
gc.disable()


def pytest_collection_finish() -> None:
    """Keep the collected objects out of further garbage collections: they stay to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def _state_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory for each test, made when it is written to. `mktemp` would look through those of all tests so far."""
    home = tmp_path_factory.mktemp("state")
    return (home / str(number) for number in count())


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch, _state_homes: Iterator[Path]) -> None:
    for name in [name for name in os.environ if name.lower().startswith("conductor")]:
        monkeypatch.delenv(name)
    # Each test has its own journal, and no home directory is written to.
    home = next(_state_homes)
    monkeypatch.setenv("CONDUCTOR_WORKER_JOURNAL_DIR", str(home / "journal"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    """Clear the registry of decorated workers before and after each test."""
    registry.clear()
    yield
    registry.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures that tests measured (`record_property("figures", text)`), also when they ran in another process."""
    for report in [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]:
        for text in [value for name, value in report.user_properties if name == "figures"]:
            terminalreporter.write_line(f"\n{report.nodeid}\n{text}")
