"""Two workers and a workflow, to be replaced by your own: `conductor-worker run orders` in this folder runs them."""

from __future__ import annotations

from conductor import TaskDef, worker_task
from conductor.client.workflow import step, workflow


@worker_task(
    task_definition_name="price_order", thread_count=10, register_task_def=True, task_def=TaskDef(retry_count=3)
)
def price_order(item: str, pieces: int = 1) -> dict[str, int]:
    """Return the price of an order."""
    return {"cents": 1999 * pieces if item else 0}


@worker_task(
    task_definition_name="charge_order", thread_count=50, register_task_def=True, task_def=TaskDef(retry_count=5)
)
async def charge_order(cents: int) -> dict[str, str]:
    """Return the receipt of a payment. A real worker would call a bank here."""
    return {"receipt": f"R-{cents}"}


with workflow("order", inputs={"item": str, "pieces": int}) as order:
    price = price_order(item=order.input("item"), pieces=order.input("pieces"))
    paid = step(charge_order, "charge")(cents=price["cents"])
    order.returns(receipt=paid["receipt"])
