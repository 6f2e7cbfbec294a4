from dataclasses import dataclass
from typing import Literal

from conductor import worker_task
from conductor.client.workflow import fork, step, switch, wait, workflow


@dataclass
class Payment:
    status: Literal["paid", "refused"]
    receipt: str


@worker_task("quote")
def quote(sku: str, count: int = 1) -> float:
    return 19.99 * count


@worker_task("charge")
async def charge(order_id: str, amount: float) -> Payment:
    return Payment("paid", f"R-{order_id}")


@worker_task("notify")
def notify(to: str, text: str) -> None:
    print(to, text)


@worker_task("label")
def label(address: str) -> str:
    return f"to {address}"


with workflow("shipping", inputs={"address": str}) as shipping:
    shipping.returns(label=label(address=shipping.input("address")))

with workflow("order", inputs={"id": str, "sku": str, "address": str}) as order:
    price = quote(sku=order.input("sku"), count=2)
    pay = step(charge, "pay")(order_id=order.input("id"), amount=price)
    with fork() as branch:
        with branch():
            notify(to="shop", text=f"paid with {pay.receipt}")
        with branch():
            notify(to=order.input("address"), text="thank you")
    with switch(pay.status) as case:
        with case("paid"):
            parcel = shipping(address=order.input("address"))
        with case.otherwise():
            notify(to="boss", text="refused")
    wait(0)
    order.returns(receipt=pay.receipt, label=parcel.label)

print(order.run({"id": "A-1", "sku": "chair", "address": "Elm Street 1"}))
