"""One page of a search for executions, under its name in conductor-python."""

from __future__ import annotations

from conductor.client.http.models.search_result import SearchResult
from conductor.client.http.models.workflow import Workflow

__all__ = ["SearchResultWorkflow"]

SearchResultWorkflow = SearchResult[Workflow]
