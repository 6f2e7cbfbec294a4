"""The newest workflows of a server that match: a coordinator says why they wait, a plain server is searched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from conductor.cli.support import UserError
from conductor.cli.workflow_details import ask_view
from conductor.client.http.async_api_client import AsyncApiClient
from conductor.client.http.errors import ApiException
from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow_summary import WorkflowSummary
from conductor.client.workflow_client import AsyncWorkflowClient
from conductor.protocol.views import WorkflowEntry, WorkflowPage

#: What one answer of a coordinator has at most, and what is asked of a plain server at once.
PAGE = 200
#: More than any search finds.
EVERYTHING = 10**9
CANNOT_TELL = "A plain Conductor server lists what its index has, which may lag; why each one waits: workflow show ID"


class Asked(NamedTuple):
    """Which workflows are wanted."""

    statuses: tuple[str, ...] = ()
    name: str | None = None
    correlation_id: str | None = None
    text: str | None = None
    since_ms: int | None = None
    size: int = 20


class Found(NamedTuple):
    """What was found, and whether there is more."""

    entries: list[WorkflowEntry]
    more: bool
    #: How many match in all, where the server says.
    total: int | None = None
    cannot_tell: str | None = None


async def find_recent(api: AsyncApiClient, asked: Asked) -> Found:
    """The newest that match. Raises ConductorError."""
    page = await _page_of_coordinator(api, asked, None)
    if page is None:
        return await _from_search(api, asked)
    found: list[WorkflowEntry] = []
    while True:
        new = [entry for entry in page.results if _matches(entry, asked)]
        found += new
        is_past = asked.since_ms is not None and any(one.start_time < asked.since_ms for one in page.results)
        if len(found) > asked.size or page.next is None or is_past:
            return Found(found[: asked.size], more=len(found) > asked.size)
        page = await _page_of_coordinator(api, asked, page.next) or WorkflowPage(now_ms=0, results=[])


async def _page_of_coordinator(api: AsyncApiClient, asked: Asked, before: str | None) -> WorkflowPage | None:
    query = {
        "status": ",".join(asked.statuses) or None,
        "name": asked.name,
        "text": asked.correlation_id or asked.text,
        "before": before,
        # One more than is shown says whether there is more.
        "size": min(PAGE, asked.size + 1),
    }
    page: WorkflowPage | None = await ask_view(api, "/view/workflows", WorkflowPage, **query)
    return page


def _matches(entry: WorkflowEntry, asked: Asked) -> bool:
    """What the coordinator was not asked for; it finds a text as an id whatever else was asked."""
    if asked.since_ms is not None and entry.start_time < asked.since_ms:
        return False
    if asked.correlation_id is not None and entry.correlation_id != asked.correlation_id:
        return False
    if asked.statuses and entry.status not in asked.statuses:
        return False
    if asked.name is not None and entry.name != asked.name:
        return False
    if not (asked.text and asked.correlation_id):
        return True
    wanted = asked.text.lower()
    return any(wanted in text.lower() for text in (entry.workflow_id, entry.name, entry.correlation_id or ""))


async def _from_search(api: AsyncApiClient, asked: Asked) -> Found:
    clauses = []
    for field, values in (
        ("workflowType", [asked.name] if asked.name else []),
        ("status", asked.statuses),
        ("correlationId", [asked.correlation_id] if asked.correlation_id else []),
    ):
        if values:
            clauses.append(f"{field} IN ({','.join(_value(value) for value in values)})")
    if asked.since_ms is not None:
        clauses.append(f"startTime>{asked.since_ms}")
    found = await search_all(api, " AND ".join(clauses), "startTime:DESC", asked.size, free_text=asked.text or "*")
    entries = [entry_of(summary) for summary in found.results]
    return Found(entries, found.total_hits > len(entries), found.total_hits, CANNOT_TELL)


async def find_ended(
    api: AsyncApiClient, statuses: Sequence[str], before_ms: int, name: str | None
) -> list[WorkflowEntry]:
    """All that ended before a moment, the oldest first. Raises ConductorError."""
    clauses = [f"status IN ({','.join(statuses)})", f"startTime<{before_ms}"]
    if name is not None:
        clauses.append(f"workflowType IN ({_value(name)})")
    found = await search_all(api, " AND ".join(clauses), "startTime:ASC", EVERYTHING)
    entries = [entry_of(summary) for summary in found.results]
    return [entry for entry in entries if entry.end_time is not None and entry.end_time < before_ms]


async def search_all(
    api: AsyncApiClient, query: str, sort: str, size: int, *, free_text: str = "*"
) -> SearchResult[WorkflowSummary]:
    """The first of all that match, page by page: one answer has a limit, also in bytes."""
    workflows, step = AsyncWorkflowClient(api), PAGE
    found: SearchResult[WorkflowSummary] = SearchResult()
    while len(found.results) < size:
        start, wanted = len(found.results), min(step, size - len(found.results))
        try:
            page = await workflows.search(start=start, size=wanted, free_text=free_text, query=query, sort=sort)
        except ApiException as error:
            if error.status != 400 or step == 1:
                raise
            step //= 2  # maybe they were too large to be sent together
            continue
        found.total_hits = page.total_hits
        found.results += page.results
        if not page.results or len(found.results) >= page.total_hits:
            break
    return found


def _value(text: str) -> str:
    """A value inside of a search. The language has no way to write these characters."""
    if any(char in text for char in "'\"(),\n"):
        raise UserError(f"this server cannot be searched for {text!r}: no quotes, commas, parentheses or line ends")
    return text


def entry_of(summary: WorkflowSummary) -> WorkflowEntry:
    """What a search says of a workflow."""
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
