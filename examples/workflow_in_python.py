"""A typed workflow of eight steps; mistakes in it are found when it is built. Ends by itself."""

from typing import Literal

from conductor import worker_task
from conductor.client.workflow import fork, switch, wait, workflow


@worker_task("charge")
def charge(order_id: str, amount: float) -> Literal["paid", "refused"]:
    return "paid" if order_id and amount < 100 else "refused"


@worker_task("notify")
def notify(to: str, text: str = "") -> str:
    return f"{to}: {text}"


with workflow("shipping", inputs={"address": str}) as shipping:
    shipping.returns(label=notify(to=shipping.input("address"), text="a parcel"))

with workflow("order", inputs={"id": str, "price": float, "address": str}) as order:
    pay = charge(order_id=order.input("id"), amount=order.input("price"))
    with fork() as branch:
        with branch():
            notify(to="shop", text=f"order {order.input('id')} is paid")
        with branch():
            notify(to=order.input("address"), text="thank you")
    with switch(pay) as case:
        with case("paid"):
            parcel = shipping(address=order.input("address"))
        with case("refused"):
            notify(to="boss")
    wait(1)
    order.returns(status=pay, label=parcel.label)

if __name__ == "__main__":
    print(order.run({"id": "A-1", "price": 5, "address": "Elm Street 1"}))
