"""Fixtures for tests of workers and workflows; pytest finds them once the package is installed.

Each fixture imports its part of the package on first use, so that test suites without these fixtures load nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conductor.client.orkes_clients import OrkesClients
    from conductor.coordinator import Coordinator
    from conductor.testing.fake_clock import FakeClock
    from conductor.testing.replay import WorkerKiller
    from conductor.testing.stub import ConductorStub
    from conductor.testing.workflow_run import WorkflowBench


@pytest.fixture
def conductor_stub() -> Iterator[ConductorStub]:
    """Provide a running `ConductorStub` and stop it after the test."""
    from conductor.testing.stub import ConductorStub

    with ConductorStub() as stub:
        yield stub


@pytest.fixture
def fake_clock() -> FakeClock:
    """Provide a `FakeClock` that stands still until the test advances it."""
    from conductor.testing.fake_clock import FakeClock

    return FakeClock()


@pytest.fixture
def coordinator(fake_clock: FakeClock) -> Iterator[Coordinator]:
    """Provide a coordinator in memory that listens on a free port and uses `fake_clock`. Needs the `server` extra."""
    from conductor.coordinator import Coordinator

    with Coordinator(clock=fake_clock) as running:
        yield running
        fake_clock.advance(3600)  # wake all sleepers, so that the coordinator can stop


@pytest.fixture
def conductor_clients(coordinator: Coordinator) -> OrkesClients:
    """Provide the clients of `coordinator`."""
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.orkes_clients import OrkesClients

    return OrkesClients(Configuration(coordinator.url))


@pytest.fixture
def kill_worker() -> Iterator[WorkerKiller]:
    """Provide an object that kills the worker of a durable task between two steps of the test.

    Example: `kill_worker.after_step(2)`.
    """
    from conductor.testing.replay import WorkerKiller, install_killer

    killer = WorkerKiller()
    install_killer(killer)
    yield killer
    install_killer(None)


@pytest.fixture
def run_workflow(coordinator: Coordinator, fake_clock: FakeClock) -> Iterator[WorkflowBench]:
    """Provide a function that runs a workflow on `coordinator` until it ends or waits.

    Example: `run_workflow(order, {"id": 1}, mocks={...})`.
    """
    from conductor.testing.workflow_run import WorkflowBench

    bench = WorkflowBench(coordinator.url, fake_clock)
    yield bench
    bench.close()
