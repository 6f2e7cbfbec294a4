from __future__ import annotations

from collections.abc import Iterator

import pytest

from conductor.testing import FakeClock
from tests.contract.either_server import EitherServer, Real, Stub, Task


@pytest.fixture(params=[Stub, Real], ids=["stub", "coordinator"])
def server(request: pytest.FixtureRequest) -> Iterator[EitherServer]:
    made: EitherServer = request.param(FakeClock())
    yield made
    made.stop()


@pytest.fixture
def task(server: EitherServer) -> Task:
    """A task in the hands of w1."""
    server.add_task()
    return server.take()
