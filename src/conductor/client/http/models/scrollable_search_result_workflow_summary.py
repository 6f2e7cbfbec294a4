from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow_summary import WorkflowSummary


class ScrollableSearchResultWorkflowSummary(SearchResult[WorkflowSummary], kw_only=True):
    """A page of a search for workflows. Send `query_id` to get the next page."""

    query_id: str | None = None
