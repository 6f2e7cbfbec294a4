"""Finished workflows are removed by age and by number; running ones never."""

from __future__ import annotations

import asyncio

import pytest

from conductor.coordinator.core import RESTART_TASK_S, Core
from conductor.coordinator.store import retention as retention_module
from conductor.coordinator.store.retention import Limits, Retention
from tests.unit.coordinator.core_harness import Harness

TABLES = ("workflow", "workflow_data", "task", "task_data", "task_log", "snapshot")


def counts(harness: Harness) -> dict[str, int]:
    return {
        table: harness.store.call(lambda tx, table=table: tx.select(f"SELECT count(*) FROM {table}", ()))[0][0]  # type: ignore[misc]
        for table in TABLES
    }


def finish(harness: Harness) -> str:
    workflow = harness.start_one()
    harness.report(harness.poll_one(), logs=[{"log": "done"}])
    return workflow


async def test_finished_workflows_are_removed_by_age(harness: Harness) -> None:
    finish(harness)
    running = harness.start_one("other")
    harness.clock.advance(60)
    young = finish(harness)
    retention = Retention(harness.store, harness.clock, Limits(age_s=100))
    assert await retention.sweep() == 40
    assert counts(harness)["workflow"] == 3
    harness.clock.advance(41)
    assert await retention.sweep() == 59
    assert harness.workflow(running)["status"] == "RUNNING"
    assert harness.workflow(young)["status"] == "COMPLETED"
    assert counts(harness)["workflow"] == 2


async def test_finished_workflows_are_removed_by_number_oldest_first(harness: Harness) -> None:
    ids = []
    for _ in range(120):
        harness.clock.advance(1)
        ids.append(finish(harness))
    retention = Retention(harness.store, harness.clock, Limits(count=10))
    assert await retention.sweep() is None
    kept = harness.store.call(
        lambda tx: [tx.ids.workflow(row[0]) for row in tx.select("SELECT pk FROM workflow ORDER BY pk", ())]
    )
    assert kept == ids[-10:]


async def test_nothing_of_a_removed_workflow_stays(harness: Harness) -> None:
    finish(harness)
    harness.clock.advance(2)
    await Retention(harness.store, harness.clock, Limits(age_s=1)).sweep()
    assert set(counts(harness).values()) == {0}


async def test_the_same_definition_can_be_started_after_its_last_workflow_is_gone(harness: Harness) -> None:
    finish(harness)
    harness.clock.advance(2)
    await Retention(harness.store, harness.clock, Limits(age_s=1)).sweep()
    assert harness.workflow(finish(harness))["status"] == "COMPLETED"


async def test_a_transaction_ends_after_its_time_and_the_next_one_continues(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "TURN_S", 0.0)
    for _ in range(5):
        finish(harness)
    harness.clock.advance(2)
    retention = Retention(harness.store, harness.clock, Limits(age_s=1))
    assert harness.store.call(retention.step)
    assert counts(harness)["workflow"] == 4
    await retention.sweep()
    assert counts(harness)["workflow"] == 0


async def test_the_retention_continues_after_an_unexpected_error(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sweeps = 0

    async def sweep(self: Retention) -> float | None:
        nonlocal sweeps
        sweeps += 1
        if sweeps == 1:
            raise ValueError("unexpected")
        return None

    monkeypatch.setattr(Retention, "sweep", sweep)
    core = Core(harness.store, harness.clock, Limits(age_s=1))
    await core.start()
    while "Background task failed: name=retention" not in caplog.text:
        await asyncio.sleep(0)
    while sweeps < 2:
        harness.clock.advance(RESTART_TASK_S)
        await asyncio.sleep(0)
    await core.stop()
