"""An order pipeline: fan-out, a sub-workflow, an approval, retries, an optional step, a schedule. Ends by itself.

With a server: `conductor-worker dev examples.order_pipeline`. `tests/unit/workflow/test_order_pipeline.py` tests it.
"""

from dataclasses import dataclass
from typing import Literal

from conductor import NonRetryableException, worker_task
from conductor.client.workflow import collect, each, step, switch, wait, workflow


@dataclass
class Line:
    sku: str
    pieces: int
    cents: int


@dataclass
class Order:
    id: str
    customer: str
    address: str
    lines: list[Line]


@dataclass
class Check:
    cents: int
    verdict: Literal["small", "large"]


@worker_task("check_order")
def check_order(order: Order) -> Check:
    if not order.lines:
        raise NonRetryableException(f"order {order.id} has no lines")
    cents = sum(line.pieces * line.cents for line in order.lines)
    return Check(cents, "large" if cents > 100_000 else "small")


@worker_task("charge_card", retries=5, retry_delay_s=2, backoff="exponential", timeout_s=60)
async def charge_card(order_id: str, cents: int, api_key: str) -> str:
    if not api_key:
        raise NonRetryableException("the secret BANK_KEY is empty")
    return f"R-{order_id}-{cents}"


@worker_task("pack_line", thread_count=10)
def pack_line(sku: str, pieces: int) -> str:
    return f"{pieces} x {sku}"


@worker_task("book_van")
def book_van(parcels: list[str]) -> str:
    return f"van for {len(parcels)} parcels"


@worker_task("drive", thread_count=4, timeout_s=3600)
def drive(van: str, address: str) -> str:
    return f"{van} to {address}"


@worker_task("send_survey")
def send_survey(customer: str) -> None:
    raise ConnectionError(f"the mail server does not answer: no survey for {customer}")


@worker_task("refund")
def refund(order: Order, reason: str) -> str:
    return f"{order.id} refunded: {reason}"


@worker_task("count_orders")
def count_orders() -> int:
    return 42


with workflow("delivery", inputs={"parcels": list[str], "address": str}) as delivery:
    van = book_van(parcels=delivery.input("parcels"))
    delivery.returns(arrived=drive(van=van, address=delivery.input("address")))

with workflow("cancel_order", inputs={"order": Order, "reason": str}) as cancel_order:
    refund(order=cancel_order.input("order"), reason=cancel_order.input("reason"))

with workflow("order_pipeline", inputs={"order": Order}, on_failure=cancel_order, timeout_s=7 * 86400) as pipeline:
    order = pipeline.input("order")
    checked = check_order(order=order)
    with switch(checked.verdict) as case, case("large"):
        wait(task_ref_name="approval")
    receipt = step(charge_card, "pay")(order_id=order.id, cents=checked.cents, api_key="${workflow.secrets.BANK_KEY}")
    with each(order.lines) as line:
        parcel = pack_line(sku=line.sku, pieces=line.pieces)
    trip = delivery(parcels=collect(parcel), address=order.address)
    step(send_survey, "survey", optional=True, retries=0)(customer=order.customer)
    pipeline.returns(receipt=receipt, arrived=trip.arrived)

with workflow("nightly_report", cron="0 0 2 * * *", time_zone="Europe/Berlin") as nightly_report:
    nightly_report.returns(orders=count_orders())


if __name__ == "__main__":
    for one in (delivery, cancel_order, pipeline, nightly_report):
        one.validate()
    print(nightly_report.run())
