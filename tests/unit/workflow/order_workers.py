"""Workers for the tests of workflows in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from conductor.client.worker.worker_task import worker_task


@dataclass
class Quote:
    total: float
    name: str = "quote"


@dataclass
class Payment:
    status: Literal["paid", "refused"]
    receipt: str
    quotes: list[Quote]


class Sent(TypedDict):
    to: str


@worker_task(task_definition_name="quote")
def quote(sku: str, count: int = 1) -> Quote:
    return Quote(10.0 * count)


@worker_task(task_definition_name="charge")
async def charge(order_id: str, amount: float) -> Payment:
    return Payment("paid" if amount < 100 else "refused", f"R-{order_id}", [Quote(amount)])


@worker_task(task_definition_name="notify")
def notify(to: str, text: str = "") -> Sent:
    return {"to": to}


@worker_task(task_definition_name="label")
def label(address: str) -> str:
    return f"to {address}"


@worker_task(task_definition_name="anything")
def anything(**given: Any):  # type: ignore[no-untyped-def]
    return given


@worker_task(task_definition_name="fails")
def fails() -> dict[str, Any]:
    raise RuntimeError("no paper")


def not_a_worker(x: int) -> int:
    return x
