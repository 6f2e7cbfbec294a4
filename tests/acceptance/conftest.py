"""Starts one server per target and session. All tests share it, each with its own names.

`--server NAME` (again for more) or CONDUCTOR_TARGETS=a,b selects targets; without either, all are run. A tool
that a target needs and this machine does not have is a skip at home and a failure in CI (CI=true).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.acceptance.api import Api
from tests.acceptance.server_session import Session
from tests.acceptance.servers.missing import Missing
from tests.acceptance.servers.targets import TARGETS, EmbeddedCoordinator, Target

_TIMES = pytest.StashKey[dict[str, tuple[float, float]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--server`."""
    parser.addoption(
        "--server", action="append", choices=list(TARGETS), help="run on this target only; may be repeated"
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker for tests that only some targets can pass, and a word about targets that do not exist."""
    _selected(config)
    config.addinivalue_line("markers", "targets(*names): run on these targets only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `target` runs on each of them, one server at a time."""
    if "target" not in metafunc.fixturenames:
        return
    mine = metafunc.definition.get_closest_marker("targets")
    names = [name for name in _selected(metafunc.config) if mine is None or name in mine.args]
    params = [pytest.param(name, marks=_marks(name, metafunc.config)) for name in names]
    metafunc.parametrize("target", params, indirect=True, scope="session")


def _selected(config: pytest.Config) -> list[str]:
    chosen = (
        config.getoption("server", default=None) or os.environ.get("CONDUCTOR_TARGETS", "").replace(",", " ").split()
    )
    unknown = set(chosen) - set(TARGETS)
    if unknown:
        raise pytest.UsageError(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    return [name for name in TARGETS if not chosen or name in chosen]


def _marks(name: str, config: pytest.Config) -> list[pytest.MarkDecorator]:
    # The coordinator is quick and needs nothing: it is part of the fast suite, too.
    fast = name == "coordinator" and "not conductor" in config.getoption("markexpr")
    return [] if fast else [pytest.mark.conductor]


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The server under test, started before its first test and stopped after its last."""
    server = TARGETS[request.param](tmp_path_factory.mktemp(request.param))
    began = time.monotonic()
    try:
        server.start()
        up = time.monotonic()
        yield server
    except Missing as missing:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
    finally:
        server.stop()
    times = request.config.stash.setdefault(_TIMES, {})
    times[request.param] = (up - began, time.monotonic() - began)


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCoordinator]:
    """A coordinator beside the real server, for tests that compare the two."""
    server = EmbeddedCoordinator(tmp_path_factory.mktemp("beside"))
    server.start()
    yield server
    server.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How long each target took: what can be afforded in CI is decided by these lines."""
    for name, (start_s, all_s) in terminalreporter.config.stash.get(_TIMES, {}).items():
        terminalreporter.write_line(f"{name}: {all_s:.0f} s, of which {start_s:.0f} s to start the server")


@pytest.fixture
async def session(target: Target) -> AsyncIterator[Session]:
    """Clients of the server, workers for it, and names that no other test uses."""
    async with Session(target, f"t{secrets.token_hex(4)}") as found:
        yield found


@pytest.fixture
def api(target: Target) -> Iterator[Api]:
    """The server over REST."""
    with httpx.Client(base_url=target.url, timeout=60) as client:
        yield Api(client)
