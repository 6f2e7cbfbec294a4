"""A coordinator in a process of its own, with work on it, so that the worker's CPU is the worker's alone."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from conductor.client.configuration.configuration import Configuration
from conductor.client.http.async_api_client import AsyncApiClient


def _serve(database: str, ready: Connection) -> None:
    from conductor.coordinator import Coordinator

    with Coordinator(database=database) as coordinator:
        ready.send(coordinator.url)
        ready.recv()


@contextmanager
def coordinator() -> Iterator[str]:
    """The URL of a coordinator that lives for the block."""
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as directory:
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(str(Path(directory) / "bench.db"), theirs)
        )
        process.start()
        try:
            yield ours.recv()
        finally:
            ours.send("stop")
            process.join()


async def fill(url: str, task_type: str, count: int, *, parallel: int = 32) -> None:
    """Put `count` tasks of the type on the server, each a workflow of its own."""
    client = AsyncApiClient(Configuration(url))
    task = {"name": task_type, "taskReferenceName": "one", "type": "SIMPLE"}
    task["inputParameters"] = {"n": "${workflow.input.n}"}  # type: ignore[assignment]
    definition = {"name": task_type, "version": 1, "schemaVersion": 2, "tasks": [task]}
    await client.call("POST", "/metadata/workflow?overwrite=true", body=msgspec.json.encode(definition))
    todo = iter(range(count))

    async def start_some() -> None:
        for n in todo:
            answer = await client.call("POST", f"/workflow/{task_type}", body=b'{"n":%d}' % n)
            if answer.status != 200:
                raise RuntimeError(f"the workflow was not started: {answer.body!r}")

    await asyncio.gather(*(start_some() for _ in range(parallel)))
    await client.close()
