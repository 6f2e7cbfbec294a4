"""Workers with lifespans, as a program has them in a module of its own: worker processes import them by name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated

from conductor import Depends, worker_lifespan, worker_task


def note(text: str) -> None:
    """Append a line to the test's file: one write, so that lines of several processes do not mix."""
    with Path(os.environ["LIFESPAN_LOG"]).open("a") as log:
        log.write(f"{os.getpid()} {text}\n")


@worker_lifespan
async def pool() -> AsyncIterator[str]:
    """An async one, whose value is asked for below."""
    if os.environ.get("LIFESPAN_FAILS") or Path(os.environ["LIFESPAN_LOG"] + ".fails").exists():
        raise OSError("no database at db.example.com")
    note("pool up")
    yield "the pool"
    note("pool down")


@worker_lifespan
def model() -> Iterator[None]:
    """A sync one."""
    note("model up")
    yield
    note("model down")


@worker_task("ask", idle_poll_timeout=100)
async def ask(question: str, using: Annotated[str, Depends(pool)]) -> dict[str, object]:
    """Says what it was given, and by which process."""
    note("ask")
    return {"answer": f"{question} with {using}", "pid": os.getpid()}


@worker_task("tell", idle_poll_timeout=100)
def tell(using: Annotated[str, Depends(pool)]) -> dict[str, object]:
    """The version of `ask` as a `def`."""
    note("tell")
    return {"answer": using, "pid": os.getpid()}
