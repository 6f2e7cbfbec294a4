"""Lifespans: functions that set up a worker process before its first poll and clean up after its last task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from conductor.client.worker import registry
from conductor.client.worker.parameters import unwrap

F = TypeVar("F", bound=Callable[..., Any])


def worker_lifespan(function: F) -> F:
    """Set up a resource once per worker process, such as a pool, a model or a client.

    The part before `yield` runs before the first poll, the part after it when the last task has ended. The function is
    `def` or `async def`, with or without `@contextmanager` and `@asynccontextmanager`. Several lifespans run in the
    order of their decoration and clean up in reverse. Functions with a parameter `Annotated[Pool, Depends(pool)]`
    receive the yielded value. If the part before `yield` raises, the workers do not start.

    Example:
        @worker_lifespan
        async def pool() -> AsyncIterator[Pool]:
            async with create_pool() as pool:
                yield pool

    Raises:
        TypeError: The function does not yield.
    """
    inner = unwrap(function)
    if not (inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)):
        raise TypeError(
            "@worker_lifespan decorates a function with one `yield`: the code before it sets up, the code after it "
            f"cleans up; got {function!r}"
        )
    registry.register_lifespan(function)
    return function
