"""The customers of the demo's shop: start a workflow for each order, wait for its end, and cancel one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models.workflow import Workflow
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.demo.shop import Order, is_cancelled, make_request, orders

#: Number of concurrent orders.
CONCURRENT_ORDERS = 40
#: All orders must end within this time, in seconds.
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class OrderOutcome:
    """An order and its ended workflow."""

    order: Order
    expected: str
    workflow: Workflow

    @property
    def as_expected(self) -> bool:
        return self.workflow.status == self.expected


@dataclass(slots=True)
class Day:
    """All orders of the day."""

    count: int
    outcomes: list[OrderOutcome] = field(default_factory=list)

    @property
    def as_expected(self) -> bool:
        """Whether every order ended as expected."""
        return len(self.outcomes) == self.count and all(outcome.as_expected for outcome in self.outcomes)


async def run_day(configuration: Configuration, count: int) -> Day:
    """Place all orders, `CONCURRENT_ORDERS` at a time, and wait until each has ended. Return the outcomes."""
    day = Day(count)
    slots = asyncio.Semaphore(CONCURRENT_ORDERS)
    with _progress(count) as advance:
        async with AsyncWorkflowClient(configuration) as workflows:

            async def customer(order: Order, expected: str) -> None:
                async with slots:
                    workflow = await _follow(workflows, order)
                day.outcomes.append(OrderOutcome(order, expected, workflow))
                advance()

            try:
                async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as customers:
                    for order, expected in orders(count):
                        customers.create_task(customer(order, expected))
            except TimeoutError:
                print(f"After {TIMEOUT_S:.0f} s, {count - len(day.outcomes)} orders have not ended", flush=True)
    return day


async def _follow(workflows: AsyncWorkflowClient, order: Order) -> Workflow:
    workflow_id = await workflows.start_workflow(make_request(order))
    if is_cancelled(order):
        await _cancel(workflows, workflow_id)
    delay_s = 0.05
    while not (await workflows.get_workflow_status(workflow_id)).is_terminal:
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 1.5, 0.5)
    return await workflows.get_workflow(workflow_id)


async def _cancel(workflows: AsyncWorkflowClient, workflow_id: str) -> None:
    """Wait until a worker runs the delivery, then terminate the workflow."""
    while True:
        trip = (await workflows.get_workflow(workflow_id)).task("ship")
        if trip is not None and trip.status == "IN_PROGRESS":
            break
        await asyncio.sleep(0.1)
    await workflows.terminate_workflow(workflow_id, "the customer has changed their mind")


@contextmanager
def _progress(count: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal, and a line for every tenth of the orders elsewhere."""
    if not sys.stdout.isatty():
        yield _Lines(count).advance
        return
    columns = (TextColumn("orders"), BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        bar = progress.add_task("orders", total=count)
        yield lambda: progress.advance(bar)


class _Lines:
    def __init__(self, count: int) -> None:
        self._count = count
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        step = max(1, self._count // 10)
        if self._done % step == 0 or self._done == self._count:
            print(f"{self._done} of {self._count} orders have ended", flush=True)
