"""Searching."""

from __future__ import annotations

from conductor.coordinator.http.answer import Answer, as_json
from conductor.coordinator.http.request import Request
from conductor.coordinator.http.routing import Route
from conductor.coordinator.views import search_query


def asked_for(request: Request) -> search_query.Search:
    """What a search asks for, from the query of its request."""
    return search_query.Search(
        start=request.query_int("start", 0),
        size=request.query_int("size", 100),
        sort=request.query("sort"),
        free_text=request.query("freeText") or "*",
        query=request.query("query"),
    )


async def workflows(request: Request) -> Answer:
    """GET /workflow/search: workflow summaries by query, free text, sort and page."""
    asked = asked_for(request)
    return as_json(await request.core.read_long(lambda tx: search_query.workflows(tx, asked)))


async def whole_workflows(request: Request) -> Answer:
    """GET /workflow/search-v2: the same, with whole workflows."""
    asked, snapshots = asked_for(request), request.core.snapshots
    return as_json(await request.core.read_long(lambda tx: search_query.whole_workflows(tx, snapshots, asked)))


async def workflows_by_tasks(request: Request) -> Answer:
    """GET /workflow/search-by-tasks: summaries of the workflows that have such tasks."""
    asked = asked_for(request)
    return as_json(await request.core.read_long(lambda tx: search_query.workflows_by_tasks(tx, asked)))


async def whole_workflows_by_tasks(request: Request) -> Answer:
    """GET /workflow/search-by-tasks-v2: the same, with whole workflows."""
    asked, snapshots = asked_for(request), request.core.snapshots
    return as_json(await request.core.read_long(lambda tx: search_query.whole_workflows_by_tasks(tx, snapshots, asked)))


async def tasks(request: Request) -> Answer:
    """GET /tasks/search: task summaries by query, free text, sort and page."""
    asked, snapshots = asked_for(request), request.core.snapshots
    return as_json(await request.core.read_long(lambda tx: search_query.tasks(tx, snapshots, asked)))


async def whole_tasks(request: Request) -> Answer:
    """GET /tasks/search-v2: the same, with whole tasks."""
    asked, snapshots = asked_for(request), request.core.snapshots
    return as_json(await request.core.read_long(lambda tx: search_query.whole_tasks(tx, snapshots, asked)))


ASKED = {"start": "integer", "size": "integer", "sort": "string", "freeText": "string", "query": "string"}

ROUTES = [
    Route("GET", "/api/workflow/search", workflows, query=ASKED),
    Route("GET", "/api/workflow/search-v2", whole_workflows, query=ASKED),
    Route("GET", "/api/workflow/search-by-tasks", workflows_by_tasks, query=ASKED),
    Route("GET", "/api/workflow/search-by-tasks-v2", whole_workflows_by_tasks, query=ASKED),
    Route("GET", "/api/tasks/search", tasks, query=ASKED),
    Route("GET", "/api/tasks/search-v2", whole_tasks, query=ASKED),
]
