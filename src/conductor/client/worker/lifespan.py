"""What surrounds the work of a process: set up before its first poll, torn down after its last task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from conductor.client.worker import registry
from conductor.client.worker.parameters import unwrap

F = TypeVar("F", bound=Callable[..., Any])


def worker_lifespan(function: F) -> F:
    """Set something up once per worker process: a pool, a model, a client.

        @worker_lifespan
        async def pool() -> AsyncIterator[Pool]:
            async with create_pool() as made:
                yield made

    The part before `yield` runs before the first poll, the part after it when the last task has ended. `def` and
    `async def` both do, with or without `@contextmanager` and `@asynccontextmanager`. Several are set up in the order
    in which they were decorated, and torn down in reverse. What is yielded goes to functions that ask for it with
    `Annotated[Pool, Depends(pool)]`. An error before the `yield` ends the start, with its reason.
    """
    behind = unwrap(function)
    if not (inspect.isgeneratorfunction(behind) or inspect.isasyncgenfunction(behind)):
        raise TypeError(
            "@worker_lifespan decorates a function with one `yield`: what stands before it sets up, what stands after "
            f"it tears down; got {function!r}"
        )
    registry.register_lifespan(function)
    return function
