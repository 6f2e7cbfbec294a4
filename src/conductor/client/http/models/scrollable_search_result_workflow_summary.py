"""One page of a search for executions, in short, that a server can go on with."""

from __future__ import annotations

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow_summary import WorkflowSummary


class ScrollableSearchResultWorkflowSummary(SearchResult[WorkflowSummary], kw_only=True):
    """One page of a search. `query_id` asks a server that sends one for the next page."""

    query_id: str | None = None
