"""One page of a search for executions, in short, under its name in conductor-python."""

from __future__ import annotations

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow_summary import WorkflowSummary

__all__ = ["SearchResultWorkflowSummary"]

SearchResultWorkflowSummary = SearchResult[WorkflowSummary]
