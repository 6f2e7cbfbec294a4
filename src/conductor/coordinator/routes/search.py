"""Searching."""

from __future__ import annotations

from conductor.coordinator import search
from conductor.coordinator.app import Answer, Request, Route, as_json


def _asked(request: Request) -> search.Search:
    return search.Search(
        start=request.integer("start", 0),
        size=request.integer("size", 100),
        sort=request.query("sort"),
        free_text=request.query("freeText") or "*",
        query=request.query("query"),
    )


async def workflows(request: Request) -> Answer:
    """GET /workflow/search: workflow summaries by query, free text, sort and page."""
    asked = _asked(request)
    return as_json(await request.core.read(lambda tx: search.workflows(tx, asked)))


async def whole_workflows(request: Request) -> Answer:
    """GET /workflow/search-v2: the same, with whole workflows."""
    asked, snapshots = _asked(request), request.core.snapshots
    return as_json(await request.core.read(lambda tx: search.whole_workflows(tx, snapshots, asked)))


async def workflows_by_tasks(request: Request) -> Answer:
    """GET /workflow/search-by-tasks: summaries of the workflows that have such tasks."""
    asked = _asked(request)
    return as_json(await request.core.read(lambda tx: search.workflows_by_tasks(tx, asked)))


async def whole_workflows_by_tasks(request: Request) -> Answer:
    """GET /workflow/search-by-tasks-v2: the same, with whole workflows."""
    asked, snapshots = _asked(request), request.core.snapshots
    return as_json(await request.core.read(lambda tx: search.whole_workflows_by_tasks(tx, snapshots, asked)))


async def tasks(request: Request) -> Answer:
    """GET /tasks/search: task summaries by query, free text, sort and page."""
    asked, snapshots = _asked(request), request.core.snapshots
    return as_json(await request.core.read(lambda tx: search.tasks(tx, snapshots, asked)))


async def whole_tasks(request: Request) -> Answer:
    """GET /tasks/search-v2: the same, with whole tasks."""
    asked, snapshots = _asked(request), request.core.snapshots
    return as_json(await request.core.read(lambda tx: search.whole_tasks(tx, snapshots, asked)))


_ASKED = {"start": "integer", "size": "integer", "sort": "string", "freeText": "string", "query": "string"}

ROUTES = [
    Route("GET", "/api/workflow/search", workflows, query=_ASKED),
    Route("GET", "/api/workflow/search-v2", whole_workflows, query=_ASKED),
    Route("GET", "/api/workflow/search-by-tasks", workflows_by_tasks, query=_ASKED),
    Route("GET", "/api/workflow/search-by-tasks-v2", whole_workflows_by_tasks, query=_ASKED),
    Route("GET", "/api/tasks/search", tasks, query=_ASKED),
    Route("GET", "/api/tasks/search-v2", whole_tasks, query=_ASKED),
]
