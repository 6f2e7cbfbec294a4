"""The cost of typed input, as multiples of a bare call with the same values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conductor.client.http.models.task import Task
from conductor.client.worker.signature import read_signature

CALLS = 20_000
ROUNDS = 5
INPUT = {"order_id": "A-1", "amount": 12.5, "quantity": 3, "express": True, "note": None}


@dataclass
class Order:
    order_id: str
    amount: float
    quantity: int
    express: bool
    note: str | None = None


def bare(order: dict[str, Any]) -> object:
    return order


def takes_order(order: Order) -> object:
    return order


def takes_dict(order: dict[str, Any]) -> object:
    return order


def takes_task(task: Task) -> object:
    return task


def _bound(function: Callable[..., object], task: Task) -> Callable[[], object]:
    signature = read_signature(function)

    def call() -> object:
        args, kwargs = signature.bind(task, strict=False)
        return function(*args, **kwargs)

    return call


def _cost_us(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, time.perf_counter() - started)
    return best / CALLS * 1e6


def main() -> None:
    task = Task(task_id="t", input_data={"order": INPUT})
    rows = {
        "a bare call": lambda: bare(INPUT),
        "the whole Task": _bound(takes_task, task),
        "a plain dict": _bound(takes_dict, task),
        "a dataclass of five fields": _bound(takes_order, task),
    }
    costs = {name: _cost_us(call) for name, call in rows.items()}
    base = costs["a bare call"]
    for name, cost in costs.items():
        print(f"{name:28} {cost:7.2f} µs {cost / base:7.1f} x")


if __name__ == "__main__":
    main()
