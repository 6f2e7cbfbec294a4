"""The cost of a progress update in a running task, as multiples of a bare call. At most one call a second is sent."""

from __future__ import annotations

import time
from collections.abc import Callable

from conductor.client.context.task_context import TaskContext, get_task_context, task_context
from conductor.client.http.models.task import Task

CALLS = 200_000
ROUNDS = 5


def bare_call(done: float, total: float | None = None, note: str | None = None) -> None:
    """Do nothing with the arguments of a progress update, as the base of the ratios."""


def cost_ns(call: Callable[[int], object]) -> float:
    """Return the nanoseconds per call of the fastest round, because other load can only make a round slower."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for number in range(CALLS):
            call(number)
        best = min(best, time.perf_counter() - started)
    return best / CALLS * 1e9


def main() -> None:
    """Print the cost of progress updates as a table."""
    context = TaskContext(Task(task_id="t", task_def_name="bench"))
    context.on_news = lambda: None
    context.progress(0)  # the first update requests a heartbeat; later updates do not, until that heartbeat is sent
    rows: dict[str, Callable[[int], object]] = {
        "a bare call": lambda n: bare_call(n, CALLS, "training"),
        "context.progress(n, total, note)": lambda n: context.progress(n, CALLS, "training"),
        "get_task_context().progress(n)": lambda n: get_task_context().progress(n),
    }
    with task_context(context):
        bare_ns = cost_ns(rows["a bare call"])
        print(f"{'a call that is not sent':<42}{'ns':>8}{'× bare call':>14}")
        for name, call in rows.items():
            ns = cost_ns(call)
            print(f"{name:<42}{ns:>8.0f}{ns / bare_ns:>14.1f}")


if __name__ == "__main__":
    main()
