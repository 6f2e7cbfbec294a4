"""Lists the newest workflows of a server: from the coordinator's view, or by a Conductor server's search."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from conductor.cli.support import UserError
from conductor.cli.workflow_details import read_view
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.errors import ApiException
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow_summary import WorkflowSummary
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.protocol.views import WorkflowEntry, WorkflowPage

#: Number of workflows on one page; a coordinator returns no more at once.
PAGE_SIZE = 200
#: The size of a search without a limit. No search has more results.
NO_LIMIT = 10**9
LIMITATION = (
    "A Conductor server lists the workflows in its index, which may lag; `workflow show ID` says why a workflow waits"
)


class WorkflowFilter(NamedTuple):
    """The conditions that a listed workflow meets, and the maximum number of workflows. None and () match all."""

    statuses: tuple[str, ...] = ()
    name: str | None = None
    correlation_id: str | None = None
    text: str | None = None
    since_ms: int | None = None
    size: int = 20


class FoundWorkflows(NamedTuple):
    """The newest matching workflows, and whether more match."""

    entries: list[WorkflowEntry]
    more: bool
    #: Number of all matches, if the server returns it.
    total: int | None = None
    #: A note for users about the limits of a Conductor server's list.
    limitation: str | None = None


async def find_newest(api: AsyncApiClient, wanted: WorkflowFilter) -> FoundWorkflows:
    """Return the newest matching workflows; raise ConductorError if the server does not answer."""
    page = await _page_of_coordinator(api, wanted, None)
    if page is None:
        return await _from_search(api, wanted)
    found: list[WorkflowEntry] = []
    while True:
        new = [entry for entry in page.results if _matches(entry, wanted)]
        found += new
        is_past = wanted.since_ms is not None and any(one.start_time < wanted.since_ms for one in page.results)
        if len(found) > wanted.size or page.next is None or is_past:
            return FoundWorkflows(found[: wanted.size], more=len(found) > wanted.size)
        page = await _page_of_coordinator(api, wanted, page.next) or WorkflowPage(now_ms=0, results=[])


async def _page_of_coordinator(api: AsyncApiClient, wanted: WorkflowFilter, before: str | None) -> WorkflowPage | None:
    query = {
        "status": ",".join(wanted.statuses) or None,
        "name": wanted.name,
        "text": wanted.correlation_id or wanted.text,
        "before": before,
        # Request one entry more than needed, to find out whether there are more.
        "size": min(PAGE_SIZE, wanted.size + 1),
    }
    page: WorkflowPage | None = await read_view(api, "/view/workflows", WorkflowPage, **query)
    return page


def _matches(entry: WorkflowEntry, wanted: WorkflowFilter) -> bool:
    """Return whether an entry meets all conditions.

    A coordinator cannot filter by start time and by correlation id. It ignores the other filters if the text is a
    workflow id.
    """
    if wanted.since_ms is not None and entry.start_time < wanted.since_ms:
        return False
    if wanted.correlation_id is not None and entry.correlation_id != wanted.correlation_id:
        return False
    if wanted.statuses and entry.status not in wanted.statuses:
        return False
    if wanted.name is not None and entry.name != wanted.name:
        return False
    if not (wanted.text and wanted.correlation_id):
        return True
    part = wanted.text.lower()
    return any(part in text.lower() for text in (entry.workflow_id, entry.name, entry.correlation_id or ""))


async def _from_search(api: AsyncApiClient, wanted: WorkflowFilter) -> FoundWorkflows:
    clauses = []
    for field, values in (
        ("workflowType", [wanted.name] if wanted.name else []),
        ("status", wanted.statuses),
        ("correlationId", [wanted.correlation_id] if wanted.correlation_id else []),
    ):
        if values:
            clauses.append(f"{field} IN ({','.join(_check_value(value) for value in values)})")
    if wanted.since_ms is not None:
        clauses.append(f"startTime>{wanted.since_ms}")
    found = await search_all(api, " AND ".join(clauses), "startTime:DESC", wanted.size, free_text=wanted.text or "*")
    entries = [entry_of(summary) for summary in found.results]
    return FoundWorkflows(entries, found.total_hits > len(entries), found.total_hits, LIMITATION)


async def find_ended(
    api: AsyncApiClient, statuses: Sequence[str], before_ms: int, name: str | None
) -> list[WorkflowEntry]:
    """Return all workflows that ended before a time, oldest first. Raise ConductorError if the search fails."""
    clauses = [f"status IN ({','.join(statuses)})", f"startTime<{before_ms}"]
    if name is not None:
        clauses.append(f"workflowType IN ({_check_value(name)})")
    found = await search_all(api, " AND ".join(clauses), "startTime:ASC", NO_LIMIT)
    entries = [entry_of(summary) for summary in found.results]
    return [entry for entry in entries if entry.end_time is not None and entry.end_time < before_ms]


async def search_all(
    api: AsyncApiClient, query: str, sort: str, size: int, *, free_text: str = "*"
) -> SearchResult[WorkflowSummary]:
    """Return the first `size` matches, page by page, because servers limit the number and the bytes of one answer."""
    workflows, step = AsyncWorkflowClient(api), PAGE_SIZE
    found: SearchResult[WorkflowSummary] = SearchResult()
    while len(found.results) < size:
        start, wanted = len(found.results), min(step, size - len(found.results))
        try:
            page = await workflows.search(start=start, size=wanted, free_text=free_text, query=query, sort=sort)
        except ApiException as error:
            if error.status != 400 or step == 1:
                raise
            step //= 2  # request a smaller page, because this one may have been too large for one answer
            continue
        found.total_hits = page.total_hits
        found.results += page.results
        if not page.results or len(found.results) >= page.total_hits:
            break
    return found


def _check_value(text: str) -> str:
    """Return the text for use in a search query. Raise UserError if the query language cannot express it."""
    if any(char in text for char in "'\"(),\n"):
        raise UserError(
            f"this server cannot be searched for {text!r}: remove quotes, commas, parentheses and line ends"
        )
    return text


def entry_of(summary: WorkflowSummary) -> WorkflowEntry:
    """Convert a search result to a list entry."""
    return WorkflowEntry(
        workflow_id=summary.workflow_id,
        name=summary.workflow_type,
        version=summary.version,
        status=summary.status,
        correlation_id=summary.correlation_id,
        start_time=_ms(summary.start_time) or 0,
        end_time=_ms(summary.end_time),
        reason=summary.reason_for_incompletion,
    )


def _ms(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
