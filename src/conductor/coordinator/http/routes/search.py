"""Search workflows and tasks."""

from __future__ import annotations

from collections.abc import Callable

from conductor.coordinator.definitions.definition_snapshots import Snapshots
from conductor.coordinator.http.answer import Answer, as_json
from conductor.coordinator.http.request import ApiRequest
from conductor.coordinator.http.routing import Route
from conductor.coordinator.keys.roles import Access
from conductor.coordinator.store.transaction import Tx
from conductor.coordinator.views import search_query
from conductor.coordinator.views.search_query import Search, SearchPage


def read_search(request: ApiRequest) -> Search:
    """Return the search that a query string describes."""
    return Search(
        start=request.query_int("start", 0),
        size=request.query_int("size", 100),
        sort=request.query("sort"),
        free_text=request.query("freeText") or "*",
        query=request.query("query"),
    )


async def _search(request: ApiRequest, find: Callable[[Tx, Snapshots, Search], SearchPage]) -> Answer:
    search, snapshots = read_search(request), request.reader.snapshots
    return as_json(await request.reader.read_long(lambda tx: find(tx, snapshots, search)))


async def search_workflows(request: ApiRequest) -> Answer:
    """GET /workflow/search: return summaries of the workflows that match a query."""
    return await _search(request, search_query.search_workflows)


async def search_whole_workflows(request: ApiRequest) -> Answer:
    """GET /workflow/search-v2: return the workflows that match a query."""
    return await _search(request, search_query.search_whole_workflows)


async def search_workflows_by_tasks(request: ApiRequest) -> Answer:
    """GET /workflow/search-by-tasks: return summaries of the workflows with a task that matches a query."""
    return await _search(request, search_query.search_workflows_by_tasks)


async def search_whole_workflows_by_tasks(request: ApiRequest) -> Answer:
    """GET /workflow/search-by-tasks-v2: return the workflows with a task that matches a query."""
    return await _search(request, search_query.search_whole_workflows_by_tasks)


async def search_tasks(request: ApiRequest) -> Answer:
    """GET /tasks/search: return summaries of the tasks that match a query."""
    return await _search(request, search_query.search_tasks)


async def search_whole_tasks(request: ApiRequest) -> Answer:
    """GET /tasks/search-v2: return the tasks that match a query."""
    return await _search(request, search_query.search_whole_tasks)


#: Query parameters of every search.
SEARCH_PARAMETERS = {"start": "integer", "size": "integer", "sort": "string", "freeText": "string", "query": "string"}

ROUTES = [
    Route("GET", "/api/workflow/search", search_workflows, Access.READ, query=SEARCH_PARAMETERS),
    Route("GET", "/api/workflow/search-v2", search_whole_workflows, Access.READ, query=SEARCH_PARAMETERS),
    Route("GET", "/api/workflow/search-by-tasks", search_workflows_by_tasks, Access.READ, query=SEARCH_PARAMETERS),
    Route(
        "GET", "/api/workflow/search-by-tasks-v2", search_whole_workflows_by_tasks, Access.READ, query=SEARCH_PARAMETERS
    ),
    Route("GET", "/api/tasks/search", search_tasks, Access.READ, query=SEARCH_PARAMETERS),
    Route("GET", "/api/tasks/search-v2", search_whole_tasks, Access.READ, query=SEARCH_PARAMETERS),
]
