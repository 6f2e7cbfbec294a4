"""A page of a search for workflow summaries."""

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow_summary import WorkflowSummary

__all__ = ["SearchResultWorkflowSummary"]

SearchResultWorkflowSummary = SearchResult[WorkflowSummary]
