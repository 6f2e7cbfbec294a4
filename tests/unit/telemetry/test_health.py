"""P23: `/health` names a problem while it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductor.client.event.sync_event_dispatcher import SyncEventDispatcher
from conductor.client.event.task_runner_events import (
    PollCompleted,
    PollFailure,
    TaskUpdateCompleted,
    TaskUpdateRetried,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from conductor.client.telemetry.health import HealthLimits, HealthMonitor, WorkerHealth, WorkerState
from conductor.client.telemetry.metrics_directory import MetricsDirectory
from conductor.client.telemetry.process_telemetry import BEAT_S, ProcessTelemetry
from conductor.protocol.wire import Verdict
from conductor.testing import FakeClock

from .conftest import Child

LIMITS = HealthLimits()
IDS = ("t", "task-1", "worker-1", "workflow-1")


class Refused(Exception):
    status = 401


class World:
    """A parent with its health, and a worker `t`, on one clock."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.directory = MetricsDirectory(path, self.clock.monotonic)
        self.health = HealthMonitor(self.directory, self.clock)
        self.child: ProcessTelemetry | None = None

    def start(self) -> ProcessTelemetry:
        self.health.record_process_start("t")
        self.child = ProcessTelemetry(self.directory.place, "t", self.clock)
        self.publish(WorkerStarted("t", "worker-1", 1))
        self.child.health.beat()
        return self.child

    def publish(self, event: Any) -> None:
        assert self.child is not None
        SyncEventDispatcher(self.child.listeners).publish(event)

    def polled(self) -> None:
        self.publish(PollCompleted("t", 1.0, 0))

    def crash(self, code: int = 1) -> None:
        assert self.child is not None
        self.child.close()
        self.health.record_process_exit("t", code)

    def worker(self) -> WorkerHealth:
        (worker,) = self.health.report().workers
        return worker

    def assert_well(self) -> None:
        assert self.worker().reasons == []
        assert self.health.report().healthy

    def assert_ill(self, state: WorkerState, reason: str) -> None:
        worker = self.worker()
        assert worker.state is state
        assert reason in "; ".join(worker.reasons)
        assert not self.health.report().healthy
        assert not self.health.report().ready


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_worker_that_polls_is_well_and_ready(world: World) -> None:
    world.health.record_process_start("t")
    assert world.worker().state is WorkerState.STARTING
    world.start()
    assert world.worker().state is WorkerState.RUNNING
    assert not world.health.report().ready
    world.polled()
    world.clock.advance(3)
    world.assert_well()
    assert world.health.report().ready
    assert world.worker().last_poll_s_ago == 3


def test_no_workers_are_well(world: World) -> None:
    assert world.health.report().healthy
    assert world.health.report().to_dict() == {"status": "UP", "ready": True, "workers": []}


def test_server_gone_and_back(world: World) -> None:
    world.start()
    world.polled()
    for _ in range(LIMITS.unreachable_after_failures):
        world.assert_well()
        world.publish(PollFailure("t", 1.0, ConnectionError("connection refused")))
    world.assert_ill(WorkerState.UNREACHABLE, "the last 3 requests failed (ConnectionError: connection refused)")
    world.polled()
    world.assert_well()


def test_server_gone_while_all_slots_are_being_reported(world: World) -> None:
    world.start()
    for attempt in range(3):
        world.publish(TaskUpdateRetried(*IDS, cause=ConnectionError("refused"), attempt=attempt, delay_s=10.0))
    world.assert_ill(WorkerState.UNREACHABLE, "ConnectionError")
    world.publish(TaskUpdateCompleted(*IDS, verdict=Verdict.COMMITTED, inferred=False, attempts=4, duration_ms=1.0))
    world.assert_well()


def test_wrong_credentials_and_right_ones(world: World) -> None:
    world.start()
    world.publish(PollFailure("t", 1.0, Refused("INVALID_TOKEN")))
    world.assert_ill(WorkerState.REFUSED, "the server rejects its credentials (Refused: INVALID_TOKEN)")
    world.polled()
    world.assert_well()


def test_a_refusal_that_turns_into_silence(world: World) -> None:
    world.start()
    world.publish(PollFailure("t", 1.0, Refused("INVALID_TOKEN")))
    world.publish(PollFailure("t", 1.0, ConnectionError("refused")))
    world.publish(PollFailure("t", 1.0, ConnectionError("refused")))
    world.assert_ill(WorkerState.UNREACHABLE, "the last 3 requests failed")


def test_a_dead_child_and_its_successor(world: World) -> None:
    world.start()
    world.polled()
    world.crash(-9)
    world.assert_ill(WorkerState.DEAD, "its process has ended (SIGKILL)")
    world.start()
    world.polled()
    world.assert_well()
    assert world.worker().restarts == 1


def test_a_child_that_dies_again_and_again(world: World) -> None:
    for _ in range(LIMITS.crashes):
        world.start()
        world.clock.advance(1)
        world.crash(3)
        world.assert_ill(WorkerState.DEAD, "its process has ended (status 3)")
    child = world.start()
    world.polled()
    world.assert_ill(WorkerState.DEAD, "its process keeps ending: 3 times in 60 s")
    world.clock.advance(LIMITS.settled_after_s)
    child.health.beat()
    world.assert_well()


def test_old_crashes_are_forgiven(world: World) -> None:
    for _ in range(LIMITS.crashes):
        world.start()
        world.crash()
        world.clock.advance(LIMITS.crash_window_s)
    world.start()
    world.assert_well()


def test_a_child_that_never_begins(world: World) -> None:
    world.health.record_process_start("t")
    world.clock.advance(LIMITS.start_within_s + 1)
    world.assert_ill(WorkerState.DEAD, "its process has not started to work within 61 s")


def test_a_blocked_loop_and_a_free_one(world: World) -> None:
    child = world.start()
    world.polled()
    world.clock.advance(LIMITS.blocked_after_s + 1)
    world.assert_ill(WorkerState.STUCK, "its event loop has been blocked for 11 s")
    child.health.beat()
    world.assert_well()


def test_a_really_blocked_process_is_seen(tmp_path: Path, child: Callable[..., Child]) -> None:
    directory = MetricsDirectory(tmp_path)
    health = HealthMonitor(directory, limits=HealthLimits(blocked_after_s=0.05))
    health.record_process_start("t")
    blocked = child(directory.place, "health.beat(); say('blocking'); told()", "t")
    assert blocked.heard() == "blocking"
    while health.report().healthy:
        pass
    (worker,) = health.report().workers
    assert worker.state is WorkerState.STUCK


def test_a_function_past_its_timeout(world: World) -> None:
    child = world.start()
    child.set_stuck("t", 2)
    world.assert_ill(WorkerState.STUCK, "2 task(s) run past their timeout")
    assert world.directory.totals().gauges["worker_stuck_tasks", "t"] == 2
    child.set_stuck("t", 0)
    world.assert_well()


def test_every_reason_is_named(world: World) -> None:
    child = world.start()
    child.set_stuck("t", 1)
    world.publish(PollFailure("t", 1.0, Refused("no")))
    assert len(world.worker().reasons) == 2


def test_paused_is_well_and_ready(world: World) -> None:
    child = world.start()
    child.set_paused("t", True)
    assert world.worker().state is WorkerState.PAUSED
    assert world.health.report().ready
    child.set_paused("t", False)
    assert world.worker().state is WorkerState.RUNNING


def test_a_worker_at_capacity_for_hours_is_well(world: World) -> None:
    child = world.start()
    world.polled()
    world.clock.advance(3 * 3600)
    child.health.beat()
    world.assert_well()


def test_a_stopping_worker_is_healthy(world: World) -> None:
    world.start()
    world.publish(WorkerStopping("t", "worker-1", 1))
    assert world.worker().state is WorkerState.STOPPING
    world.publish(WorkerStopped("t", "worker-1", 0))
    world.clock.advance(100)
    world.assert_well()


def test_many_workers_in_one_process_are_told_apart(tmp_path: Path) -> None:
    clock = FakeClock()
    directory = MetricsDirectory(tmp_path, clock.monotonic)
    health = HealthMonitor(directory, clock)
    process = ProcessTelemetry(directory.place, clock=clock)
    for name in ("a", "b"):
        health.expect(name)
        process.health.on_worker_started(WorkerStarted(name, "w", 1))
    process.health.beat()
    process.health.on_poll_failure(PollFailure("a", 1.0, Refused("no")))
    assert {worker.worker: worker.state for worker in health.report().workers} == {
        "a": WorkerState.REFUSED,
        "b": WorkerState.RUNNING,
    }


async def test_the_pulse_beats_and_measures_the_lag(world: World) -> None:
    child = world.start()
    pulse = asyncio.create_task(child.pulse())
    await world.clock.until_sleeping()
    world.clock.advance(BEAT_S + 0.5)
    await world.clock.until_sleeping()
    pulse.cancel()
    totals = world.directory.totals()
    assert totals.counters["worker_event_loop_lag_seconds_count", "t"] == 1
    assert totals.counters["worker_event_loop_lag_seconds_sum", "t"] == pytest.approx(0.5)
    world.assert_well()
