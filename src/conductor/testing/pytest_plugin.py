"""Fixtures for tests of workers; pytest finds them by itself once the package is installed.

Nothing of the package is imported before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conductor.client.orkes_clients import OrkesClients
    from conductor.coordinator import Coordinator
    from conductor.testing.fake_clock import FakeClock
    from conductor.testing.stub import ConductorStub
    from conductor.testing.workflow_run import WorkflowBench


@pytest.fixture
def conductor_stub() -> Iterator[ConductorStub]:
    """A running `ConductorStub`, stopped after the test."""
    from conductor.testing.stub import ConductorStub

    with ConductorStub() as stub:
        yield stub


@pytest.fixture
def fake_clock() -> FakeClock:
    """A `FakeClock` that stands still until the test advances it."""
    from conductor.testing.fake_clock import FakeClock

    return FakeClock()


@pytest.fixture
def coordinator(fake_clock: FakeClock) -> Iterator[Coordinator]:
    """A coordinator in memory on a port of its own; its time is that of `fake_clock`. Needs the `server` extra."""
    from conductor.coordinator import Coordinator

    with Coordinator(clock=fake_clock) as running:
        yield running
        fake_clock.advance(3600)  # whatever is parked on the clock gets out of the way


@pytest.fixture
def conductor_clients(coordinator: Coordinator) -> OrkesClients:
    """The clients of `coordinator`."""
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.orkes_clients import OrkesClients

    return OrkesClients(Configuration(coordinator.url))


@pytest.fixture
def run_workflow(coordinator: Coordinator, fake_clock: FakeClock) -> Iterator[WorkflowBench]:
    """Runs a workflow on `coordinator`, as far as it goes by itself: `run_workflow(order, {"id": 1}, mocks={...})`."""
    from conductor.testing.workflow_run import WorkflowBench

    bench = WorkflowBench(coordinator.url, fake_clock)
    yield bench
    bench.close()
