"""A small shop: five workers, their workflow, and the orders of a day.

Some things go wrong: the bank does not always answer, some orders are invalid, one delivery takes longer than the
response timeout, and one customer cancels an order during its delivery.
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
#: The response timeout of the shipping task.
RESPONSE_TIMEOUT_S = 4
#: Duration of a delivery that is longer than the response timeout, so it needs heartbeats.
HEAVY_TRIP_S = 6.0
#: Duration of the delivery that the customer cancels.
CANCELLED_TRIP_S = 60.0


@dataclass
class Order:
    """The order of a customer."""

    number: int
    item: str
    pieces: int
    trip_s: float = 0.005
    bank_answers: bool = True


@worker_task("demo_shop_validate", thread_count=10)
def validate(order: Order) -> dict[str, int]:
    """Reject an order without pieces. A retry cannot help, so the error is not retryable."""
    if order.pieces < 1:
        raise NonRetryableException(f"order {order.number} is for {order.pieces} pieces")
    return {"cents": order.pieces * 1999}


@worker_task("demo_shop_charge", thread_count=20)
async def charge(order: Order, cents: int) -> dict[str, str]:
    """Charge the customer. The bank fails at the first attempt of some orders, and the server retries the task."""
    await asyncio.sleep(0.01)
    if not order.bank_answers and get_task_context().retry_count == 0:
        raise ConnectionError("the bank does not answer")
    return {"receipt": f"R-{order.number}-{cents}"}


@worker_task("demo_shop_pack", thread_count=10)
def pack(order: Order) -> dict[str, str]:
    """Pack the order. This is blocking work, which runs in a thread."""
    time.sleep(0.005)
    return {"parcel": f"P-{order.number}"}


@worker_task("demo_shop_ship", thread_count=10, lease_extend_enabled=True)
def ship(order: Order, parcel: str) -> dict[str, str]:
    """Deliver the parcel. Heartbeats extend the lease of a long delivery; a cancelled order stops it."""
    context = get_task_context()
    if context.wait_cancelled(order.trip_s):
        context.raise_if_cancelled()
    context.add_log(f"the delivery of {parcel} took {order.trip_s} s")
    return {"tracking": f"T-{parcel}"}


@worker_task("demo_shop_notify", thread_count=20)
async def notify(order: Order, tracking: str) -> str:
    """Write the message to the customer. The returned text becomes the output `{"result": …}`."""
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
    description="An order, from the validation to the message to the customer.",
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
    """Return the orders of a day, each with the status that its workflow must end with."""
    yield Order(1, "piano", 1, trip_s=HEAVY_TRIP_S), "COMPLETED"
    yield Order(2, "holiday", 1, trip_s=CANCELLED_TRIP_S), "TERMINATED"
    for number in range(3, count + 1):
        if number % 50 == 3:
            yield Order(number, "hot air", 0), "FAILED"
        else:
            yield Order(number, "lamp", 1 + number % 4, bank_answers=number % 10 != 4), "COMPLETED"


def is_cancelled(order: Order) -> bool:
    """Return whether the customer cancels the order during its delivery."""
    return order.trip_s == CANCELLED_TRIP_S


def make_request(order: Order) -> StartWorkflowRequest:
    """Return the request that starts the workflow of an order."""
    return StartWorkflowRequest(name=WORKFLOW, correlation_id=f"order-{order.number}", input={"order": asdict(order)})


async def register(configuration: Configuration) -> None:
    """Register the task definitions and the workflow definition, replacing older ones."""
    async with AsyncMetadataClient(configuration) as metadata:
        await metadata.register_task_defs([*TASK_DEFS])
        await metadata.register_workflow_def(WORKFLOW_DEF, overwrite=True)
