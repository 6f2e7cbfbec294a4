"""Finished workflows are forgotten by age and by number; running ones never."""

from __future__ import annotations

from house import House

from conductor.coordinator.store.retention import Limits, Retention

TABLES = ("workflow", "workflow_data", "task", "task_data", "task_log", "snapshot")


def counts(house: House) -> dict[str, int]:
    return {
        table: house.store.call(lambda tx, table=table: tx.select(f"SELECT count(*) FROM {table}", ()))[0][0]  # type: ignore[misc]
        for table in TABLES
    }


def finish(house: House) -> str:
    workflow = house.start_one()
    house.report(house.poll_one(), logs=[{"log": "done"}])
    return workflow


async def test_by_age(house: House) -> None:
    finish(house)
    running = house.start_one("other")
    house.clock.advance(60)
    young = finish(house)
    retention = Retention(house.store, house.clock, Limits(age_s=100))
    assert await retention.sweep() == 40
    assert counts(house)["workflow"] == 3
    house.clock.advance(41)
    assert await retention.sweep() == 59
    assert house.workflow(running)["status"] == "RUNNING"
    assert house.workflow(young)["status"] == "COMPLETED"
    assert counts(house)["workflow"] == 2


async def test_by_number_the_oldest_go_first(house: House) -> None:
    ids = []
    for _ in range(120):
        house.clock.advance(1)
        ids.append(finish(house))
    retention = Retention(house.store, house.clock, Limits(count=10))
    assert await retention.sweep() is None
    kept = house.store.call(
        lambda tx: [tx.ids.workflow(row[0]) for row in tx.select("SELECT pk FROM workflow ORDER BY pk", ())]
    )
    assert kept == ids[-10:]


async def test_nothing_of_a_removed_workflow_stays(house: House) -> None:
    finish(house)
    house.clock.advance(2)
    await Retention(house.store, house.clock, Limits(age_s=1)).sweep()
    assert set(counts(house).values()) == {0}


async def test_the_same_definition_can_be_started_after_its_last_workflow_is_gone(house: House) -> None:
    finish(house)
    house.clock.advance(2)
    await Retention(house.store, house.clock, Limits(age_s=1)).sweep()
    assert house.workflow(finish(house))["status"] == "COMPLETED"
