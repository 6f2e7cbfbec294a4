"""A small shop: five workers, the workflow that joins them, and the orders that come in.

Some things go wrong, as in life: the bank does not always answer, some orders make no sense, one parcel takes far
longer than a worker may be silent, and one customer calls an order off while it is on its way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from conductor.client.configuration.configuration import Configuration
from conductor.client.context.task_context import get_task_context
from conductor.client.http.models.start_workflow_request import StartWorkflowRequest
from conductor.client.http.models.task_def import TaskDef
from conductor.client.http.models.workflow_def import WorkflowDef
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.metadata_client import AsyncMetadataClient
from conductor.client.worker.exception import NonRetryableException
from conductor.client.worker.worker_task import worker_task

WORKFLOW = "demo_shop"
#: A shipping worker that is silent for this long has lost its parcel …
RESPONSE_TIMEOUT_S = 4
#: … unless it sends heartbeats: the heavy one takes longer.
HEAVY_TRIP_S = 6.0
#: Nobody waits for the parcel that is called off; it would take this long.
CALLED_OFF_TRIP_S = 60.0


@dataclass
class Order:
    """What a customer wants."""

    number: int
    item: str
    pieces: int
    trip_s: float = 0.005
    bank_answers: bool = True


@worker_task("demo_shop_validate", thread_count=10)
def validate(order: Order) -> dict[str, int]:
    """An order for nothing is wrong however often it is tried."""
    if order.pieces < 1:
        raise NonRetryableException(f"order {order.number} is for {order.pieces} pieces")
    return {"cents": order.pieces * 1999}


@worker_task("demo_shop_charge", thread_count=20)
async def charge(order: Order, cents: int) -> dict[str, str]:
    """Failing once is not failing: the server tries again as the task definition says."""
    await asyncio.sleep(0.01)
    if not order.bank_answers and get_task_context().retry_count == 0:
        raise ConnectionError("the bank does not answer")
    return {"receipt": f"R-{order.number}-{cents}"}


@worker_task("demo_shop_pack", thread_count=10)
def pack(order: Order) -> dict[str, str]:
    """Plain blocking work: it runs in a thread."""
    time.sleep(0.005)
    return {"parcel": f"P-{order.number}"}


@worker_task("demo_shop_ship", thread_count=10, lease_extend_enabled=True)
def ship(order: Order, parcel: str) -> dict[str, str]:
    """May take longer than the response timeout, for heartbeats keep the task; stops when the order is called off."""
    context = get_task_context()
    if context.wait_cancelled(order.trip_s):
        context.raise_if_cancelled()
    context.add_log(f"{parcel} was on its way for {order.trip_s} s")
    return {"tracking": f"T-{parcel}"}


@worker_task("demo_shop_notify", thread_count=20)
async def notify(order: Order, tracking: str) -> str:
    """Any value will do: this one becomes {"result": …}."""
    return f"order {order.number}, {order.pieces} x {order.item}: {tracking}"


WORKERS: list[Callable[..., Any]] = [validate, charge, pack, ship, notify]

TASK_DEFS = [
    TaskDef(
        name=f"demo_shop_{step}",
        retry_count=3,
        retry_delay_seconds=1,
        response_timeout_seconds=RESPONSE_TIMEOUT_S if step == "ship" else 30,
        timeout_seconds=120,
        owner_email="demo@example.com",
    )
    for step in ("validate", "charge", "pack", "ship", "notify")
]


def _step(name: str, **inputs: str) -> WorkflowTask:
    return WorkflowTask(
        name=f"demo_shop_{name}",
        task_reference_name=name,
        input_parameters={"order": "${workflow.input.order}", **inputs},
    )


WORKFLOW_DEF = WorkflowDef(
    name=WORKFLOW,
    description="An order, from the click to the message that it is on its way.",
    owner_email="demo@example.com",
    tasks=[
        _step("validate"),
        _step("charge", cents="${validate.output.cents}"),
        _step("pack"),
        _step("ship", parcel="${pack.output.parcel}"),
        _step("notify", tracking="${ship.output.tracking}"),
    ],
    output_parameters={"receipt": "${charge.output.receipt}", "message": "${notify.output.result}"},
)


def orders(count: int) -> Iterator[tuple[Order, str]]:
    """The orders of a day, each with the status in which it must end."""
    yield Order(1, "piano", 1, trip_s=HEAVY_TRIP_S), "COMPLETED"
    yield Order(2, "holiday", 1, trip_s=CALLED_OFF_TRIP_S), "TERMINATED"
    for number in range(3, count + 1):
        if number % 50 == 3:
            yield Order(number, "hot air", 0), "FAILED"
        else:
            yield Order(number, "lamp", 1 + number % 4, bank_answers=number % 10 != 4), "COMPLETED"


def called_off(order: Order) -> bool:
    """Whether the customer changes their mind while the parcel is on its way."""
    return order.trip_s == CALLED_OFF_TRIP_S


def request_for(order: Order) -> StartWorkflowRequest:
    """What is sent to the server to start an order's workflow."""
    return StartWorkflowRequest(name=WORKFLOW, correlation_id=f"order-{order.number}", input={"order": asdict(order)})


async def register(configuration: Configuration) -> None:
    """Tell the server about the tasks and the workflow; what it had under these names is replaced."""
    async with AsyncMetadataClient(configuration) as metadata:
        await metadata.register_task_defs([*TASK_DEFS])
        await metadata.register_workflow_def(WORKFLOW_DEF, overwrite=True)
