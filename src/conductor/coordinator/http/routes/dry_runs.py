"""Run workflows with mocked task outputs."""

from __future__ import annotations

import asyncio

from conductor.coordinator import dry_run
from conductor.coordinator.http.answer import JSON, Answer
from conductor.coordinator.http.permissions import check_definition
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access


async def run(request: ApiRequest) -> Answer:
    """POST /workflow/test: run a workflow in memory with mocked task outputs; return the workflow."""
    dry_run_request = request.json(dry_run.DryRunRequest)
    check_definition(request, dry_run_request.workflow_def)
    await request.offload_if_large(dry_run_request.check)
    definitions = await request.reader.read(dry_run.load_definitions)
    async with request.workflows.dry_run_slots:
        body = await asyncio.to_thread(dry_run.run, dry_run_request, definitions, request.core.clock.wall_ms())
    return Answer(200, body, JSON)


ROUTES = [Route("POST", "/api/workflow/test", run, Access.START, body=dry_run.DryRunRequest)]
