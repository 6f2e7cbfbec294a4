"""Durable steps in a `def`: the functions of `conductor.durable`, with the types of calls that block the thread.

    from conductor.durable import sync as durable

    @worker_task("onboard")
    def onboard(customer: str) -> dict:
        account = durable.step(create_account, customer)
        durable.sleep(days=1)
        return {"account": account}

The types show what a `def` gets. In an `async def`, use `conductor.durable` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor import durable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Any, TypeVar

    T = TypeVar("T")

    def step(
        function: Callable[..., T],
        *args: Any,
        name: str | None = None,
        retries: int = 0,
        retry_delay_s: float = 1.0,
        **kwargs: Any,
    ) -> T:
        """Call a function once, record its result, and return the recorded result on replay."""

    def sleep(
        seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0, name: str = "sleep"
    ) -> None:
        """Wait for a duration, which is the sum of the arguments."""

    def wait_for(name: str, *, timeout_s: float | None = None) -> dict[str, Any] | None:
        """Wait for a message to the workflow, and return it; None after the timeout."""

    def call(
        workflow: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the name that Conductor uses
        *,
        version: int | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Start a workflow, wait for its end, and return its output."""

    def now(*, name: str = "now") -> datetime:
        """Return the current time in UTC. A replay returns the same time."""

    def random(*, name: str = "random") -> float:
        """Return a random number from 0 to 1. A replay returns the same number."""

    def version(change: str) -> bool:
        """Return whether the task reached this line after the program was changed."""

else:
    step, sleep, wait_for, call = durable.step, durable.sleep, durable.wait_for, durable.call
    now, random, version = durable.now, durable.random, durable.version

__all__ = ["call", "now", "random", "sleep", "step", "version", "wait_for"]
