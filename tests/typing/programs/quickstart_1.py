# orders.py
from dataclasses import dataclass

from conductor import NonRetryableException, worker_task
from conductor.client.workflow import workflow


@dataclass
class Order:
    item: str
    pieces: int


@worker_task("check_order")
def check_order(order: Order) -> int:
    if order.pieces < 1:
        raise NonRetryableException(f"{order.pieces} pieces of {order.item}")
    return order.pieces * 1999


@worker_task("charge_order", thread_count=10)
def charge_order(cents: int) -> str:
    return f"R-{cents}"


with workflow("buy", inputs={"order": Order}) as buy:
    cents = check_order(order=buy.input("order"))
    receipt = charge_order(cents=cents)
    buy.returns(receipt=receipt)

if __name__ == "__main__":
    print(buy.run({"order": {"item": "lamp", "pieces": 2}}))  # {'receipt': 'R-3998'}
