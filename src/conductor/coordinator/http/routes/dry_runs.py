"""Run workflows with mocked task outputs."""

from __future__ import annotations

import asyncio

from conductor.coordinator import dry_run
from conductor.coordinator.http.answer import JSON, Answer
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routing import Route


async def run(request: Request) -> Answer:
    """POST /workflow/test: run a workflow in memory with mocked task outputs; return the workflow."""
    asked = request.json(dry_run.DryRunRequest)
    await request.offload_if_large(asked.check)
    known = await request.core.read(dry_run.definitions)
    async with request.core.trials:
        body = await asyncio.to_thread(dry_run.run, asked, known, request.core.clock.wall_ms())
    return Answer(200, body, JSON)


ROUTES = [Route("POST", "/api/workflow/test", run, body=dry_run.DryRunRequest)]
