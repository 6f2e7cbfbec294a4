"""A task costs no more than it is allowed to: statements, commits, requests, callbacks, memory. No clock decides.

A change that makes a task more expensive says so in this table; one that makes it cheaper lowers the figure. With
`-rP`, or when it fails, the test prints the counts beside the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

import pytest

from conductor.coordinator.store.statements import LAST_KEY
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.store.writer import Store
from tests.unit.cli.program import CLI, Program, url_in
from tests.unit.cost_counters import (
    Cost,
    CountedCoordinator,
    Counter,
    cheapest,
    coroutine,
    cost_of_worker,
    costs_of_coordinator,
    counted_worker,
    function,
)

T = TypeVar("T")

#: The budget per task. All but the blocks is exact where requests come one after the other; a worker's own
#: figures have a little room, but less than for one more of anything in each task.
AT_THE_COORDINATOR = {
    "start": Cost(statements=4, commits=1, callbacks=5),
    "poll of 50": Cost(statements=1.02, commits=0.02, callbacks=0.1),
    "poll of 10": Cost(statements=1.1, commits=0.1, callbacks=0.5),
    "poll of 1": Cost(statements=2, commits=1, callbacks=5),
    "report of 50": Cost(statements=3, commits=0.02, callbacks=0.1),
    "report of 10": Cost(statements=3, commits=0.1, callbacks=0.5),
    "report of 1": Cost(statements=3, commits=1, callbacks=5),
    "start that a parked poll waits for": Cost(statements=7, commits=2, callbacks=15),
    "whole task, batches of 50": Cost(statements=9.02, commits=1.04, callbacks=5.2, blocks=30),
    "whole task, batches of 10": Cost(statements=9.1, commits=1.2, callbacks=6, blocks=30),
}
#: A worker holds no more tasks than it has slots: the tasks that come with an answer are written together, and few come
#: with each answer where there are few slots.
AT_THE_WORKER = {
    "async def, 50 at once": Cost(requests=0.04, writes=0.06, callbacks=2.4, blocks=20),
    "def, 10 at once": Cost(requests=0.2, writes=0.4, callbacks=4.2, blocks=25),
}


def table(counted: dict[str, Cost], budgets: dict[str, Cost]) -> str:
    """Return the counts, with the budget in brackets."""
    names = [field.name for field in fields(Cost)]
    rows = [f"{'per task: counted (allowed)':36}" + "".join(f"{name:>16}" for name in names)]
    for row, cost in counted.items():
        cells = [f"{getattr(cost, name):g} ({getattr(budgets[row], name):g})" for name in names]
        rows.append(f"{row:36}" + "".join(f"{'–' if cell == '0 (0)' else cell:>16}" for cell in cells))
    return "\n".join(rows)


def over(counted: dict[str, Cost], budgets: dict[str, Cost]) -> dict[str, Any]:
    """The rows that cost too much, and what of them does."""
    found = {row: cost.over(budgets[row]) for row, cost in counted.items()}
    return {row: columns for row, columns in found.items() if columns}


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountedCoordinator]:
    with CountedCoordinator(Counter(), monkeypatch) as found:
        yield found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A coordinator in a process of its own: what this one counts is the worker's alone."""
    command = [*CLI, "serve", "--port", "0", "--database", ":memory:"]
    with Program(command, tmp_path_factory.mktemp("costs")) as program:
        yield url_in(program.line_with("Coordinator at"))


# -- the coordinator


def test_a_task_costs_the_coordinator_no_more_than_its_budget(coordinator: CountedCoordinator) -> None:
    counted = cheapest(lambda: costs_of_coordinator(coordinator), AT_THE_COORDINATOR)
    print(table(counted, AT_THE_COORDINATOR))
    assert over(counted, AT_THE_COORDINATOR) == {}


def test_one_statement_more_in_a_transaction_is_over_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Store.write

    async def dearer(self: Store, fn: Callable[[Tx], T], work: int = 1) -> T:
        def with_one_more(tx: Tx) -> T:
            tx.first(LAST_KEY, "task")
            return fn(tx)

        return await write(self, with_one_more, work)

    monkeypatch.setattr(Store, "write", dearer)
    with CountedCoordinator(Counter(), monkeypatch) as coordinator:
        counted = cheapest(lambda: costs_of_coordinator(coordinator), AT_THE_COORDINATOR, runs=1)
    assert {row for row, columns in over(counted, AT_THE_COORDINATOR).items() if "statements" in columns} == {
        *AT_THE_COORDINATOR
    }


@pytest.mark.slow
def test_one_commit_more_is_over_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Store.write

    async def dearer(self: Store, fn: Callable[[Tx], T], work: int = 1) -> T:
        await write(self, lambda _: None)
        return await write(self, fn, work)

    monkeypatch.setattr(Store, "write", dearer)
    with CountedCoordinator(Counter(), monkeypatch) as coordinator:
        counted = cheapest(lambda: costs_of_coordinator(coordinator), AT_THE_COORDINATOR, runs=1)
    dearer_rows = over(counted, AT_THE_COORDINATOR)
    assert {row for row, columns in dearer_rows.items() if {"commits", "callbacks"} <= {*columns}} == {
        *AT_THE_COORDINATOR
    }


# -- the worker


def count_worker(url: str, monkeypatch: pytest.MonkeyPatch, row: str, call: Any, threads: int, runs: int = 10) -> Any:
    budgets = {row: AT_THE_WORKER[row]}
    with counted_worker(monkeypatch) as counter:
        counted = cheapest(lambda: {row: cost_of_worker(url, counter, call, threads)}, budgets, runs)
    print(table(counted, budgets))
    return over(counted, budgets)


@pytest.mark.parametrize(
    ("row", "call", "threads"),
    [("async def, 50 at once", coroutine, 50), ("def, 10 at once", function, 10)],
    ids=["async def", "def"],
)
def test_a_task_costs_the_worker_no_more_than_its_budget(
    url: str, monkeypatch: pytest.MonkeyPatch, row: str, call: Any, threads: int
) -> None:
    assert count_worker(url, monkeypatch, row, call, threads) == {}


def is_noticed(url: str, monkeypatch: pytest.MonkeyPatch, call: Any, what: str) -> bool:
    """Whether the guard finds it, in one run of a few: on a busy machine more tasks share a turn of the loop."""
    row = "async def, 50 at once"
    runs = (count_worker(url, monkeypatch, row, call, 50, runs=1) for _ in range(5))
    return any(what in found.get(row, {}) for found in runs)


def test_one_turn_of_the_loop_more_is_over_the_budget(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slower(n: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return await coroutine(n)

    assert is_noticed(url, monkeypatch, slower, "callbacks")


@pytest.mark.slow
def test_memory_that_a_task_leaves_behind_is_over_the_budget(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Any] = []

    async def hoarder(n: int) -> dict[str, int]:
        left.extend([object()] for _ in range(50))
        return await coroutine(n)

    assert is_noticed(url, monkeypatch, hoarder, "blocks")
